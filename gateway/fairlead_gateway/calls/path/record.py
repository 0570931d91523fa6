"""Records completed requests in metrics, in the audit log, and in the ring of recent calls."""

from __future__ import annotations

import logging
from typing import TypeAlias

from msgspec import Raw

from fairlead_api.logs import SPAN_ID, TRACE_ID
from fairlead_gateway.audit.entry import AuditedCall
from fairlead_gateway.calls.path.attempts import Attempts
from fairlead_gateway.calls.path.client_call import ClientCall
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.recent.ended_call import MAX_ADDRESS, MAX_NAME, CallRefusal
from fairlead_gateway.recent.phases import NEVER, CallPhase
from fairlead_gateway.recent.ring import MAX_CHARACTER_BYTES, PHASE_BYTES, PLAIN_CHARACTERS, RecentCalls
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_gateway.tracing.trace import TRACEPARENT, trace_id

log = logging.getLogger(__name__)

Body: TypeAlias = tuple[bytes | Raw, ...]
"""Parts of a response body."""


def record(call: ClientCall, error_type: str, body: Body) -> None:
    """Record a request that was answered with `body`. An empty `error_type` is a success."""
    attempts, exchange, route, context = call.attempts, call.exchange, call.route, call.context
    metrics, tier = context.metrics, exchange.tier
    ended_at = context.clock()
    seconds = ended_at - attempts.started
    duration_ns = int(seconds * 1e9)
    route.recorder.record(duration_ns, error_type)
    if route.tool is not None:
        metrics.count_wait(tier, duration_ns)
    span = None if attempts.span is None else attempts.span.ids
    if span is not None:
        route.recorder.set_exemplar(duration_ns, error_type, span.trace_id, span.span_id)
        if route.tool is not None:
            metrics.set_wait_exemplar(tier, duration_ns, span.trace_id, span.span_id)
    if call.limit:
        metrics.count_limit(call.limit)
    auditor, recent = context.auditor, context.recent
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    audited = auditor is not None and (auditor.records_all or call.limit != "" or call.denying_rules != "")
    if auditor is not None and audited:
        auditor.record_call(exchange, _audit_line(call, error_type, seconds, size, span))
    if recent is not None:
        _remember(recent, call, error_type, ended_at, size, audited=audited)


def log_defect(attempts: Attempts, request: McpRequest, error: Exception) -> None:
    """Log an unexpected exception, a defect of the gateway, with the ids of the request's trace span."""
    ids = None if attempts.span is None else attempts.span.ids
    log.error(
        "%s %s of server %s failed because of a defect in the gateway; please report it",
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
        call.denying_rules,
        span,
    )


def _remember(
    recent: RecentCalls, call: ClientCall, outcome: str, ended_at: float, size: int, *, audited: bool
) -> None:
    """Add a completed request to the ring of recent calls.

    `ended_at` is in seconds of `CallContext.clock`, `size` the bytes of the answer. `audited` tells whether the audit
    log has the request too; only then are its arguments stored.
    """
    attempts, exchange, request, route = call.attempts, call.exchange, call.request, call.route
    name, address, caller = route.name, exchange.address, recent.caller(exchange.identity)
    arguments, recorded_arguments, trace, span = request.params.get("arguments"), None, "", attempts.span
    refusal: CallRefusal | None = None
    trail: tuple[CallPhase, ...] = ()
    characters, extra_bytes = len(name) + len(address) + caller.characters, 0
    if characters > PLAIN_CHARACTERS:
        name, address = name[:MAX_NAME], address[:MAX_ADDRESS]
        extra_bytes = MAX_CHARACTER_BYTES * (len(name) + len(address) + caller.characters)
    if span is not None:
        trace = "" if span.ids is None else span.ids.trace_id
    elif request.meta.has_traceparent or TRACEPARENT in exchange.headers:
        trace = trace_id(exchange.headers.get(TRACEPARENT, b""), request.params.get("_meta"))
    if attempts.trail is not None:
        attempts.trail.end(ended_at)
        trail = (*attempts.trail.phases,)
        extra_bytes += PHASE_BYTES * len(trail)
    if audited:
        recorded_arguments = recent.arguments(arguments)
        extra_bytes += 0 if recorded_arguments is None else len(recorded_arguments)
    if outcome and (call.refusal or call.denying_rules or call.limit):
        refusal = CallRefusal.cut(call.refusal, call.denying_rules, call.limit)
        extra_bytes += refusal.weight
    entry = (
        attempts.started,
        ended_at,
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
        recorded_arguments,
        refusal,
        trail,
    )
    if extra_bytes:
        recent.put_large(entry, extra_bytes)
    else:
        recent.put(entry)


def remember_other(
    recent: RecentCalls,
    exchange: Exchange,
    call: AuditedCall,
    ended_at: float,
    refusal: CallRefusal | None = None,
    *,
    audited: bool,
) -> None:
    """Add a request that was not sent to a server to the ring of recent calls: a call of one of the gateway's own
    tools, or of an unknown name.

    `ended_at` is in seconds of `CallContext.clock`. `audited` tells whether the audit log has the request too; only
    then are its arguments stored.
    """
    name, address, caller = call.tool[:MAX_NAME], exchange.address[:MAX_ADDRESS], recent.caller(exchange.identity)
    arguments = call.params.get("arguments")
    recorded_arguments = recent.arguments(arguments) if audited else None
    recent.put_large(
        (
            ended_at - call.seconds,
            ended_at,
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
            recorded_arguments,
            refusal,
            (),
        ),
        MAX_CHARACTER_BYTES * (len(name) + len(address) + caller.characters)
        + (0 if recorded_arguments is None else len(recorded_arguments))
        + (0 if refusal is None else refusal.weight),
    )
