"""Entry point of calls: finds the route of a request in the client's view, and runs the call.

Nothing is authorized here: the view was built from the policies, and has only routes that the client may call.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_formats.names import unknown_tool
from fairlead_gateway.audit.entry import AuditedCall
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.path.client_call import STAGES
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.record import remember_other
from fairlead_gateway.calls.routes import targets
from fairlead_gateway.calls.routes.targets import invalid_params, name_in
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.meta_tools import OWN_TOOLS
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy.view import View
from fairlead_gateway.recent.ended_call import CallRefusal
from fairlead_mcp import jsonrpc
from fairlead_mcp.methods import METHODS, TargetKind
from fairlead_tools import refusals

CALL: Final = "tools/call"
MAX_REASON: Final = 300
"""Limit on the characters of the reason in an audit record of a denied call."""
_OBJECT_OR_NULL: Final = (b"{", b"n")


class Dispatcher:
    """Resolves and runs the calls of one gateway."""

    def __init__(self, context: CallContext) -> None:
        self.context = context

    def resolve(self, view: View, request: McpRequest, identity: Identity = ANONYMOUS) -> Route | Rejection:
        """Route of the tool, prompt, resource, completion or task that a request names; a rejection if it is unknown.

        `identity` is the client's principal: it has to be the owner of a task.
        """
        if request.method != CALL:
            if METHODS[request.method].kind is TargetKind.TASK:
                return self.context.tasks.resolve(view, request, identity)
            return targets.resolve(view.resources, request, self.context.metrics)
        params = request.params
        try:
            name = request.read_name("name")
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return invalid_params(request, "params.name must be a string")
        if "arguments" in params and jsonrpc.copy_raw(params["arguments"])[:1] not in _OBJECT_OR_NULL:
            return invalid_params(request, "params.arguments must be an object")
        route = view.routes.get(name) or view.find_unlisted(name, self.context.clock())
        if route is None:
            if name in OWN_TOOLS:
                # the message suggests no similar name: the search would compare all names
                return invalid_params(request, f"Unknown tool: {name}")
            now = self.context.clock()
            route_or_message = view.find_by_id(name, now) or view.find_for_app(name, now)
            if isinstance(route_or_message, Route):
                return route_or_message
            if route_or_message is not None:
                return invalid_params(request, route_or_message)
            denial_reason = view.why_denied(name)
            if denial_reason is not None:
                return invalid_params(request, refusals.not_allowed(name, denial_reason))
            return invalid_params(request, unknown_tool(name, view.find_renamed(name) or view.nearest(name)))
        return route

    def record_unresolved(
        self,
        exchange: Exchange,
        request: McpRequest,
        rejection: Rejection,
        denied_tool: tuple[ServerKey, str, str] | None = None,
    ) -> None:
        """Record a request for a name that the view does not have.

        `denied_tool` is the server, the tool and the reason if the tool exists and a policy hides it from the
        principal.
        """
        code, method = str(rejection.code), request.method
        context, now = self.context, self.context.clock()
        context.metrics.recorder(method).record(0, code)
        name = name_in(request) or ""
        server, tool, reason = denied_tool or (None, name, rejection.message)
        if context.auditor is not None:
            audited_call = AuditedCall(method, tool, request.params, code, server)
            context.auditor.record_denial(exchange, audited_call, reason[:MAX_REASON])
        if context.recent is not None:
            refusal = CallRefusal.cut(rejection.message, reason if denied_tool else "", hidden=True)
            call = AuditedCall(method, name, request.params, code, server)
            remember_other(context.recent, exchange, call, now, refusal, audited=context.auditor is not None)

    def record_unreadable(self, exchange: Exchange, route: Route, code: str) -> None:
        """Record a call that was not made because its arguments cannot be parsed."""
        auditor, recent = self.context.auditor, self.context.recent
        call = AuditedCall(CALL, route.name, {}, code, route.server.key)
        if auditor is not None:
            auditor.record_call(exchange, call)
        if recent is not None:
            remember_other(recent, exchange, call, self.context.clock(), audited=False)

    def start(self, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes = b"") -> ToolCall:
        """Start a call, which sends the answer on `exchange`, possibly before this returns. Raises nothing."""
        call = ToolCall(self.context, exchange, route, request, param_lines)
        call.run(STAGES)
        return call

    async def wait(self, call: ToolCall) -> None:
        """Wait until a call has ended. If the waiting task is cancelled, the call is too."""
        if call.done:
            return
        call.waiter = asyncio.get_running_loop().create_future()
        try:
            await call.waiter
        except asyncio.CancelledError:
            call.cancel()
            raise
