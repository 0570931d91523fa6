"""REST resource `GET /v1/calls`: the last ended calls of this replica, the phases of one call, and a stream of calls as
they end (live tail).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from fairlead_gateway.limits.shares import Shares
from fairlead_gateway.recent.ended_call import EndedCall
from fairlead_gateway.recent.ring import RecentCalls, StoredCalls
from fairlead_offers.documents import encode
from fairlead_offers.problems import INVALID_ARGUMENTS, NOT_FOUND, NOT_KEPT, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.context import RestContext
from fairlead_rest.ended_calls import (
    CallDetails,
    CallFilter,
    CallReader,
    CallSummary,
    CallValues,
    matching_calls,
    values_of,
)
from fairlead_rest.event_stream import (
    HEARTBEAT_SECONDS,
    MEDIA_TYPE,
    EventStreamResponse,
    Opened,
    check_room,
    event_piece,
    opened_piece,
)
from fairlead_rest.examples import calls as examples
from fairlead_rest.openapi import describe_route

MAX_READERS: Final = 64
"""Maximum number of live tails that are open at the same time."""
GATHER_SECONDS: Final = 0.5
"""Seconds for which a live tail collects calls before it sends an event, so that it does not wake for each call of a
busy gateway."""
MAX_CALLS_OF_EVENT: Final = 50
"""Maximum number of calls in an event. Further calls are only counted (`more`)."""
STRIDE: Final = 256
"""Number of calls between two pauses of the thread."""
ENDED: Final = "calls.ended"


class CallList(msgspec.Struct, frozen=True, rename="camel"):
    """Ended calls, the newest first."""

    calls: list[CallSummary]
    next: str | None
    """Value of `before` in a request for older calls; null if there are no older calls."""
    visible: int = msgspec.field(name="kept")
    """Number of stored calls that the reader may see, without filters."""
    values: CallValues


class CallsEnded(msgspec.Struct, frozen=True, rename="camel"):
    """Event of the live tail: calls that ended since the last event and match the filters."""

    id: str
    type: str
    """`calls.ended`."""
    calls: list[CallSummary]
    """Calls, the newest first."""
    more: int
    """Number of further calls that were left out because there are too many."""
    missed: bool
    """Whether other calls may have ended that are no longer stored."""


Agent = Annotated[str, Query(max_length=256, description="Name of an agent or principal.")]
ServerName = Annotated[str, Query(max_length=256, description="`namespace/name` of the server, or the name alone.")]
ToolName = Annotated[str, Query(max_length=256, description="Exposed name, id, or the server's name of a tool.")]
Outcome = Annotated[
    str, Query(max_length=256, description="`ok`, `failed` for all other outcomes, or a single outcome.")
]
Slow = Annotated[float, Query(ge=0, description="Minimum duration of calls in milliseconds.")]


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/calls`."""
    routes = APIRouter(prefix="/v1", tags=["calls"])
    readers = Shares("event_streams", MAX_READERS)

    @routes.get("/calls", **describe_route("List the last calls", CallList, examples.RECENT))
    async def list_calls(
        request: Request,
        agent: Agent = "",
        server: ServerName = "",
        tool: ToolName = "",
        outcome: Outcome = "",
        slow: Slow = 0.0,
        before: Annotated[
            str,
            Query(max_length=64, description="Only calls older than this position: the `next` of an earlier answer."),
        ] = "",
        limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of calls.")] = 50,
    ) -> Response:
        recent, reader = _recent(context), _reader(context, request)
        call_filter = CallFilter(agent, server, tool, outcome, slow)
        stored_calls, number = recent.snapshot(), None
        if before:
            number = recent.number_of(before)
            if number is None:
                raise Problem(
                    INVALID_ARGUMENTS,
                    "the parameter `before` names a call that this replica does not have; leave it out to start with "
                    "the newest calls",
                )
        return await context.answer(lambda: _list(recent, reader, call_filter, stored_calls, number, limit))

    @routes.get(
        "/calls/events",
        **describe_route("Follow calls as they end", CallsEnded | Opened, examples.TAIL, media_type=MEDIA_TYPE),
    )
    async def follow_calls(
        request: Request,
        agent: Agent = "",
        server: ServerName = "",
        tool: ToolName = "",
        outcome: Outcome = "",
        slow: Slow = 0.0,
        last_event_id: Annotated[
            str | None, Header(description="Last `id` that was read, after which the stream continues.")
        ] = None,
    ) -> Response:
        recent, call_filter = _recent(context), CallFilter(agent, server, tool, outcome, slow)
        check_room(readers, request.scope, context.records.shares)
        identity = context.catalog(request).identity
        pieces = _tail(context, recent, request, call_filter, last_event_id)
        return EventStreamResponse(pieces, readers, identity, context.guard.identities)

    @routes.get(
        "/calls/{id}", **describe_route("Show one call, with the phases of its duration", CallDetails, examples.CALL)
    )
    async def show_call(request: Request, id: str) -> Response:  # noqa: A002  # the name of the parameter in the path
        recent, reader = _recent(context), _reader(context, request)
        stored_calls, number = recent.snapshot(), recent.number_of(id)
        call = stored_calls.call(number) if number is not None and number >= stored_calls.first else None
        if call is None or not reader.may_see(call):
            raise Problem(NOT_FOUND, "this replica has no call with this id that you may see")
        return await context.answer(lambda: reader.details(call, id, stored_calls.epoch, recent.render_arguments))

    return routes


