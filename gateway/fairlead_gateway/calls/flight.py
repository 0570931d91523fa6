"""One call on its way: from its order to the recorded answer.

Made by `calls.dispatch`. A flight is the outcome of its order: an upstream that can take the call at once calls it back
from its parser, for the others a task waits and does the same. It ends exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw

from fairlead_api.reports import NEUTRAL, OK
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls import refusals, translate
from fairlead_gateway.calls.cache import META_CACHE, Kept, ResultCache
from fairlead_gateway.calls.exchange import Exchange, asker
from fairlead_gateway.calls.outcome import Outcome
from fairlead_gateway.calls.outputs import judged
from fairlead_gateway.calls.retries import next_delay
from fairlead_gateway.core.ports import Ticket
from fairlead_gateway.core.refusal import Refusal
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.limits.limiter import NO_LEASE, Lease, Limited, Limiter
from fairlead_gateway.reports.outcomes import outcome_of
from fairlead_gateway.telemetry import TOOL_ERROR
from fairlead_gateway.tracing.spans import CallSpan
from fairlead_gateway.upstream.base import Pending
from fairlead_gateway.upstream.guard import PLAIN, QUEUED
from fairlead_gateway.upstream.order import Order, Recipient
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, RpcError, Timeout
from fairlead_mcp.escaping import escaped
from fairlead_mcp.via import VIA, passed_on

if TYPE_CHECKING:
    from fairlead_gateway.calls.dispatch import Dispatcher

log = logging.getLogger(__name__)

Body: TypeAlias = tuple[bytes | Raw, ...]
"""Of an answer, in parts."""

_FOR_THE_CLIENT = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Errors of a modern server that its modern client can act on: passed on as they are."""


