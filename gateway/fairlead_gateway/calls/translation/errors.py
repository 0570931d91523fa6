"""Converts errors of servers and refusals of the gateway to JSON-RPC errors of the client's era. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, RpcError
from fairlead_mcp.url_elicitation import URL_ELICITATION_REQUIRED
from fairlead_tools import refusals
from fairlead_tools.refusal import META_ERROR, Refusal

ANSWER_ERRORS: Final = (McpError, RecursionError)
"""Exceptions caused by a server's answer. RecursionError is one of them, because decoding uses the interpreter's stack:
an answer that was decoded once may be nested too deeply for a second decoding, with less of the stack left.
"""
TOO_DEEP: Final = "the server's answer is nested too deeply"
_FOR_THE_CLIENT: Final = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Error codes of a modern server that a modern client can handle itself."""


def is_for_the_client(request: McpRequest, error: McpError) -> bool:
    """Whether an error of a tool call is forwarded as a JSON-RPC error, instead of as a result for the model.

    The client, not the model, has to handle a missing capability, and the rejection of its answers or `requestState`.
    """
    if not request.modern or not isinstance(error, RpcError):
        return False
    return error.code in _FOR_THE_CLIENT or (error.code == jsonrpc.INVALID_PARAMS and request.continued)


def rejection_for(request: McpRequest, error: McpError) -> Rejection:
    """The JSON-RPC error for a failed request: the server's own error if it sent one, otherwise a refusal's.

    The error -32042 is replaced too: only some clients know it, and they get it from `calls.path.page_answers`.
    """
    if isinstance(error, RpcError) and error.code != URL_ELICITATION_REQUIRED:
        code = error.code
        if request.modern and code == jsonrpc.RESOURCE_NOT_FOUND:
            code = jsonrpc.INVALID_PARAMS
        status = eras.status_for(code) if request.modern else 200
        return Rejection(status, code, error.message, request.id, error.data)
    return rejection_of(request, refusals.refusal_for(error))


def rejection_of(request: McpRequest, refusal: Refusal) -> Rejection:
    """The JSON-RPC error for a refusal, with the refusal's code in `data`."""
    return Rejection(200, jsonrpc.INTERNAL_ERROR, refusal.message, request.id, jsonrpc.encode(detail_of(refusal)))


def detail_of(refusal: Refusal) -> dict[str, dict[str, str]]:
    """The `data` member of the JSON-RPC error for a refusal."""
    optional = {"claims": refusal.claims, "signInUrl": refusal.sign_in_url}
    details = {name: value for name, value in optional.items() if value}
    return {META_ERROR: {"code": refusal.code, "message": refusal.message, **details}}
