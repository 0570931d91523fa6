"""Requests to servers beside the plain calls of `calls.dispatch`: prompts, resources, completions, and tool calls with
more to them than arguments and a result (progress, log levels, `requestState`, questions to the client).

Called by `endpoint.front`, one task per request. What is no tool call and fails is answered with a JSON-RPC error, for
nobody but the client's program reads it. Names, URIs and errors are put into the client's terms; everything else passes
byte for byte.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.reports import NEUTRAL, OK
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls import refusals, translate
from fairlead_gateway.calls.attempts import attempted
from fairlead_gateway.calls.belonging import Belonging
from fairlead_gateway.calls.bridge import Bridge, Bridged, Relay, features_of
from fairlead_gateway.calls.errand import Errand
from fairlead_gateway.calls.errands import CALL, MORE, READ, SUBSCRIPTIONS
from fairlead_gateway.calls.exchange import Exchange, asker
from fairlead_gateway.calls.live import Live, LiveRequest
from fairlead_gateway.calls.outcome import Outcome
from fairlead_gateway.calls.outputs import judged
from fairlead_gateway.calls.rounds import in_rounds
from fairlead_gateway.calls.tally import Tally
from fairlead_gateway.calls.trace import carried
from fairlead_gateway.calls.watches import Watches
from fairlead_gateway.core.refusal import Refusal
from fairlead_gateway.endpoint.asked import Rejection
from fairlead_gateway.endpoint.replies import result_parts
from fairlead_gateway.endpoint.request import Request
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.reports.outcomes import outcome_of, says_success
from fairlead_gateway.reports.samples import Stopwatch
from fairlead_gateway.telemetry import TOOL_ERROR, MetricsRegistry
from fairlead_gateway.tracing.spans import CallSpan, Spans
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.inquiry import AnswerServer, Inquiry
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed, McpError, RpcError, Timeout
from fairlead_mcp.escaping import escaped
from fairlead_mcp.messages import Message
from fairlead_mcp.via import VIA, passed_on

log = logging.getLogger(__name__)

_FOR_THE_CLIENT: Final = frozenset({jsonrpc.MISSING_CLIENT_CAPABILITY})
"""Errors of a modern server that its modern client can act on: passed on as they are, also those of a tool. So is
what the server refuses of the client's answers or of its state: the model has no part in it.
"""


class Forwarder:
    """Runs errands. One per gateway; `clock` as of the dispatcher."""

    def __init__(
        self,
        book: MetricsRegistry,
        client: eras.Client,
        live: Live,
        server_info: bytes,
        clock: Callable[[], float] = time.monotonic,
        limiter: Limiter | None = None,
        auditor: Auditor | None = None,
        spans: Spans | None = None,
        belonging: Belonging | None = None,
    ) -> None:
        self._spans = spans
        self._limiter = limiter
        self._auditor = auditor
        self._belonging = belonging or Belonging()
        self._book = book
        self._client = client
        self.live = live
        self._server_info = server_info
        self._clock = clock
        self._bridge = Bridge(clock)
        self.watches = Watches(client, clock)
        self._cancellable: dict[tuple[bytes, bytes], asyncio.Task[None]] = {}

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """As of the dispatcher."""
        task = self._cancellable.get((session, request_id)) if session is not None else None
        if task is not None:
            task.cancel()

    def end_session(self, session: bytes) -> None:
        """A legacy client gives its session up: cancel its forwarded requests."""
        for (owner, _), task in [*self._cancellable.items()]:
            if owner == session:
                task.cancel()

    async def aclose(self) -> None:
        """End what goes on between requests: watches, and calls that wait for their clients."""
        await self.watches.aclose()
        await self._bridge.aclose()

    async def run(self, exchange: Exchange, errand: Errand, request: Request) -> None:
        """Do the errand and answer it. Raises nothing but CancelledError, when the client is gone."""
        started = self._clock()
        error_type, tally = "", self._tally(exchange, errand, request)
        self._book.in_flight += 1
        key, task = (request.session or b"", request.id), asyncio.current_task()
        if request.session is not None and task is not None:
            self._cancellable[key] = task
        try:
            wrong = _wrong_arguments(errand, tally)
            if wrong is not None:
                error_type = wrong.code
                self._refuse(exchange, errand, request, wrong)
                return
            limited = tally.refused(self._limiter, exchange, errand.route)
            if limited is not None:
                error_type = refusals.RATE_LIMITED
                self._refuse(exchange, errand, request, refusals.limited(limited))
                return
            outcome = await self._result(exchange, errand, request, started, tally.span)
            outcome = judged(errand.check, errand.reach.server.key, outcome)
            error_type = TOOL_ERROR if outcome.is_error else ""
            result = escaped(outcome.result) if errand.escapes else outcome.result
            tally.size = len(result)
            exchange.answer(200, *result_parts(request.id, result))
        except McpError as error:
            tally.limit = refusals.limit_of(error)
            error_type = self._failed(exchange, errand, request, error)
        except asyncio.CancelledError:
            error_type = refusals.CANCELLED
            if exchange.gone:
                raise
            self._refuse(exchange, errand, request, Refusal(refusals.CANCELLED, "The request was cancelled"))
        except Exception:
            log.exception("%s of %s failed in the gateway itself", errand.method, errand.reach.server.key)
            error_type = str(jsonrpc.INTERNAL_ERROR)
            _answer(exchange, _internal(request, "Internal error"))
        finally:
            self._book.in_flight -= 1
            if self._cancellable.get(key) is task:
                del self._cancellable[key]
            tally.over(error_type)
            self._record(exchange, errand, request, error_type, self._clock() - started, tally)

    def _tally(self, exchange: Exchange, errand: Errand, request: Request) -> Tally:
        if self._spans is None:
            return Tally(None)
        return Tally(self._spans.begin(exchange, request, errand.named or "", errand.reach.server.key))

    def _record(
        self, exchange: Exchange, errand: Errand, request: Request, error_type: str, seconds: float, tally: Tally
    ) -> None:
        key = errand.reach.server.key
        recorder = errand.recorder or self._book.recorder(errand.method, "", str(key))
        recorder.record(int(seconds * 1e9), error_type)
        if errand.recorder is not None:
            self._book.waited(exchange.tier, int(seconds * 1e9))
        if tally.limit:
            self._book.limit(tally.limit)
        if self._auditor is not None:
            self._auditor.called(
                exchange, errand.method, key, errand.named or "", request.params, error_type, seconds, tally.size,
                tally.limit, tally.denied,
            )  # fmt: skip

    async def _result(
        self, exchange: Exchange, errand: Errand, request: Request, started: float, span: CallSpan | None
    ) -> Outcome:
        reach = errand.reach
        if not (reach.server.catalog.online or reach.guard.still_answers()):
            raise ConnectFailed(f"the server {reach.server.key} is offline", reason="Offline")
        if request.modern and errand.method in eras.NAMED and not await reach.upstream.era(None, started):
            bridged = await self._bridged(exchange, errand, request, started, span)
            if bridged is not None:
                return _hinted(errand, bridged)
        live = self.live.of(exchange, request, escapes=errand.escapes)
        again = errand.idempotent and not any(more in errand.params for more in MORE)
        try:
            if errand.method in SUBSCRIPTIONS:
                live.subscribe()
            deadline = started + reach.timeout

            async def made(errand: Errand, *, again: bool) -> tuple[Raw, bool]:
                return await attempted(
                    reach.guard, lambda: self._attempt(exchange, errand, request, live, deadline, span),
                    agent=asker(exchange), deadline=deadline, retries=reach.retries, idempotent=again,
                    impatient=reach.impatient, what=errand.named or errand.method,
                )  # fmt: skip

            raw, modern = await made(errand, again=again)
            if modern and not request.modern:

                async def once_more(more: jsonrpc.RawObject) -> Raw:
                    params = {**errand.params, **more}
                    return (await made(msgspec.structs.replace(errand, params=params), again=False))[0]

                raw = await in_rounds(live, raw, once_more, lambda: deadline - self._clock())
        finally:
            live.close()
        outcome = translate.result(raw, from_modern=modern, to_modern=request.modern, server_info=reach.server_info)
        return _hinted(errand, outcome) if request.modern else outcome

    async def _bridged(
        self, exchange: Exchange, errand: Errand, request: Request, started: float, span: CallSpan | None
    ) -> Outcome | None:
        """A call of a modern client whom a legacy server may ask; None where the client offers nothing."""
        reach = errand.reach
        of = (exchange.identity.principal, reach.server.key, errand.method, errand.named)
        live = self.live.of(exchange, request, escapes=errand.escapes)
        call = self._bridge.resume(request, of)
        if call is not None:
            call.relay.attach(live)
        elif (features := features_of(request)) is not None:
            client = self._bridge.lease(features)
            relay, deadline = Relay(live, client), started + reach.timeout
            work = attempted(
                reach.guard, lambda: self._attempt(exchange, errand, request, relay, deadline, span),
                agent=asker(exchange), deadline=deadline, retries=0, idempotent=False, impatient=reach.impatient,
                what=errand.named or errand.method,
            )  # fmt: skip
            call = Bridged(relay, of, deadline, work)
            call.task.add_done_callback(lambda _: self._bridge.release(client))
        else:
            return None
        try:
            raw = await call.next()
        finally:
            call.relay.detach()
        parked = self._bridge.park(call) if raw is None else None
        return translate.result(
            raw or Raw(parked or b""), from_modern=raw is None, to_modern=True, server_info=reach.server_info
        )

    async def _attempt(
        self,
        exchange: Exchange,
        errand: Errand,
        request: Request,
        live: LiveRequest | Relay,
        deadline: float,
        span: CallSpan | None,
    ) -> tuple[Raw, bool]:
        """The raw result, and whether it is one of the modern era. Raises McpError."""
        reach, upstream = errand.reach, errand.reach.upstream
        modern = await upstream.era(live.client, deadline)
        if errand.method in SUBSCRIPTIONS and live.client is None:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, "Subscriptions need a session", None)
        if errand.method in SUBSCRIPTIONS and modern:
            return self._watch(errand, request), False
        ident = upstream.next_id()
        members, pin = affinity.untagged(self._belonging.unmarked(errand.params, exchange.identity))
        members, lines = carried({**members}, exchange.headers) if span is None else span.attempt({**members})
        lines += passed_on(exchange.headers.get(VIA))
        params = translate.params(
            members, from_modern=request.modern, to_modern=modern, client=self._client,
            token=live.token(ident), log_level=live.log_level(modern),
            capabilities=None if live.client is None else live.client.features,
        )  # fmt: skip

        watch = Stopwatch(errand.meter, self._clock)

        def notify(message: Message) -> None:
            reach.guard.heard += 1
            live.notify(message)

        def on_request(message: Message, answer: AnswerServer) -> None:
            reach.guard.heard += 1
            watch.stop(NEUTRAL)  # from here on it is a person or a model that takes its time
            live.on_request(message, answer)

        inquiry = Inquiry(
            ident, errand.method, params, deadline, reach.max_bytes, errand.named, errand.headers + lines,
            notify, live.client, on_request, pin, exchange.pause, self._session(request), live.level, live.listener,
            exchange, gated=errand.route is not None and bool(errand.route.requires),
        )  # fmt: skip
        try:
            raw = await upstream.ask(inquiry)
        except Exception as error:
            watch.stop(NEUTRAL if reach.impatient and isinstance(error, Timeout) else outcome_of(error))
            if span is not None:
                span.attempt_over(type(error).__name__)
            raise
        except BaseException:
            watch.stop(NEUTRAL)
            raise
        watch.stop(OK if says_success(raw) else NEUTRAL)
        if span is not None:
            span.attempt_over()
        return self._belonging.marked(raw, exchange.identity) if modern else raw, modern

    def _watch(self, errand: Errand, request: Request) -> Raw:
        """A legacy client's subscription at a modern server."""
        session, uri = request.session or b"", errand.named or ""

        def tell(params: Raw) -> None:
            if self.live.sessions.ended(session):
                self.watches.drop((session, uri))
            else:
                self.live.outlet(session, Raw(jsonrpc.encode({"uri": uri})))

        if errand.method == "resources/subscribe":
            self.watches.hold((session, uri), errand.reach, [uri], tell)
        else:
            self.watches.drop((session, uri))
        return Raw(b"{}")

    def _session(self, request: Request) -> bytes | None:
        session = request.session
        return session if session is not None and self.live.sessions.read(session) is not None else None

    def _failed(self, exchange: Exchange, errand: Errand, request: Request, error: McpError) -> str:
        """Answer with an error, and name it for the record."""
        told = (
            isinstance(error, RpcError)
            and request.modern
            and (
                error.code in _FOR_THE_CLIENT
                or (error.code == jsonrpc.INVALID_PARAMS and any(more in request.params for more in MORE))
            )
        )
        if errand.route is not None and isinstance(error, Timeout) and error.sent:
            error = Timeout(refusals.timed_out(errand.route), sent=True)
        if errand.method == CALL and not told:
            refusal = refusals.refusal_for(error)
            self._refuse(exchange, errand, request, refusal)
            return refusal.code
        rejection = rejection_for(request, error)
        _answer(exchange, rejection, escapes=errand.escapes)
        return str(rejection.code)

    def _refuse(self, exchange: Exchange, errand: Errand, request: Request, refusal: Refusal) -> None:
        """What the gateway itself says: of a call a result that the model reads, of anything else an error."""
        if errand.method != CALL:
            _answer(exchange, _internal(request, refusal.message))
            return
        outcome = translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern, server_info=self._server_info
        )
        result = escaped(outcome.result) if errand.escapes else outcome.result
        exchange.answer(200, *result_parts(request.id, result))


