"""Maps the error or the result of an attempt to its outcome in the tool's statistics. Pure."""

from __future__ import annotations

from msgspec import Raw

from fairlead_api.reports import BAD, NEUTRAL, OK, UNREADABLE
from fairlead_mcp import jsonrpc, tool_results
from fairlead_mcp.errors import ArgumentsRefused, HttpRefused, McpError, PoolFull, ProtocolError, RpcError
from fairlead_mcp.url_elicitation import URL_ELICITATION_REQUIRED

_CALL_ERROR_CODES = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.MISSING_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""JSON-RPC errors that were caused by the call or its user, not by the server."""


def outcome_of(error: Exception) -> str:
    """Outcome of a failed attempt: BAD if the server or the network caused it, UNREADABLE for a response that is not
    valid MCP, NEUTRAL if the call or the gateway caused it.
    """
    if not isinstance(error, McpError) or isinstance(error, PoolFull | ArgumentsRefused):
        return NEUTRAL
    if isinstance(error, RpcError):
        return NEUTRAL if error.code in _CALL_ERROR_CODES else BAD
    if isinstance(error, HttpRefused):
        return NEUTRAL if error.status in (401, 403, 429) else BAD
    return UNREADABLE if isinstance(error, ProtocolError) else BAD


def outcome_of_refusal(error: Exception) -> str:
    """Outcome of an attempt whose result the gateway rejected: UNREADABLE if the result could not be decoded, else
    NEUTRAL.
    """
    # `__context__` and not `__cause__`, because mypyc drops the cause of a `raise … from`
    is_undecodable = isinstance(error, RecursionError) or isinstance(error.__context__, jsonrpc.UNREADABLE)
    return UNREADABLE if is_undecodable else NEUTRAL


def outcome_of_result(result: Raw) -> str:
    """Outcome of an attempt, by its raw `tools/call` result: NEUTRAL if `isError` is set, UNREADABLE if the result is
    invalid, else OK."""
    try:
        head = jsonrpc.decode_result_head(tool_results.conform(result))
    except jsonrpc.UNREADABLE:
        return UNREADABLE
    return NEUTRAL if head.is_error else OK
