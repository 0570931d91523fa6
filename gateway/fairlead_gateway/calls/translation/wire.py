"""Members of a server's notifications that the gateway reads.

Separate from `translate` and `message_relay`, because mypyc cannot compile msgspec Structs.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_mcp import progress_token


class Progress(msgspec.Struct):
    """Token of the request that a progress notification belongs to."""

    token: Raw = msgspec.field(name=progress_token.NAME)


class Level(msgspec.Struct):
    """Severity of a log message."""

    level: str
