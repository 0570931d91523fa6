"""Records requests that are over: counts, the audit log, and the ring of the latest calls."""

from __future__ import annotations

import logging
from typing import TypeAlias

from msgspec import Raw

from fairlead_api.logs import SPAN_ID, TRACE_ID
from fairlead_gateway.audit.entry import AuditedCall
from fairlead_gateway.calls.path.attempts import Attempts, ClientCall
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.recent.ended_call import MAX_ADDRESS, MAX_NAME, CallRefusal
from fairlead_gateway.recent.phases import NEVER, CallPhase
from fairlead_gateway.recent.ring import PHASE_BYTES, PLAIN_LETTERS, WIDEST, RecentCalls
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_gateway.tracing.trace import TRACEPARENT, trace_id

log = logging.getLogger(__name__)

Body: TypeAlias = tuple[bytes | Raw, ...]
"""Parts of an answer."""


def record(call: ClientCall, error_type: str, body: Body) -> None:
    """Count and audit a request that was answered with `body`, and keep it where the latest calls are kept."""
    attempts, exchange, route, context = call.attempts, call.exchange, call.route, call.context
    metrics, tier = context.metrics, exchange.tier
    ended = context.clock()
    seconds = ended - attempts.started
    took = int(seconds * 1e9)
    route.recorder.record(took, error_type)
    if route.tool is not None:
        metrics.count_wait(tier, took)
    span = None if attempts.span is None else attempts.span.ids
    if span is not None:
        route.recorder.exemplify(took, error_type, span.trace_id, span.span_id)
        if route.tool is not None:
            metrics.exemplify_wait(tier, took, span.trace_id, span.span_id)
    if call.limit:
        metrics.limit(call.limit)
    auditor, recent = context.auditor, context.recent
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    audited = auditor is not None and (auditor.every or call.limit != "" or call.denied != "")
    if auditor is not None and audited:
        auditor.record_call(exchange, _audit_line(call, error_type, seconds, size, span))
    if recent is not None:
        _remember(recent, call, error_type, ended, size, audited=audited)


def log_defect(attempts: Attempts, request: McpRequest, error: Exception) -> None:
    """Log an error that is the gateway's own, with the span of the request where it has one."""
    ids = None if attempts.span is None else attempts.span.ids
    log.error(
        "%s %s of %s failed in the gateway itself",
        request.method,
        attempts.route.name,
        attempts.route.server.key,
        exc_info=error,
        extra={} if ids is None else {TRACE_ID: ids.trace_id, SPAN_ID: ids.span_id},
    )


def _audit_line(call: ClientCall, outcome: str, seconds: float, size: int, span: SpanIds | None) -> AuditedCall:
    return AuditedCall(
        call.request.method,
        call.route.name,
        call.request.params,
        outcome,
        call.route.server.key,
        seconds,
        size,
        call.limit,
        call.denied,
        span,
    )


def _remember(recent: RecentCalls, call: ClientCall, outcome: str, ended: float, size: int, *, audited: bool) -> None:
    """Keep a request to a server that is over. `ended`: seconds of the gateway's clock, `size`: bytes of its answer,
    `audited`: whether the audit log has it.
    """
    attempts, exchange, request, route = call.attempts, call.exchange, call.request, call.route
    name, address, caller = route.name, exchange.address, recent.caller(exchange.identity)
    arguments, arguments_kept, trace, span = request.params.get("arguments"), None, "", attempts.span
    why: CallRefusal | None = None
    trail: tuple[CallPhase, ...] = ()
    letters, more = len(name) + len(address) + caller.letters, 0
    if letters > PLAIN_LETTERS:
        name, address = name[:MAX_NAME], address[:MAX_ADDRESS]
        more = WIDEST * (len(name) + len(address) + caller.letters)
    if span is not None:
        trace = "" if span.ids is None else span.ids.trace_id
    elif request.meta.traced or TRACEPARENT in exchange.headers:
        trace = trace_id(exchange.headers.get(TRACEPARENT, b""), request.params.get("_meta"))
    if attempts.trail is not None:
        attempts.trail.end(ended)
        trail = (*attempts.trail.phases,)
        more += PHASE_BYTES * len(trail)
    if audited:
        arguments_kept = recent.arguments(arguments)
        more += 0 if arguments_kept is None else len(arguments_kept)
    if outcome and (call.refusal or call.denied or call.limit):
        why = CallRefusal.cut(call.refusal, call.denied, call.limit)
        more += why.weight
    packed = (
        attempts.started,
        ended,
        attempts.sent_at,
        attempts.answered_at,
        request.method,
        name,
        route.server.key,
        outcome,
        caller,
        address,
        exchange.tier,
        trace,
        0 if arguments is None else len(arguments),
        size,
        arguments_kept,
        why,
        trail,
    )
    if more:
        recent.put_large(packed, more)
    else:
        recent.put(packed)


def remember_other(
    recent: RecentCalls,
    exchange: Exchange,
    call: AuditedCall,
    ended: float,
    why: CallRefusal | None = None,
    *,
    audited: bool,
) -> None:
    """Keep a request that no server got: of a tool of the gateway's own, or of a name that its client does not see.
    `ended`: seconds of the gateway's clock, `audited`: whether the audit log has it.
    """
    name, address, caller = call.tool[:MAX_NAME], exchange.address[:MAX_ADDRESS], recent.caller(exchange.identity)
    arguments = call.params.get("arguments")
    arguments_kept = recent.arguments(arguments) if audited else None
    recent.put_large(
        (
            ended - call.seconds,
            ended,
            NEVER,
            NEVER,
            call.method,
            name,
            call.server,
            call.outcome,
            caller,
            address,
            exchange.tier,
            trace_id(exchange.headers.get(TRACEPARENT, b""), call.params.get("_meta")),
            0 if arguments is None else len(arguments),
            call.size,
            arguments_kept,
            why,
            (),
        ),
        WIDEST * (len(name) + len(address) + caller.letters)
        + (0 if arguments_kept is None else len(arguments_kept))
        + (0 if why is None else why.weight),
    )
