"""Packs calls that are over for the ring of `recent`, from what their path knows anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.exchange import Exchange
from fairlead_gateway.recent.ended_call import MAX_ADDRESS, MAX_NAME, CallRefusal
from fairlead_gateway.recent.phases import NEVER, CallPhase
from fairlead_gateway.recent.ring import PHASE_BYTES, PLAIN_LETTERS, WIDEST, RecentCalls
from fairlead_gateway.tracing.trace import TRACEPARENT, trace_id

if TYPE_CHECKING:
    from fairlead_gateway.calls.path.client_request import ClientRequest


def remember(recent: RecentCalls, call: ClientRequest, outcome: str, ended: float, size: int, *, audited: bool) -> None:
    """Keep a request to a server that is over. `ended`: seconds of the gateway's clock, `size`: bytes of its answer,
    `audited`: whether the audit log has it.
    """
    request, exchange, route = call.request, call.exchange, call.route
    name, address, caller = route.name, exchange.address, recent.caller(exchange.identity)
    arguments, kept, trace, why, span = request.params.get("arguments"), None, "", None, call.span
    trail: tuple[CallPhase, ...] = ()
    letters, more = len(name) + len(address) + caller.letters, 0
    if letters > PLAIN_LETTERS:
        name, address = name[:MAX_NAME], address[:MAX_ADDRESS]
        more = WIDEST * (len(name) + len(address) + caller.letters)
    if span is not None:
        trace = "" if span.ids is None else span.ids.trace_id
    elif request.meta.traced or TRACEPARENT in exchange.headers:
        trace = trace_id(exchange.headers.get(TRACEPARENT, b""), request.params.get("_meta"))
    if call.trail is not None:
        call.trail.end(ended)
        trail = (*call.trail.phases,)
        more += PHASE_BYTES * len(trail)
    if audited:
        kept = recent.arguments(arguments)
        more += 0 if kept is None else len(kept)
    if outcome and (call.refusal or call.denied or call.limit):
        why = CallRefusal.cut(call.refusal, call.denied, call.limit)
        more += why.weight
    packed = (
        call.started,
        ended,
        call.sent_at,
        call.answered_at,
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
        kept,
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
    method: str,
    name: str,
    params: Mapping[str, Raw],
    outcome: str,
    began: float,
    ended: float,
    *,
    server: ServerKey | None = None,
    size: int = 0,
    why: CallRefusal | None = None,
    audited: bool,
) -> None:
    """Keep a request that no server got: of a tool of the gateway's own, or of a name that its client does not see."""
    name, address, caller = name[:MAX_NAME], exchange.address[:MAX_ADDRESS], recent.caller(exchange.identity)
    arguments = params.get("arguments")
    kept = recent.arguments(arguments) if audited else None
    recent.put_large(
        (
            began,
            ended,
            NEVER,
            NEVER,
            method,
            name,
            server,
            outcome,
            caller,
            address,
            exchange.tier,
            trace_id(exchange.headers.get(TRACEPARENT, b""), params.get("_meta")),
            0 if arguments is None else len(arguments),
            size,
            kept,
            why,
            (),
        ),
        WIDEST * (len(name) + len(address) + caller.letters)
        + (0 if kept is None else len(kept))
        + (0 if why is None else why.weight),
    )
