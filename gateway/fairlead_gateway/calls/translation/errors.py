"""JSON-RPC errors for errors of servers and refusals of the gateway, in the terms of the client's era. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, RpcError
from fairlead_tools import refusals
from fairlead_tools.refusal import META_ERROR, Refusal

ANSWER_ERRORS: Final = (McpError, RecursionError)
"""Exceptions that a server's answer can lead to. Decoding takes of the interpreter's stack: an answer that one step
could read may be nested too deeply for another that is called from further down.
"""
TOO_DEEP: Final = "the server's answer is nested too deeply"
_FOR_THE_CLIENT: Final = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Errors of a modern server that its modern client can act on."""


def is_for_the_client(request: McpRequest, error: McpError) -> bool:
    """Whether an error of a tool is passed on as it is, as the model has no part in it: a capability that the client
    lacks, or answers and a state that the server refuses.
    """
    if not request.modern or not isinstance(error, RpcError):
        return False
    return error.code in _FOR_THE_CLIENT or (error.code == jsonrpc.INVALID_PARAMS and request.continued)


def rejection_for(request: McpRequest, error: McpError) -> Rejection:
    """The JSON-RPC error for an error of the wire: in the server's own words where it gave some."""
    if isinstance(error, RpcError):
        code = error.code
        if request.modern and code == jsonrpc.RESOURCE_NOT_FOUND:
            code = jsonrpc.INVALID_PARAMS
        status = eras.status_for(code) if request.modern else 200
        return Rejection(status, code, error.message, request.id, error.data)
    return rejection_of(request, refusals.refusal_for(error))


def rejection_of(request: McpRequest, refusal: Refusal) -> Rejection:
    """The JSON-RPC error for a refusal, with its code in `data`."""
    return Rejection(200, jsonrpc.INTERNAL_ERROR, refusal.message, request.id, jsonrpc.encode(detail_of(refusal)))


def detail_of(refusal: Refusal) -> dict[str, dict[str, str]]:
    """`data` of the JSON-RPC error for a refusal."""
    return {META_ERROR: {"code": refusal.code, "message": refusal.message}}
