"""Members of a tool's result and of a server's notifications that the gateway reads.

Declarations only; apart from `calls.translate` and `calls.message_relay` because a msgspec Struct is not compiled.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import progress_token


class Result(msgspec.Struct):
    """Members of a result that are read. Types are checked, so that no client gets `isError: "yes"`."""

    is_error: bool = msgspec.field(name="isError", default=False)
    result_type: str | UnsetType = msgspec.field(name="resultType", default=UNSET)
    meta: Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


class Progress(msgspec.Struct):
    """Token of the request that a progress notification belongs to."""

    token: Raw = msgspec.field(name=progress_token.NAME)


class Level(msgspec.Struct):
    """Severity of a log message."""

    level: str
