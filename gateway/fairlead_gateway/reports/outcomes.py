"""Maps the failure of an attempt to its outcome for the tool. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_api.reports import BAD, NEUTRAL
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import HttpRefused, McpError, PoolFull, RpcError


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


_decode = msgspec.json.Decoder(_Result).decode
_OF_THE_CALL = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.MISSING_CLIENT_CAPABILITY})


def outcome_of(error: Exception) -> str:
    """BAD for what the server or the way to it is to blame for, NEUTRAL for what the call or the gateway is."""
    if not isinstance(error, McpError) or isinstance(error, PoolFull):
        return NEUTRAL
    if isinstance(error, RpcError):
        return NEUTRAL if error.code in _OF_THE_CALL else BAD
    if isinstance(error, HttpRefused):
        return NEUTRAL if error.status in (401, 403, 429) else BAD
    return BAD


def says_success(result: Raw) -> bool:
    """Whether a raw `tools/call` result does not say that the tool failed."""
    try:
        return not _decode(result).is_error
    except jsonrpc.UNREADABLE:
        return False
