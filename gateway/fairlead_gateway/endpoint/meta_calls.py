"""Calls of meta-tools, the gateway's own tools: `read_result` at all endpoints, all other meta-tools at the router
endpoint.

The router endpoint does not list the tools of servers, but meta-tools that find and call them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from urllib.parse import unquote

from fairlead_gateway.calls.path.dispatch import Dispatcher
from fairlead_gateway.calls.path.execution import BadExecution, inner_call
from fairlead_gateway.calls.path.own_tools import OwnToolCalls
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.calls.results.outputs import with_cache_hints
from fairlead_gateway.calls.routes.targets import invalid_params, name_in, not_found
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.long_results import URI
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, NAMES, READ_RESULT
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.policy.router import ROUTER
from fairlead_gateway.policy.view import View
from fairlead_tools import refusals
from fairlead_tools.refusal import INVALID_ARGUMENTS, Refusal

Retry = Callable[[HttpExchange, McpRequest], None]


class CallPath(Protocol):
    """Interface of `McpEndpoint` through which meta-tools start and refuse calls."""

    def start_call(
        self, exchange: HttpExchange, route: Route, request: McpRequest, *, named_by_client: bool = True
    ) -> None:
        """Start a call. `named_by_client`: whether the client called the tool itself, not a meta-tool that calls it."""
        ...

    def refuse_call(
        self, exchange: HttpExchange, view: View, request: McpRequest, rejection: Rejection, retry: Retry | None
    ) -> None:
        """Reject a call, or hold it for a starting server and then call `retry`."""
        ...

    def reject(self, exchange: HttpExchange, rejection: Rejection) -> None:
        """Answer with an error."""
        ...

    def start_task(self, exchange: HttpExchange, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Continue a request in an asyncio task."""
        ...


class MetaCalls:
    """Answers the calls of the gateway's own tools."""

    def __init__(self, dispatcher: Dispatcher, recorder: ContextRecorder, tools: OwnToolCalls, path: CallPath) -> None:
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._tools = tools
        self._path = path

    def call(
        self, exchange: HttpExchange, view: View, request: McpRequest, rejection: Rejection, retry: Retry | None
    ) -> None:
        """Answer a call of a name that is not a tool in `view`: by the meta-tool, or by the rejection `rejection`."""
        name, full_view = name_in(request) or "", view.full_view
        if name != READ_RESULT and (full_view is None or name not in NAMES):
            if full_view is not None and name in full_view.routes:
                rejection = invalid_params(
                    request, f"{name} cannot be called directly at this endpoint: use {EXECUTE_TOOL}"
                )
            self._path.refuse_call(exchange, view, request, rejection, retry)
            return
        if name == EXECUTE_TOOL and full_view is not None:
            self._dispatcher.context.metrics.count_meta_call(name)
            self._execute(exchange, full_view, request, retry)
        else:
            self._path.start_task(exchange, partial(self._answer, exchange, request, name), name)

    def read(self, exchange: HttpExchange, request: McpRequest) -> bool:
        """Answer `resources/read` of a stored result. Does nothing and returns False for any other request."""
        if request.method != "resources/read" or not (name_in(request) or "").startswith(URI):
            return False
        self._path.start_task(exchange, partial(self._read, exchange, request, name_in(request) or ""), "read a result")
        return True

    def _execute(self, exchange: HttpExchange, full_view: View, request: McpRequest, retry: Retry | None) -> None:
        try:
            inner = inner_call(self._recorder, exchange.identity, request)
        except BadExecution as error:
            self._succeed(exchange, request, refusals.result(Refusal(INVALID_ARGUMENTS, str(error))))
            return
        self._dispatcher.context.metrics.search.count_call(exchange.identity.principal, name_in(inner) or "")
        route = self._dispatcher.resolve(full_view, inner, exchange.identity)
        if isinstance(route, Route):
            self._path.start_call(exchange, route, inner, named_by_client=False)
        else:
            retry_outer = None if retry is None else lambda exchange, _: retry(exchange, request)
            self._path.refuse_call(exchange, full_view, inner, route, retry_outer)

    async def _answer(self, exchange: HttpExchange, request: McpRequest, name: str) -> None:
        router_path = exchange.target.removeprefix(ROUTER) if exchange.target.startswith(ROUTER) else b""
        tier = unquote(router_path[1:].decode("latin-1")) or None
        self._succeed(exchange, request, await self._tools.answer(exchange, request, name, tier))

    async def _read(self, exchange: HttpExchange, request: McpRequest, uri: str) -> None:
        contents = await self._tools.read_stored_result(exchange, request, uri)
        if contents is None:
            self._path.reject(exchange, not_found(request, uri))
            return
        self._succeed(exchange, request, bytes(with_cache_hints(contents) if request.modern else contents))

    def _succeed(self, exchange: HttpExchange, request: McpRequest, result: bytes) -> None:
        """Answer with a result of a meta-tool, translated to the client's era."""
        info = self._dispatcher.context.server_info
        translated = translate.result(result, from_modern=False, to_modern=request.modern, server_info=info)
        exchange.succeed(request.id, translated.result)
