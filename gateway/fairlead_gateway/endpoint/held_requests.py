"""Holds requests for a server that is starting, until the server's tools are known or the wait times out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_api.documents.servers import ServerEntry
from fairlead_gateway.calls.path.startup import RETRY_AFTER_MS, StartupWait, refusal_of
from fairlead_gateway.calls.routes.targets import name_in
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import McpRequest, agent_of
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready_servers import is_starting, unready_by_endpoint, unready_by_tool
from fairlead_gateway.policy.view import View
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_tools import refusals
from fairlead_tools.refusal import CANCELLED, META_ERROR, Refusal

RETRY_AFTER: Final = b"retry-after: %d\r\n" % (RETRY_AFTER_MS // 1000)


class HeldRequests:
    """Requests that wait for servers without a catalog.

    `selection` returns the servers and tools that are served at present. `server_info` is the gateway's `serverInfo`,
    raw JSON. `on_failure` is called for an exception in a request that continues after its wait.
    """

    def __init__(
        self,
        selection: Callable[[], Selection],
        startup_wait: StartupWait,
        server_info: bytes,
        metrics: MetricsRegistry,
        on_failure: Callable[[HttpExchange, Exception], None],
    ) -> None:
        self._selection = selection
        self._server_info = server_info
        self._metrics = metrics
        self._on_failure = on_failure
        self.startup_wait = startup_wait
        self.tasks = TaskSet()
        """Tasks of all held requests."""
        self._calls: dict[tuple[bytes | None, bytes], asyncio.Task[None]] = {}
        """Tasks of held calls, by session and request id."""

    def hold_endpoint(self, exchange: HttpExchange, retry: Callable[[HttpExchange, Identity], None] | None) -> bool:
        """Hold a request to the endpoint of a starting server, and call `retry` after the wait.

        The request is rejected if `retry` is None, or if the server has failed. For the endpoint of a server that is
        not starting, or that the principal may not see, does nothing and returns False.
        """
        entry = unready_by_endpoint(self._selection(), exchange.identity, exchange.target)
        if entry is None:
            return False
        if retry is not None and is_starting(self._selection(), entry.key):
            self._hold(exchange, entry, lambda: retry(exchange, exchange.identity), self.startup_wait.seconds)
            return True
        refusal = refusal_of(entry, starts=is_starting(self._selection(), entry.key))
        detail = jsonrpc.encode({META_ERROR: {"code": refusal.code, "message": refusal.message}})
        rejection = Rejection(503, jsonrpc.INTERNAL_ERROR, refusal.message, data=detail)
        self._metrics.reject(rejection.status)
        exchange.reject(rejection, b"" if refusal.retry_after_ms is None else RETRY_AFTER)
        return True

    def hold_call(
        self,
        exchange: HttpExchange,
        view: View,
        request: McpRequest,
        retry: Callable[[HttpExchange, McpRequest], None] | None,
    ) -> bool:
        """Hold a call of an unknown tool that may belong to a starting server, like `hold_endpoint`.

        A refusal is a tool result, not an HTTP error.
        """
        name = name_in(request)
        entry = None if name is None else unready_by_tool(self._selection(), exchange.identity, name, view.base)
        if entry is None:
            return False
        exchange.cancel_on_disconnect = request.modern
        starts = is_starting(self._selection(), entry.key)
        if retry is not None and starts:
            task = self._hold(exchange, entry, lambda: retry(exchange, request), self._wait_seconds(view))
            self._calls[request.session, request.id] = task
            task.add_done_callback(lambda done: self._end_call(exchange, request, done))
            return True
        self._refuse(exchange, request, refusal_of(entry, starts=starts))
        return True

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """Cancel a legacy client's held call. Does nothing if no held call has this session and id."""
        task = self._calls.get((session, request_id)) if session is not None else None
        if task is not None:
            task.cancel()

    def _end_call(self, exchange: HttpExchange, request: McpRequest, task: asyncio.Task[None]) -> None:
        key = request.session, request.id
        if self._calls.get(key) is task:
            del self._calls[key]
        if task.cancelled() and not exchange.gone:
            self._refuse(exchange, request, Refusal(CANCELLED, "The call was cancelled"))

    def _refuse(self, exchange: HttpExchange, request: McpRequest, refusal: Refusal) -> None:
        raw = refusals.result(refusal)
        translated = translate.result(raw, from_modern=False, to_modern=request.modern, server_info=self._server_info)
        exchange.succeed(request.id, translated.result)

    def _hold(
        self, exchange: HttpExchange, entry: ServerEntry, resume: Callable[[], None], seconds: float
    ) -> asyncio.Task[None]:
        exchange.call = task = self.tasks.start(self._wait(exchange, entry, resume, seconds), f"wait for {entry.key}")
        return task

    async def _wait(
        self, exchange: HttpExchange, entry: ServerEntry, resume: Callable[[], None], seconds: float
    ) -> None:
        await self.startup_wait.wait(entry.key, seconds, agent_of(exchange))
        try:
            if not exchange.gone:
                resume()
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._on_failure(exchange, error)

    def _wait_seconds(self, view: View) -> float:
        """Seconds for which a call may wait: the shortest of the general limit and the tier's timeout and latency
        limit."""
        tier = next((tier for tier in self._selection().snapshot.rules.tiers if tier.name == view.tier), None)
        bounds = () if tier is None else (tier.call_timeout_ms, tier.max_latency_ms)
        return min([self.startup_wait.seconds, *(bound / 1000 for bound in bounds if bound is not None)])
