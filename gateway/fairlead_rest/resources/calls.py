"""`GET /v1/calls`: the last calls that this replica ended, one of them with what its time went to, and a live tail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from fairlead_gateway.limits.shares import Shares
from fairlead_gateway.recent.ended_call import EndedCall
from fairlead_gateway.recent.ring import KeptCalls, RecentCalls
from fairlead_offers.documents import encode
from fairlead_offers.problems import INVALID_ARGUMENTS, NOT_FOUND, NOT_KEPT, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.context import RestContext
from fairlead_rest.ended_calls import CallDetails, CallFilter, CallReader, CallSummary, CallValues, newest, values_of
from fairlead_rest.event_stream import (
    HEARTBEAT,
    MEDIA_TYPE,
    EventStreamResponse,
    Opened,
    check_room,
    event_piece,
    opened_piece,
)
from fairlead_rest.examples import calls as examples
from fairlead_rest.openapi import describe_route

MOST_READERS: Final = 64
"""Live tails at once."""
GATHER_SECONDS: Final = 0.5
"""How long a tail lets calls gather, so that a busy gateway does not wake for each."""
MOST_TOLD: Final = 50
"""Calls of one event; the others are counted."""
STRIDE: Final = 256
"""Calls between two breaths of a search."""
ENDED: Final = "calls.ended"


class CallList(msgspec.Struct, frozen=True, rename="camel"):
    """Calls, the newest first."""

    calls: list[CallSummary]
    next: str | None
    """`before` of a request for older ones; null: there are none."""
    visible: int = msgspec.field(name="kept")
    """Calls that the reader may see, whatever the filters say."""
    values: CallValues


class CallsEnded(msgspec.Struct, frozen=True, rename="camel"):
    """Event of the live tail: calls that ended since the last one, and pass its filters."""

    id: str
    type: str
    """`calls.ended`."""
    calls: list[CallSummary]
    """The newest first."""
    more: int
    """Further ones that are left out, for there are too many."""
    missed: bool
    """Others may have ended that are not kept any more."""


Agent = Annotated[str, Query(max_length=256, description="Agent or principal.")]
Place = Annotated[str, Query(max_length=256, description="`namespace/name` of the server, or the name alone.")]
Called = Annotated[str, Query(max_length=256, description="Exposed name, id, or the name that its server gives it.")]
Outcome = Annotated[str, Query(max_length=256, description="`ok`, `failed` for all but that, or one outcome.")]
Slow = Annotated[float, Query(ge=0, description="Calls that took so many milliseconds at least.")]


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/calls`."""
    routes = APIRouter(prefix="/v1", tags=["calls"])
    readers = Shares("event_streams", MOST_READERS)

    @routes.get("/calls", **describe_route("List the last calls", CallList, examples.RECENT))
    async def list_calls(
        request: Request,
        agent: Agent = "",
        server: Place = "",
        tool: Called = "",
        outcome: Outcome = "",
        slow: Slow = 0.0,
        before: Annotated[str, Query(max_length=64, description="Older ones than this `next` of an answer.")] = "",
        limit: Annotated[int, Query(ge=1, le=200, description="So many at most.")] = 50,
    ) -> Response:
        recent, reader = _recent(context), _reader(context, request)
        wanted = CallFilter(agent, server, tool, outcome, slow)
        calls_kept, number = recent.snapshot(), None
        if before:
            number = recent.number_of(before)
            if number is None:
                raise Problem(INVALID_ARGUMENTS, "before: no call of this replica; begin with the newest")
        return await context.answer(lambda: _list(recent, reader, wanted, calls_kept, number, limit))

    @routes.get(
        "/calls/events",
        **describe_route("Follow calls as they end", CallsEnded | Opened, examples.TAIL, media_type=MEDIA_TYPE),
    )
    async def follow_calls(
        request: Request,
        agent: Agent = "",
        server: Place = "",
        tool: Called = "",
        outcome: Outcome = "",
        slow: Slow = 0.0,
        last_event_id: Annotated[
            str | None, Header(description="The last `id` that was read: the stream goes on behind it.")
        ] = None,
    ) -> Response:
        recent, wanted = _recent(context), CallFilter(agent, server, tool, outcome, slow)
        check_room(readers, request.scope, context.records.shares)
        identity = context.seen(request).identity
        sent = _tail(context, recent, request, wanted, last_event_id)
        return EventStreamResponse(sent, readers, identity, context.guard.identities)

    @routes.get("/calls/{id}", **describe_route("Show one call and what its time went to", CallDetails, examples.CALL))
    async def show_call(request: Request, id: str) -> Response:  # noqa: A002  # the name of the parameter in the path
        recent, reader = _recent(context), _reader(context, request)
        calls_kept, number = recent.snapshot(), recent.number_of(id)
        call = calls_kept.call(number) if number is not None and number >= calls_kept.first else None
        if call is None or not reader.visible(call):
            raise Problem(NOT_FOUND, "this replica keeps no call of that id that you may see")
        return await context.answer(lambda: reader.details(call, id, calls_kept.epoch, recent.tell))

    return routes