def _recent(context: RestContext) -> RecentCalls:
    """Stored calls. Raises Problem if calls are not stored."""
    if context.records.recent is None:
        raise Problem(NOT_KEPT, "this gateway does not store calls: set FAIRLEAD_RECENT_CALLS above 0")
    return context.records.recent


def _reader(context: RestContext, request: Request) -> CallReader:
    seen = context.catalog(request)
    return CallReader(seen.identity, seen.snapshot, administers=context.administers(seen.identity))


def _list(
    recent: RecentCalls,
    reader: CallReader,
    call_filter: CallFilter,
    stored_calls: StoredCalls,
    end_number: int | None,
    limit: int,
) -> CallList:
    numbered_calls = with_pauses(stored_calls.newest_first(), STRIDE)
    visible_calls = [(number, call) for number, call in numbered_calls if reader.may_see(call)]
    older_calls = (
        visible_calls
        if end_number is None
        else [(number, call) for number, call in visible_calls if number < end_number]
    )
    matches = [*_first(limit + 1, reader, call_filter, older_calls)]
    summaries = [reader.summary(call, recent.ident(number), stored_calls.epoch) for number, call in matches[:limit]]
    values = values_of(reader, [call for _, call in visible_calls])
    return CallList(summaries, summaries[-1].id if len(matches) > limit else None, len(visible_calls), values)


def _first(
    count: int, reader: CallReader, call_filter: CallFilter, calls: Sequence[tuple[int, EndedCall]]
) -> list[tuple[int, EndedCall]]:
    first_calls: list[tuple[int, EndedCall]] = []
    for call in matching_calls(reader, call_filter, with_pauses(calls, STRIDE)):
        first_calls.append(call)
        if len(first_calls) == count:
            break
    return first_calls


async def _tail(
    context: RestContext, recent: RecentCalls, request: Request, call_filter: CallFilter, last_id: str | None
) -> AsyncIterator[bytes]:
    """Yield the bytes of a live tail. It continues after the call with the id `last_id`, or begins now."""
    resume_number = None if last_id is None else recent.number_of(last_id)
    number = recent.number if resume_number is None else resume_number
    yield opened_piece(recent.ident(number), missed=last_id is not None and resume_number is None)
    sent_at = time.monotonic()
    while not recent.closed:
        if await recent.wait_newer(number, HEARTBEAT_SECONDS):
            await asyncio.sleep(GATHER_SECONDS)
        event = _make_event(recent, _reader(context, request), call_filter, number)
        number = recent.number
        if event is not None:
            yield event_piece(event.id, event.type, encode(event))
        elif time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
            yield b": heartbeat\n\n"
        else:
            continue
        sent_at = time.monotonic()


def _make_event(recent: RecentCalls, reader: CallReader, call_filter: CallFilter, number: int) -> CallsEnded | None:
    """Make the event about calls after a number; None if no call matches the filter."""
    stored_calls = recent.snapshot().after(number)
    newest_calls = [*matching_calls(reader, call_filter, stored_calls.newest_first())]
    if not newest_calls:
        return None
    summaries = [
        reader.summary(call, recent.ident(at), stored_calls.epoch) for at, call in newest_calls[:MAX_CALLS_OF_EVENT]
    ]
    has_missed_calls = stored_calls.first > number + 1
    return CallsEnded(
        recent.ident(stored_calls.number), ENDED, summaries, len(newest_calls) - len(summaries), has_missed_calls
    )
