"""Requests for a server that starts: held until its tools are there, or answered with how far it is.

Owned by `endpoint.mcp_endpoint`, which asks it about calls of tools and endpoints that there are none of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_api.documents.servers import ServerEntry
from fairlead_gateway import refusals
from fairlead_gateway.calls import translate
from fairlead_gateway.calls.startup import AGAIN_MS, StartupWait, refusal_of
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.refusal import CANCELLED, META_ERROR, Refusal
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready import of_endpoint, of_tool, on_the_way
from fairlead_gateway.policy.view import View
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import jsonrpc

RETRY_AFTER: Final = b"retry-after: %d\r\n" % (AGAIN_MS // 1000)


class HeldRequests:
    """Answers requests for servers without a catalog. `selection` is what is served now, `server_info` ours, as JSON;
    `failed` is told of an exception behind a wait.
    """

    def __init__(
        self,
        selection: Callable[[], Selection],
        startup_wait: StartupWait,
        server_info: bytes,
        book: MetricsRegistry,
        failed: Callable[[HttpExchange, Exception], None],
    ) -> None:
        self._selection = selection
        self._server_info = server_info
        self._book = book
        self._failed = failed
        self.startup_wait = startup_wait
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that wait."""
        self._calls: dict[tuple[bytes | None, bytes], asyncio.Task[None]] = {}
        """Those of them that are calls, by session and id."""

    def endpoint(self, exchange: HttpExchange, again: Callable[[HttpExchange, Identity], None] | None) -> bool:
        """Hold a request to the endpoint of a server that starts, and call `again` after the wait; with None, or where
        it failed, refuse it. False, and nothing is done, where no such server may be known to who asks.
        """
        entry = of_endpoint(self._selection(), exchange.identity, exchange.target)
        if entry is None:
            return False
        if again is not None and on_the_way(self._selection(), entry.key):
            self._hold(exchange, entry, lambda: again(exchange, exchange.identity), self.startup_wait.seconds)
            return True
        refused = refusal_of(entry, starts=on_the_way(self._selection(), entry.key))
        detail = jsonrpc.encode({META_ERROR: {"code": refused.code, "message": refused.message}})
        rejection = Rejection(503, jsonrpc.INTERNAL_ERROR, refused.message, data=detail)
        self._book.reject(rejection.status)
        exchange.reject(rejection, b"" if refused.retry_after_ms is None else RETRY_AFTER)
        return True

    def call(
        self,
        exchange: HttpExchange,
        view: View,
        asked: McpRequest,
        again: Callable[[HttpExchange, McpRequest], None] | None,
    ) -> bool:
        """Take a call of a tool that the view does not have, as `request` does; its refusal is a result."""
        name = name_in(asked)
        entry = None if name is None else of_tool(self._selection(), exchange.identity, name, view.base)
        if entry is None:
            return False
        exchange.modern = asked.modern
        starts = on_the_way(self._selection(), entry.key)
        if again is not None and starts:
            task = self._hold(exchange, entry, lambda: again(exchange, asked), self._bound(view))
            self._calls[asked.session, asked.id] = task
            task.add_done_callback(lambda done: self._waited(exchange, asked, done))
            return True
        self._refuse(exchange, asked, refusal_of(entry, starts=starts))
        return True

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """A legacy client gives a call up that waits; nothing happens where there is none."""
        task = self._calls.get((session, request_id)) if session is not None else None
        if task is not None:
            task.cancel()

    def _waited(self, exchange: HttpExchange, asked: McpRequest, task: asyncio.Task[None]) -> None:
        key = asked.session, asked.id
        if self._calls.get(key) is task:
            del self._calls[key]
        if task.cancelled() and not exchange.gone:
            self._refuse(exchange, asked, Refusal(CANCELLED, "The call was cancelled"))

    def _refuse(self, exchange: HttpExchange, asked: McpRequest, refusal: Refusal) -> None:
        raw = refusals.result(refusal)
        made = translate.result(raw, from_modern=False, to_modern=asked.modern, server_info=self._server_info)
        exchange.succeed(asked.id, made.result)

    def _hold(
        self, exchange: HttpExchange, entry: ServerEntry, go_on: Callable[[], None], seconds: float
    ) -> asyncio.Task[None]:
        work = self._wait(exchange, entry, go_on, seconds)
        exchange.call = task = asyncio.get_running_loop().create_task(work, name=f"wait for {entry.key}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _wait(
        self, exchange: HttpExchange, entry: ServerEntry, go_on: Callable[[], None], seconds: float
    ) -> None:
        await self.startup_wait.settled(entry.key, seconds)
        try:
            if not exchange.gone:
                go_on()
        except Exception as error:  # noqa: BLE001  # the edge of the request; it is logged
            self._failed(exchange, error)

    def _bound(self, view: View) -> float:
        """Seconds: a tier's time for a call, or its limit, where that is less."""
        tier = next((tier for tier in self._selection().snapshot.rules.tiers if tier.name == view.tier), None)
        bounds = () if tier is None else (tier.call_timeout_ms, tier.max_latency_ms)
        return min([self.startup_wait.seconds, *(bound / 1000 for bound in bounds if bound is not None)])


def name_in(asked: McpRequest) -> str | None:
    """The tool that a call names; None where it names none."""
    try:
        return jsonrpc.decode_text(asked.params["name"])
    except (KeyError, *jsonrpc.UNREADABLE):
        return None
