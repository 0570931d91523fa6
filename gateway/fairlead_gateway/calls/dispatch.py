"""Entry to the path of a call: finds the route of a `tools/call` in the caller's view, and runs the call.

Which tools may be called was decided when the view was built.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_formats.names import unknown_tool
from fairlead_gateway import refusals
from fairlead_gateway.calls.call import ToolCall
from fairlead_gateway.calls.context import CallContext
from fairlead_gateway.calls.targets import invalid
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.exchange import Exchange
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy.view import View
from fairlead_mcp import jsonrpc

CALL: Final = "tools/call"
MAX_REASON: Final = 300
_OBJECT_OR_NULL: Final = (b"{", b"n")


class Dispatcher:
    """Resolves and makes the calls of one gateway."""

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self._unknown = context.metrics.recorder(CALL)

    def resolve(self, view: View, request: McpRequest) -> Route | Rejection:
        """Route of the tool that a request names, as far as the view shows it."""
        params = request.params
        try:
            name = jsonrpc.decode_text(params["name"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return invalid(request, "params.name must be a string")
        if "arguments" in params and bytes(params["arguments"])[:1] not in _OBJECT_OR_NULL:
            return invalid(request, "params.arguments must be an object")
        route = view.routes.get(name) or view.unlisted(name, self.context.clock())
        if route is None:
            identified = view.identified(name, self.context.clock())
            if isinstance(identified, Route):
                return identified
            self.unknown()
            if identified is not None:
                return invalid(request, identified)
            denied = view.denied(name)
            if denied is not None:
                return invalid(request, refusals.not_allowed(name, denied))
            return invalid(request, unknown_tool(name, view.nearest(name)))
        return route

    def unknown(self) -> None:
        """Count a call that found no tool."""
        self._unknown.record(0, str(jsonrpc.INVALID_PARAMS))

    def denied(
        self,
        exchange: Exchange,
        request: McpRequest,
        rejection: Rejection,
        by: tuple[ServerKey, str, str] | None = None,
    ) -> None:
        """Audit a call that found no tool. `by`: server, tool and reason where policies keep it from the principal."""
        if self.context.auditor is None:
            return
        if by is None:
            name = bytes(request.params.get("name", b"")).decode(errors="replace").strip('"')
            server, reason = None, rejection.message
        else:
            server, name, reason = by
        code, params = str(rejection.code), request.params
        self.context.auditor.denied(exchange, CALL, name, code, reason[:MAX_REASON], params, server)

    def unreadable(self, exchange: Exchange, route: Route, code: str) -> None:
        """Audit a call of a known tool that was not made, for its arguments cannot be read."""
        if self.context.auditor is not None:
            self.context.auditor.called(exchange, CALL, route.server.key, route.name, {}, code, 0.0, 0)

    def start(self, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes = b"") -> ToolCall:
        """Make the call; it is answered by itself, possibly before this returns. Raises nothing."""
        call = ToolCall(self.context, exchange, route, request, param_lines)
        call.run()
        return call

    async def run(self, exchange: Exchange, route: Route, request: McpRequest) -> None:
        """Make the call and return when it is answered. Canceling the task cancels the call, which is an answer too
        unless the client is gone: then CancelledError.
        """
        call = self.start(exchange, route, request)
        if call.done:
            return
        call.waiter = asyncio.get_running_loop().create_future()
        try:
            await call.waiter
        except asyncio.CancelledError:
            call.cancel()
            if exchange.gone:
                raise