class Flight(Recipient):
    """See the module. `cancel` is for the client: it gave the call up, or is gone."""

    __slots__ = ("_attempts", "_dispatcher", "_exchange", "_following", "_heard", "_key", "_lease", "_measured",
                 "_order", "_pending", "_route", "_started", "_ticket", "denied", "done", "limit", "request",
                 "span", "waiter")  # fmt: skip

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
        self._pending: Pending | asyncio.Task[None] | asyncio.TimerHandle | None = None
        self._attempts = 0
        self._ticket: Ticket = QUEUED
        self._heard = 0
        self._measured = 0
        """Number of the attempt at its tool's meter; 0 between attempts."""
        self._key: bytes | None = None
        """Under which the result is to be kept."""
        self._following: bytes | None = None
        """Of the equal call whose result it waits for."""
        self._lease: Lease = NO_LEASE
        """What it is counted in until it ends."""
        self.denied = ""
        """Whose rules do not allow its arguments."""
        self.limit = ""
        """What refused it because there were too many calls."""
        self.span: CallSpan | None = None
        """Where calls are traced."""
        self.done = False
        self.waiter: asyncio.Future[None] | None = None
        """Of a caller within the gateway."""

    @property
    def tier(self) -> str | None:
        """Of the agent."""
        return self._exchange.tier

    @property
    def deadline(self) -> float:
        return self._started + self._route.timeout

    @property
    def agent(self) -> str:
        return asker(self._exchange)

    def begin(self, order: Order) -> None:
        """Make the call as soon as its server's guard lets it in. Raises guard.Refused."""
        self._order = order
        guard = self._route.guard
        if guard.enter_now():
            self._send(PLAIN, order)
            return
        ticket = guard.enter(self, again=self._attempts > 0)
        if ticket:
            self.admitted(ticket)

    def limited(self, limiter: Limiter) -> bool:
        """Count it, or refuse it: there are too many."""
        route = self._route
        found = limiter.admit(asker(self._exchange), route.share, route.id, route.caps)
        if isinstance(found, Limited):
            self.limit = found.scope
            self.refuse(refusals.limited(found))
            return True
        self._lease = found
        return False

    def audit(self, auditor: Auditor, error_type: str, seconds: float, size: int) -> None:
        """Tell of its end."""
        route, request = self._route, self.request
        auditor.called(
            self._exchange, request.method, route.server.key, route.name, request.params, error_type, seconds, size,
            self.limit, self.denied,
        )  # fmt: skip

    # Told by the cache

    def cached(self, cache: ResultCache, key: bytes) -> bool:
        """Whether the call need not be made: its result is kept, or an equal call is on its way. Otherwise its own
        will be kept.
        """
        kept = cache.get(key)
        if kept is not None:
            self.hit(kept)
            return True
        if self._route.impatient:
            return False  # it may end before those who wait for it want it to
        if cache.follow(key, self):
            self._following = key
            return True
        self._key = key
        return False

    def hit(self, kept: Kept) -> None:
        route, request, cache = self._route, self.request, self._dispatcher.cache
        self._following = None
        try:
            outcome = translate.result(
                kept.result, from_modern=kept.modern, to_modern=request.modern, server_info=route.server_info
            )
            note = b'{"ageMs":%d}' % round(cache.age(kept) * 1000)
            outcome = judged(route.check, route.server.key, outcome)
            result = translate.noted(outcome.result, META_CACHE, note)
        except McpError as error:
            self.failed(error)
            return
        self._end("", result=result)

    def go(self) -> None:
        self._following = None
        self._dispatcher.make(self, self._exchange, self._route, self._started)

    def lead(self, key: bytes) -> None:
        self._key = key
        self.go()

    # Told by the guard

    def admitted(self, ticket: Ticket) -> None:
        order = self._order
        assert order is not None
        try:
            self._send(ticket, order)
        except Exception as error:  # noqa: BLE001  # it may be called from another call's end; `failed` logs defects
            self.failed(error)

    def refused(self, error: McpError) -> None:
        self.limit = refusals.limit_of(error)
        self.refuse(refusals.refusal_for(error))

    def _send(self, ticket: Ticket, order: Order) -> None:
        """An attempt, with the place at the server that the ticket stands for."""
        route = self._route
        self._ticket = ticket
        self._heard = route.guard.heard
        self._attempts += 1
        if self.span is not None:
            params, lines = self.span.attempt(jsonrpc.decode_object(order.params))
            lines += passed_on(self._exchange.headers.get(VIA))
            order = self._order = order.traced(jsonrpc.encode(params), lines)
        self._measured = route.meter.begin(self._dispatcher.clock())
        submit = route.submit
        pending = None if submit is None else submit(order, self)
        if pending is None:
            self._wait_for(route.upstream.call(order))
        elif self._ticket:  # else it is over already
            self._pending = pending

    # Told by the upstream

    def answered(self, result: Raw) -> None:
        route, request = self._route, self.request
        if self._ticket:
            self._ticket = QUEUED
            route.guard.leave_answered()
        try:
            outcome = translate.result(
                result, from_modern=route.modern, to_modern=request.modern, server_info=route.server_info
            )
        except McpError as error:
            self.failed(error)
            return
        self._measure(NEUTRAL if outcome.is_error else OK)
        if outcome.needs_input:
            marked = self._dispatcher.belonging.marked(Raw(outcome.result), self._exchange.identity)
            outcome = Outcome(marked, outcome.is_error, outcome.needs_input)
        if route.check is not None and route.check.declares_output:
            outcome = judged(route.check, route.server.key, outcome)
        if self._key is not None and not outcome.is_error and not outcome.needs_input:
            key, self._key = self._key, None
            seconds = route.cacheable_seconds
            self._dispatcher.cache.came(key, result, modern=route.modern, seconds=seconds)
        self._end(TOOL_ERROR if outcome.is_error else "", result=outcome.result)

    def failed(self, error: Exception) -> None:
        request = self.request
        own = self._route.impatient and isinstance(error, Timeout)  # the caller's time, which says nothing of the tool
        self._measure(NEUTRAL if own else outcome_of(error))
        if self.span is not None:
            self.span.attempt_over(type(error).__name__)
        self._leave(error, given_up=own)
        if self._again_later(error):
            return
        if isinstance(error, Timeout) and error.sent:
            error = Timeout(refusals.timed_out(self._route), sent=True)
        if not isinstance(error, McpError):
            log.error("A call to %s of %s failed in the gateway itself", self._route.name, self._route.server.key,
                      exc_info=error)  # fmt: skip
            body = jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
            self._end(str(jsonrpc.INTERNAL_ERROR), 200, (body,))
        elif request.modern and isinstance(error, RpcError) and error.code in _FOR_THE_CLIENT:
            body = jsonrpc.error(request.id, error.code, error.message, error.data)
            self._end(str(error.code), eras.status_for(error.code), (body,))
        else:
            self.refused(error)

    def again(self) -> None:
        if self._order is not None and not self.done:
            order = self._order.again(self._route.upstream.next_id())
            self._wait_for(self._route.upstream.call(order))

    # Told by the client's side

    def cancel(self) -> None:
        if self.done:
            return
        pending = self._pending
        if self._key is not None:
            key, self._key = self._key, None
            self._dispatcher.cache.given_up(key)
        elif self._following is not None:
            self._dispatcher.cache.unfollow(self._following, self)
        if self._ticket == QUEUED:
            self._route.guard.withdraw(self)
        self._measure(NEUTRAL)
        self._leave(None, given_up=True)
        if self._exchange.gone:
            self._end(refusals.CANCELLED)
        else:
            self.refuse(Refusal(refusals.CANCELLED, "The call was cancelled"))
        if pending is not None:
            pending.cancel()

    # Inside

    def _leave(self, error: Exception | None, *, given_up: bool = False) -> None:
        """Once per attempt: the place at the server is free."""
        ticket = self._ticket
        if ticket:
            self._ticket = QUEUED
            self._route.guard.leave(ticket, error, self._heard, given_up=given_up, tool=self._route.name)

    def _measure(self, outcome: str) -> None:
        """Once per attempt: how long it took, for the operator."""
        number = self._measured
        if number:
            self._measured = 0
            self._route.meter.end(number, self._dispatcher.clock(), outcome)

    def _again_later(self, error: Exception) -> bool:
        """Whether another attempt will follow."""
        route, order = self._route, self._order
        if self.done or order is None or self._attempts > route.retries or not isinstance(error, McpError):
            return False
        guard = route.guard
        wait = next_delay(
            error, attempt=self._attempts, retries=route.retries, idempotent=route.idempotent,
            left=self.deadline - guard.clock(), random=guard.random(),
        )  # fmt: skip
        if wait is None or not guard.may_retry():
            return False
        self._order = order.again(route.upstream.next_id())
        self._pending = asyncio.get_running_loop().call_later(wait, self._attempt_again)
        return True

    def _attempt_again(self) -> None:
        self._pending = None
        if self.done or self._order is None:
            return
        try:
            self.begin(self._order)
        except McpError as error:
            self.refused(error)

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
        if refusal.required is not None and request.modern:
            code = jsonrpc.MISSING_CLIENT_CAPABILITY
            body = jsonrpc.error(request.id, code, refusal.message, refusal.required)
            self._end(refusal.code, eras.status_for(code), (body,))
            return
        outcome = translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern,
            server_info=self._dispatcher.server_info,
        )  # fmt: skip
        self._end(refusal.code, result=outcome.result)

    def _end(self, error_type: str, status: int = 0, body: Body = (), *, result: bytes | Raw | None = None) -> None:
        """Once: answer, with a result or with a body of that status, unless nobody is there to hear it; and record."""
        if self.done:
            return
        self.done = True
        self._pending = None  # it knows us: see `Exchange`
        if self._key is not None:
            self._dispatcher.cache.failed(self._key)
        for account in self._lease:
            account.leave()
        if self.span is not None:
            self.span.end(error_type)
        if self._route.escapes:
            result = None if result is None else escaped(result)
            body = tuple(escaped(part) for part in body)
        try:
            if result is not None:
                body = (result,)
                self._exchange.succeed(self.request.id, result)
            elif status:
                self._exchange.answer(status, *body)
        finally:
            dispatcher = self._dispatcher
            dispatcher.ended(self, self._route.recorder, dispatcher.clock() - self._started, error_type, body)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)
