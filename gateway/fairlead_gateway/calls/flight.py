"""One call on its way: from its order to the recorded answer.

Made by `calls.dispatch`. A flight is the outcome of its order: an upstream that can take the call at once calls it back
from its parser, for the others a task waits and does the same. It ends exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from fairlead_gateway.calls import refusals, translate
from fairlead_gateway.calls.exchange import Exchange
from fairlead_gateway.calls.outputs import judged
from fairlead_gateway.calls.refusals import Refusal
from fairlead_gateway.endpoint.inbound import Request
from fairlead_gateway.endpoint.replies import result_parts
from fairlead_gateway.selection.view import Route
from fairlead_gateway.telemetry import TOOL_ERROR
from fairlead_gateway.upstream.base import Order, Pending, Submit
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, RpcError

if TYPE_CHECKING:
    from fairlead_gateway.calls.dispatch import Dispatcher

log = logging.getLogger(__name__)

_FOR_THE_CLIENT = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Errors of a modern server that its modern client can act on: passed on as they are."""


class Flight:
    """See the module. `cancel` is for the client: it gave the call up, or is gone."""

    __slots__ = ("_dispatcher", "_exchange", "_order", "_pending", "_route", "_started", "done", "request",
                 "waiter")  # fmt: skip

    def __init__(
        self, dispatcher: Dispatcher, exchange: Exchange, route: Route, request: Request, started: float
    ) -> None:
        self._dispatcher = dispatcher
        self._exchange = exchange
        self._route = route
        self.request = request
        self._started = started
        """Seconds, of the dispatcher's clock."""
        self._order: Order | None = None
        self._pending: Pending | asyncio.Task[None] | None = None
        self.done = False
        self.waiter: asyncio.Future[None] | None = None
        """Of a caller within the gateway."""

    def begin(self, order: Order) -> None:
        self._order = order
        upstream = self._route.upstream
        # not isinstance: for a protocol that takes 8 µs
        submit: Submit | None = getattr(upstream, "submit", None)
        pending = None if submit is None else submit(order, self)
        if pending is None:
            self._wait_for(upstream.call(order))
        elif not self.done:
            self._pending = pending

    # Told by the upstream

    def answered(self, result: Raw) -> None:
        route, request = self._route, self.request
        try:
            outcome = translate.result(
                result, from_modern=route.upstream.modern, to_modern=request.modern, server_info=route.server_info
            )
        except McpError as error:
            self.failed(error)
            return
        if route.check is not None and route.check.declares_output:
            outcome = judged(route.check, route.server.key, outcome)
        error_type = TOOL_ERROR if outcome.is_error else ""
        self._end(error_type, 200, result_parts(request.id, outcome.result))

    def failed(self, error: Exception) -> None:
        request = self.request
        if not isinstance(error, McpError):
            log.error("A call to %s of %s failed in the gateway itself", self._route.name, self._route.server.key,
                      exc_info=error)  # fmt: skip
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            self._end(str(jsonrpc.INTERNAL_ERROR), 200, (body,))
        elif request.modern and isinstance(error, RpcError) and error.code in _FOR_THE_CLIENT:
            body = jsonrpc.error(request.id, error.code, error.message, error.data)
            self._end(str(error.code), eras.status_for(error.code), (body,))
        else:
            self.refuse(refusals.refusal_for(error))

    def again(self) -> None:
        if self._order is not None and not self.done:
            order = msgspec.structs.replace(self._order, id=self._route.upstream.next_id())
            self._wait_for(self._route.upstream.call(order))

    # Told by the client's side

    def cancel(self) -> None:
        if self.done:
            return
        pending = self._pending
        if self._exchange.gone:
            self._end(refusals.CANCELLED)
        else:
            self.refuse(Refusal(refusals.CANCELLED, "The call was cancelled"))
        if pending is not None:
            pending.cancel()

    # Inside

    def _wait_for(self, call: Coroutine[Any, Any, Raw]) -> None:
        self._pending = task = asyncio.get_running_loop().create_task(self._wait(call), name="call")
        self._dispatcher.own(task)

    async def _wait(self, call: Coroutine[Any, Any, Raw]) -> None:
        try:
            result = await call
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `failed` logs what is no error of the wire
            self.failed(error)
        else:
            self.answered(result)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, as a result in the client's era; the gateway speaks for itself in it."""
        request = self.request
        outcome = translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern,
            server_info=self._dispatcher.server_info,
        )  # fmt: skip
        self._end(refusal.code, 200, result_parts(request.id, outcome.result))

    def _end(self, error_type: str, status: int = 0, body: tuple[bytes | Raw, ...] = ()) -> None:
        """Once: answer, unless nobody is there to hear it, and record."""
        if self.done:
            return
        self.done = True
        self._pending = None  # it knows us: see `Exchange`
        try:
            if status:
                self._exchange.answer(status, *body)
        finally:
            self._dispatcher.ended(self, self._route.recorder, self._started, error_type)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)