def _recent(context: RestContext) -> RecentCalls:
    """Raises Problem where no calls are kept."""
    if context.records.recent is None:
        raise Problem(NOT_KEPT, "calls are not kept here: FAIRLEAD_RECENT_CALLS is 0")
    return context.records.recent


def _reader(context: RestContext, request: Request) -> CallReader:
    seen = context.seen(request)
    return CallReader(seen.identity, seen.snapshot, administers=context.administers(seen.identity))


def _list(
    recent: RecentCalls, reader: CallReader, wanted: CallFilter, calls_kept: KeptCalls, before: int | None, limit: int
) -> CallList:
    visible = [
        (number, call) for number, call in with_pauses(calls_kept.newest_first(), STRIDE) if reader.visible(call)
    ]
    older = visible if before is None else [(number, call) for number, call in visible if number < before]
    listed = [*_first(limit + 1, reader, wanted, older)]
    shown = [reader.summary(call, recent.ident(number), calls_kept.epoch) for number, call in listed[:limit]]
    values = values_of(reader, [call for _, call in visible])
    return CallList(shown, shown[-1].id if len(listed) > limit else None, len(visible), values)


def _first(
    most: int, reader: CallReader, wanted: CallFilter, calls: Sequence[tuple[int, EndedCall]]
) -> list[tuple[int, EndedCall]]:
    first: list[tuple[int, EndedCall]] = []
    for call in newest(reader, wanted, with_pauses(calls, STRIDE)):
        first.append(call)
        if len(first) == most:
            break
    return first


async def _tail(
    context: RestContext, recent: RecentCalls, request: Request, wanted: CallFilter, last: str | None
) -> AsyncIterator[bytes]:
    """The bytes of a live tail that goes on behind the call `last`, or begins now."""
    resumed = None if last is None else recent.number_of(last)
    number = recent.number if resumed is None else resumed
    yield opened_piece(recent.ident(number), missed=last is not None and resumed is None)
    told_at = time.monotonic()
    while not recent.closed:
        if await recent.newer(number, HEARTBEAT):
            await asyncio.sleep(GATHER_SECONDS)
        event = _end_of(recent, _reader(context, request), wanted, number)
        number = recent.number
        if event is not None:
            yield event_piece(event.id, event.type, encode(event))
        elif time.monotonic() - told_at >= HEARTBEAT:
            yield b": heartbeat\n\n"
        else:
            continue
        told_at = time.monotonic()


def _end_of(recent: RecentCalls, reader: CallReader, wanted: CallFilter, number: int) -> CallsEnded | None:
    """The event about calls behind a number; None where none passes."""
    calls_kept = recent.snapshot().behind(number)
    newest_calls = [*newest(reader, wanted, calls_kept.newest_first())]
    if not newest_calls:
        return None
    shown = [reader.summary(call, recent.ident(at), calls_kept.epoch) for at, call in newest_calls[:MOST_TOLD]]
    missed = calls_kept.first > number + 1
    return CallsEnded(recent.ident(calls_kept.number), ENDED, shown, len(newest_calls) - len(shown), missed)
