"""The path of a tool call, from a classified request to the recorded answer.

Called by `endpoint.front`: resolve, translate, start a `Flight`, which answers and is recorded here. It knows no HTTP
and no documents; what it may call was decided when the view was built.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_formats.names import unknown_tool
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls import refusals, translate
from fairlead_gateway.calls.belonging import Belonging
from fairlead_gateway.calls.cache import ResultCache, key_of, scope
from fairlead_gateway.calls.exchange import Exchange
from fairlead_gateway.calls.flight import Body, Flight
from fairlead_gateway.calls.trace import TRACEPARENT, carried
from fairlead_gateway.core.ports import CallRecorder
from fairlead_gateway.core.route import Route
from fairlead_gateway.endpoint.asked import Rejection
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.policy.view import View
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.spans import Spans
from fairlead_gateway.upstream.order import Notify, Order
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.escaping import escaped
from fairlead_mcp.messages import Message
from fairlead_mcp.via import VIA, passed_on

CALL: Final = "tools/call"
MAX_REASON: Final = 300
_OBJECT_OR_NULL: Final = (b"{", b"n")


class Dispatcher:
    """Runs calls. One per gateway; `clock` is in seconds and the one that the upstreams' deadlines go by."""

    def __init__(
        self,
        book: MetricsRegistry,
        client: eras.Client,
        server_info: bytes,
        clock: Callable[[], float] = time.monotonic,
        cache: ResultCache | None = None,
        signed: Callable[[bytes], object] = lambda session: None,
        limiter: Limiter | None = None,
        auditor: Auditor | None = None,
        spans: Spans | None = None,
        belonging: Belonging | None = None,
    ) -> None:
        self._spans = spans
        self.belonging = belonging or Belonging()
        self._limiter = limiter
        self._auditor = auditor
        self._own_session = signed
        self.cache = ResultCache(0) if cache is None else cache
        self._book = book
        self._client = client
        self.server_info = server_info
        """Ours, raw."""
        self.clock = clock
        self._unknown = book.recorder(CALL)
        self.flights: set[Flight] = set()
        """Calls without an answer yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet: asyncio.Event | None = None

    def resolve(self, view: View, request: Request) -> Route | Rejection:
        """The tool that a request means, as far as the view shows it."""
        params = request.params
        try:
            name = jsonrpc.decode_text(params["name"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return _invalid(request, "params.name must be a string")
        if "arguments" in params and bytes(params["arguments"])[:1] not in _OBJECT_OR_NULL:
            return _invalid(request, "params.arguments must be an object")
        route = view.routes.get(name) or view.unlisted(name, self.clock())
        if route is None:
            identified = view.identified(name, self.clock())
            if isinstance(identified, Route):
                return identified
            self._unknown.record(0, str(jsonrpc.INVALID_PARAMS))
            if identified is not None:
                return _invalid(request, identified)
            denied = view.denied(name)
            if denied is not None:
                return _invalid(request, refusals.not_allowed(name, denied))
            return _invalid(request, unknown_tool(name, view.nearest(name)))
        return route

    def denied(
        self, exchange: Exchange, request: Request, rejection: Rejection, by: tuple[ServerKey, str, str] | None = None
    ) -> None:
        """Told of calls that found no tool. `by`: server, tool and reason where policies keep it from whoever asks."""
        if self._auditor is None:
            return
        if by is None:
            name = bytes(request.params.get("name", b"")).decode(errors="replace").strip('"')
            server, reason = None, rejection.message
        else:
            server, name, reason = by
        code, params = str(rejection.code), request.params
        self._auditor.denied(exchange, CALL, name, code, reason[:MAX_REASON], params, server)

    def unreadable(self, exchange: Exchange, route: Route, code: str) -> None:
        """Told of calls of a known tool that were not made, as their arguments cannot be read."""
        if self._auditor is not None:
            self._auditor.called(exchange, CALL, route.server.key, route.name, {}, code, 0.0, 0)

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """A legacy client gives a call up; nothing happens where there is none of that session and id."""
        if session is None:
            return
        # a search, for what finds them at once would be written and erased with every call
        for flight in [*self.flights]:
            if flight.request.id == request_id and flight.request.session == session:
                flight.cancel()

    def end_session(self, session: bytes) -> None:
        """A legacy client gives its session up, and so the calls that it made in it."""
        for flight in [*self.flights]:
            if flight.request.session == session:
                flight.cancel()

    def start(self, exchange: Exchange, route: Route, request: Request) -> Flight:
        """Make the call; the flight answers it, possibly before this returns. Raises nothing."""
        started = self.clock()
        flight = Flight(self, exchange, route, request, started)
        self.flights.add(flight)
        self._book.in_flight += 1
        if self._spans is not None:
            flight.span = self._spans.begin(exchange, request, route.name, route.server.key)
        if route.closed is not None:
            flight.refuse(route.closed)
            return flight
        try:
            if route.check is not None:
                wrong = route.check.arguments(request.params.get("arguments"))
                if wrong is not None:
                    flight.refuse(refusals.invalid_arguments(wrong))
                    return flight
            if route.constraint is not None:
                refusal = route.constraint.refusal(request.params.get("arguments"))
                if refusal is not None:
                    flight.denied = route.constraint.by
                    flight.refuse(refusal)
                    return flight
            if route.offline and not route.guard.still_answers():
                raise ConnectFailed(f"the server {route.server.key} is offline", reason="Offline")
            limiter = self._limiter
            if limiter is not None and (limiter.counts_all or route.counted) and flight.limited(limiter):
                return flight
            if route.cacheable_seconds and self.cache.enabled:
                key = self._cache_key(route, request)
                if key is not None and flight.cached(self.cache, key):
                    return flight
            flight.begin(self._order(exchange, route, request, started))
        except Exception as error:  # noqa: BLE001  # the edge of the request; `failed` logs what is no error of the wire
            flight.failed(error)
        return flight

    def make(self, flight: Flight, exchange: Exchange, route: Route, started: float) -> None:
        """Send a call that had waited for another's result. Raises nothing."""
        try:
            flight.begin(self._order(exchange, route, flight.request, started))
        except Exception as error:  # noqa: BLE001  # the edge of the request; `failed` logs what is no error of the wire
            flight.failed(error)

    async def run(self, exchange: Exchange, route: Route, request: Request) -> None:
        """Make the call and return when it is answered. Canceling the task cancels the call, which is an answer too
        unless the client is gone: then CancelledError.
        """
        flight = self.start(exchange, route, request)
        if flight.done:
            return
        flight.waiter = asyncio.get_running_loop().create_future()
        try:
            await flight.waiter
        except asyncio.CancelledError:
            flight.cancel()
            if exchange.gone:
                raise

    def ended(self, flight: Flight, recorder: CallRecorder, seconds: float, error_type: str, body: Body) -> None:
        """Told by a flight, once."""
        self.flights.discard(flight)
        self._book.in_flight -= 1
        took = int(seconds * 1e9)
        recorder.record(took, error_type)
        self._book.waited(flight.tier, took)
        if flight.limit:
            self._book.limit(flight.limit)
        if self._auditor is not None and (self._auditor.every or flight.limit or flight.denied):
            flight.audit(self._auditor, error_type, seconds, sum(map(len, body)))
        if self._quiet is not None and not self.flights:
            self._quiet.set()

    async def quiet(self) -> None:
        """Return when no call is in flight."""
        while self.flights:
            self._quiet = asyncio.Event()
            await self._quiet.wait()

    def own(self, task: asyncio.Task[None]) -> None:
        """Keep a task of a flight until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _session(self, route: Route, request: Request) -> bytes | None:
        """The client's session where the server tells clients apart; one that was not signed here may be anybody's."""
        session = request.session
        return session if route.per_client and session is not None and self._own_session(session) is not None else None

    def _cache_key(self, route: Route, request: Request) -> bytes | None:
        of_scope = route.cache_scope
        if route.per_client:
            session = self._session(route, request)
            if session is None:
                return None
            of_scope = scope(of_scope, session)
        return key_of(of_scope, request.params.get("arguments"))

    def _order(self, exchange: Exchange, route: Route, request: Request, started: float) -> Order:
        ident = route.upstream.next_id()
        asked, trace = request.params, b""
        if TRACEPARENT in exchange.headers:
            asked, trace = carried(asked, exchange.headers)
        if VIA in exchange.headers:
            trace += passed_on(exchange.headers[VIA])
        token = translate.progress_token(asked) if request.meta.token else None
        if token is None and request.modern == route.modern:
            params = translate.renamed(asked, route.name_raw)
        else:
            params = translate.params(
                asked,
                route.name_raw,
                from_modern=request.modern,
                to_modern=route.modern,
                token=None if token is None else ident,
                client=self._client,
            )
        session = self._session(route, request) if route.per_client else None
        notify = None if token is None else _forwarder(exchange, ours=ident, clients=token, escapes=route.escapes)
        return Order(
            ident, params, route.name_header, started + route.timeout, route.max_bytes, notify, session, trace, exchange
        )


def _forwarder(exchange: Exchange, *, ours: bytes, clients: bytes, escapes: bool) -> Notify:
    """Passes progress on under the client's own token. Log messages belong to no call and are dropped."""

    def forward(message: Message) -> None:
        if message.method == "notifications/progress" and isinstance(message.params, Raw):
            progress = translate.progress(message.params, ours=ours, clients=clients)
            if progress is not None:
                exchange.notify(bytes(escaped(progress)) if escapes else progress)

    return forward


def _invalid(request: Request, message: str) -> Rejection:
    return Rejection(400 if request.modern else 200, jsonrpc.INVALID_PARAMS, message, request.id)
