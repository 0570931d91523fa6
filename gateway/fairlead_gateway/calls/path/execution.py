"""`execute_tool`: replaces the call of this meta-tool by a call of the tool that its arguments name, the inner call.

The inner call is an ordinary call: the client gets its progress, questions and tasks as if it had called the tool
directly. `calls.results.result_keeper` stores the result.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.path.dispatch import CALL
from fairlead_gateway.calls.results.context_recorder import BadSession, ContextRecorder
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import jsonrpc

NO_ARGUMENTS: Final = Raw(b"{}")


class ExecuteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `execute_tool`."""

    name: str
    arguments: Raw = NO_ARGUMENTS
    session_id: str | None = None


class BadExecution(ValueError):
    """Invalid arguments of `execute_tool`. The message says how to correct them."""


def inner_call(recorder: ContextRecorder, identity: Identity, request: McpRequest) -> McpRequest:
    """The inner call of `execute_tool`. Its `recording` is the context session for the result. Raises BadExecution."""
    try:
        execution = msgspec.json.decode(request.params.get("arguments", NO_ARGUMENTS), type=ExecuteArguments)
    except jsonrpc.UNREADABLE as error:
        raise BadExecution(f"{EXECUTE_TOOL} takes name, arguments and session_id: {error}") from error
    if bytes(execution.arguments)[:1] not in (b"{", b"n"):
        raise BadExecution(f"{EXECUTE_TOOL}: `arguments` must be an object that matches the inner tool's inputSchema")
    arguments = NO_ARGUMENTS if bytes(execution.arguments) == b"null" else execution.arguments
    params = {**request.params, "name": Raw(jsonrpc.encode(execution.name)), "arguments": arguments}
    inner = McpRequest(request.modern, CALL, request.id, params, request.session, request.meta, request.token)
    inner.legacy_session = request.legacy_session
    inner.default_tokens = request.default_tokens
    try:
        inner.context_session = recorder.session(identity, execution.session_id)
    except BadSession as error:
        raise BadExecution(str(error)) from error
    return inner
