"""`execute_tool`: the call that its arguments name, in place of itself.

The inner call is a call like any: progress, questions and tasks pass through to the client's own exchange, and
`calls.results.result_keeper` records its result.
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
    """Arguments of `execute_tool` that make no call. The message says what to do."""


def inner_call(recorder: ContextRecorder, identity: Identity, request: McpRequest) -> McpRequest:
    """The call that a call of `execute_tool` asks for, recorded in the session that it names. Raises BadExecution."""
    try:
        execution = msgspec.json.decode(request.params.get("arguments", NO_ARGUMENTS), type=ExecuteArguments)
    except jsonrpc.UNREADABLE as error:
        raise BadExecution(f"{EXECUTE_TOOL} takes name, arguments and session_id: {error}") from error
    if bytes(execution.arguments)[:1] not in (b"{", b"n"):
        raise BadExecution(f"{EXECUTE_TOOL}: `arguments` must be an object: that of the inner tool's inputSchema")
    arguments = NO_ARGUMENTS if bytes(execution.arguments) == b"null" else execution.arguments
    params = {**request.params, "name": Raw(jsonrpc.encode(execution.name)), "arguments": arguments}
    inner = McpRequest(request.modern, CALL, request.id, params, request.session, request.meta, request.token)
    inner.opened = request.opened
    inner.default_tokens = request.default_tokens
    try:
        inner.recording = recorder.session(identity, execution.session_id)
    except BadSession as error:
        raise BadExecution(str(error)) from error
    return inner
