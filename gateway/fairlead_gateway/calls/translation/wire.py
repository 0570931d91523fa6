"""Members that the gateway reads in the params of a server's notifications.

Separate from `translate` and `message_relay`, because mypyc cannot compile msgspec Structs.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_mcp import progress_token


class Progress(msgspec.Struct):
    """Params of `notifications/progress`: the token of the request that the progress belongs to."""

    token: Raw = msgspec.field(name=progress_token.NAME)


class Level(msgspec.Struct):
    """Params of `notifications/message`: the severity of the log message."""

    level: str
