"""REST resource `GET /v1/events`: changes of servers and their tools, as a stream of server-sent events.

Events are read from the ring buffer of the gateway's `EventLog`. A client that was disconnected sends `Last-Event-ID`,
and receives the events after the event with this id.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from fairlead_api.meta import ServerKey
from fairlead_gateway.events import FAILED, MAX_EVENTS, SWAPPED, Event, EventLog, MissedEvents
from fairlead_gateway.limits.shares import Shares
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_rest.context import RestContext
from fairlead_rest.event_stream import (
    HEARTBEAT_SECONDS,
    MEDIA_TYPE,
    EventStreamResponse,
    Opened,
    check_room,
    event_piece,
    opened_piece,
)
from fairlead_rest.examples import servers as examples
from fairlead_rest.log_access import may_read
from fairlead_rest.openapi import describe_route

MAX_READERS: Final = 256
_encode = msgspec.json.Encoder().encode


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/events`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])
    readers = Shares("event_streams", MAX_READERS)

    @routes.get(
        "/events", **describe_route("Follow servers and tools", Event | Opened, examples.EVENTS, media_type=MEDIA_TYPE)
    )
    async def follow(
        request: Request,
        last_event_id: Annotated[
            str | None, Header(description="Last `id` that was read, after which the stream continues.")
        ] = None,
        tail: Annotated[
            int,
            Query(
                ge=0, le=MAX_EVENTS, description="Number of past events to send first; ignored with `Last-Event-ID`."
            ),
        ] = 0,
    ) -> Response:
        check_room(readers, request.scope, context.records.shares)
        identity = context.catalog(request).identity
        reader = EventFilter(
            lambda: context.services.catalogs.seen_by(identity), files=may_read(context, request, identity)
        )
        sent = pieces(context.records.events, last_event_id, filter_events=reader.reduce, tail=tail)
        return EventStreamResponse(sent, readers, identity, context.guard.identities)

    return routes


class EventFilter:
    """Reduces events to servers and tools that a subject may see, or could see before their removal."""

    def __init__(self, get_catalog: Callable[[], SubjectCatalog], *, files: bool) -> None:
        """`get_catalog` returns the current catalog of the subject. `files` says whether the subject may see events
        about files, for which it must be allowed to read the output of servers.
        """
        self._get_catalog = get_catalog
        self._before = get_catalog()
        self._files = files

    def reduce(self, events: Iterable[Event]) -> list[Event]:
        """Reduce the events that happened since the last call of this method. The events may be from several
        activations of snapshots, so that a server or tool is visible if the catalog of the last call or the current
        catalog shows it.
        """
        before, now = self._before, self._get_catalog()
        self._before = now
        if not self._files:
            events = [event for event in events if not event.file]
        if before.whole and now.whole:
            return [*events]
        return [shown for event in events if (shown := self._reduce_event(event, before, now)) is not None]

    def _reduce_event(self, event: Event, before: SubjectCatalog, now: SubjectCatalog) -> Event | None:
        if event.file:
            return event
        if not event.server:
            servers = [view for view in map(now.server_view, now.snapshot.servers) if view is not None]
            tools = sum(len(view.everything) for view in servers)
            return msgspec.structs.replace(event, servers=len(servers), tools=tools)
        key = ServerKey(*event.server.split("/", 1))
        old_view, view = before.server_view(key), now.server_view(key)
        if old_view is None and view is None:
            may_see = event.type == FAILED and any(entry.key == key for entry in now.unready_servers())
            return event if may_see else None
        old_routes = old_view.everything if old_view is not None else {}
        routes = {**old_routes, **(view.everything if view is not None else {})}
        lists = (event.added, event.removed, event.changed)
        added, removed, changed = (tuple(name for name in names if name in routes) for names in lists)
        if any(lists) and not (added or removed or changed):
            return None
        return msgspec.structs.replace(event, added=added, removed=removed, changed=changed, more=0)


async def pieces(
    events: EventLog,
    last: str | None,
    heartbeat: float = HEARTBEAT_SECONDS,
    *,
    filter_events: Callable[[list[Event]], list[Event]] = list,
    tail: int = 0,
) -> AsyncIterator[bytes]:
    """Yield the bytes of a stream. It continues after the event with the id `last`, or begins with the last `tail`
    events. Of several `catalog.swapped` in a row among past events, only the last one is sent. `filter_events` reduces
    events to those that the reader may see.
    """
    missed, present = False, events.number
    try:
        number = events.before_last(tail) if last is None else events.number_of(last)
    except MissedEvents:
        number, missed = events.number, True
    yield _open_event(events, number, missed=missed)
    while not events.closed:
        try:
            new_events = await events.after(number, heartbeat)
        except MissedEvents:
            number = events.number
            yield _open_event(events, number, missed=True)
            continue
        if not new_events:
            yield b": heartbeat\n\n"
            continue
        is_past = number < present
        number += len(new_events)
        shown = filter_events(new_events)
        yield b"".join(map(_encode_event, _without_repeated_swaps(shown) if is_past and last is None else shown))


def _without_repeated_swaps(events: Sequence[Event]) -> Iterator[Event]:
    for event, following in itertools.zip_longest(events, events[1:]):
        if event.type != SWAPPED or following is None or following.type != SWAPPED:
            yield event


def _open_event(events: EventLog, number: int, *, missed: bool) -> bytes:
    return opened_piece(events.ident(number), missed=missed)


def _encode_event(event: Event) -> bytes:
    return event_piece(event.id, event.type, _encode(event))
