"""Maps the failure of an attempt, or what it was answered with, to its outcome for the tool. Pure."""

from __future__ import annotations

from msgspec import Raw

from fairlead_api.reports import BAD, NEUTRAL, OK, UNREADABLE
from fairlead_mcp import jsonrpc, tool_results
from fairlead_mcp.errors import HttpRefused, McpError, PoolFull, ProtocolError, RpcError

_OF_THE_CALL = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.MISSING_CLIENT_CAPABILITY})


def outcome_of(error: Exception) -> str:
    """BAD for what the server or the way to it is to blame for, UNREADABLE for an answer that is not MCP, NEUTRAL for
    what the call or the gateway is to blame for.
    """
    if not isinstance(error, McpError) or isinstance(error, PoolFull):
        return NEUTRAL
    if isinstance(error, RpcError):
        return NEUTRAL if error.code in _OF_THE_CALL else BAD
    if isinstance(error, HttpRefused):
        return NEUTRAL if error.status in (401, 403, 429) else BAD
    return UNREADABLE if isinstance(error, ProtocolError) else BAD


def outcome_of_refusal(error: Exception) -> str:
    """UNREADABLE for a result that could not be decoded, NEUTRAL for one that is refused for another reason."""
    # the context, as mypyc drops the cause of a `raise … from`
    undecodable = isinstance(error, RecursionError) or isinstance(error.__context__, jsonrpc.UNREADABLE)
    return UNREADABLE if undecodable else NEUTRAL


def outcome_of_result(result: Raw) -> str:
    """OK for a raw `tools/call` result, NEUTRAL where it says that the tool failed, UNREADABLE for what is none."""
    try:
        head = jsonrpc.decode_result_head(tool_results.conform(result))
    except jsonrpc.UNREADABLE:
        return UNREADABLE
    return NEUTRAL if head.is_error else OK