def _wrong_arguments(errand: Errand, tally: Tally) -> Refusal | None:
    """A retry of a request that asked for more need not repeat its arguments; where it does, or where policies allow
    some only, they have to fit.
    """
    arguments = errand.params.get("arguments")
    repeated = arguments is not None or not any(more in errand.params for more in MORE)
    wrong = errand.check.arguments(arguments) if errand.check is not None and repeated else None
    if wrong is not None:
        return refusals.invalid_arguments(wrong)
    constraint = None if errand.route is None else errand.route.constraint
    refusal = None if constraint is None else constraint.refusal(arguments)
    if refusal is not None and constraint is not None:
        tally.denied = constraint.by
    return refusal


def _hinted(errand: Errand, outcome: Outcome) -> Outcome:
    if errand.method != READ or outcome.needs_input:
        return outcome
    return Outcome(with_cache_hints(outcome.result), outcome.is_error)


def with_cache_hints(result: bytes | Raw) -> bytes | Raw:
    """`ttlMs` and `cacheScope`, which a modern `resources/read` must carry and a legacy server does not give."""
    members = jsonrpc.decode_object(result)
    if "ttlMs" in members and "cacheScope" in members:
        return result
    members.setdefault("ttlMs", Raw(b"0"))
    members.setdefault("cacheScope", Raw(b'"private"'))
    return jsonrpc.encode(members)


def rejection_for(request: Request, error: McpError) -> Rejection:
    """What the client is told of an error: the server's own words where it gave some."""
    if isinstance(error, RpcError):
        code = error.code
        if request.modern and code == jsonrpc.RESOURCE_NOT_FOUND:
            code = jsonrpc.INVALID_PARAMS
        status = eras.status_for(code) if request.modern else 200
        return Rejection(status, code, error.message, request.id, error.data)
    refusal = refusals.refusal_for(error)
    detail = jsonrpc.encode({refusals.META_ERROR: {"code": refusal.code, "message": refusal.message}})
    return Rejection(200, jsonrpc.INTERNAL_ERROR, refusal.message, request.id, detail)


def _answer(exchange: Exchange, rejection: Rejection, *, escapes: bool = False) -> None:
    body = jsonrpc.error(rejection.id, rejection.code, rejection.message, rejection.data)
    exchange.answer(rejection.status, escaped(body) if escapes else body)


def _internal(request: Request, message: str) -> Rejection:
    return Rejection(200, jsonrpc.INTERNAL_ERROR, message, request.id)
