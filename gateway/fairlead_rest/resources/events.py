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
        stream = pieces(context.records.events, last_event_id, filter_events=reader.reduce, tail=tail)
        return EventStreamResponse(stream, readers, identity, context.guard.identities)

    return routes


class EventFilter:
    """Reduces events to servers and tools that a subject may see, or could see before their removal."""

    def __init__(self, get_catalog: Callable[[], SubjectCatalog], *, files: bool) -> None:
        """`get_catalog` returns the current catalog of the subject. `files` says whether the subject may see events
        about files, for which it must be allowed to read the output of servers.
        """
        self._get_catalog = get_catalog
        self._old_catalog = get_catalog()
        self._files = files

    def reduce(self, events: Iterable[Event]) -> list[Event]:
        """Reduce the events that happened since the last call of this method. The events may be from several
        activations of snapshots, so that a server or tool is visible if the catalog of the last call or the current
        catalog shows it.
        """
        old_catalog, new_catalog = self._old_catalog, self._get_catalog()
        self._old_catalog = new_catalog
        if not self._files:
            events = [event for event in events if not event.file]
        if old_catalog.whole and new_catalog.whole:
            return [*events]
        return [
            reduced_event
            for event in events
            if (reduced_event := self._reduce_event(event, old_catalog, new_catalog)) is not None
        ]

    def _reduce_event(self, event: Event, old_catalog: SubjectCatalog, new_catalog: SubjectCatalog) -> Event | None:
        if event.file:
            return event
        if not event.server:
            servers = [view for view in map(new_catalog.server_view, new_catalog.snapshot.servers) if view is not None]
            tools = sum(len(view.everything) for view in servers)
            return msgspec.structs.replace(event, servers=len(servers), tools=tools)
        key = ServerKey(*event.server.split("/", 1))
        old_view, view = old_catalog.server_view(key), new_catalog.server_view(key)
        if old_view is None and view is None:
            may_see = event.type == FAILED and any(entry.key == key for entry in new_catalog.unready_servers())
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
    last_id: str | None,
    heartbeat: float = HEARTBEAT_SECONDS,
    *,
    filter_events: Callable[[list[Event]], list[Event]] = list,
    tail: int = 0,
) -> AsyncIterator[bytes]:
    """Yield the bytes of a stream. It continues after the event with the id `last_id`, or begins with the last `tail`
    events. Of several `catalog.swapped` in a row among past events, only the last one is sent. `filter_events` reduces
    events to those that the reader may see.
    """
    has_missed_events, newest_number = False, events.number
    try:
        number = events.before_last(tail) if last_id is None else events.number_of(last_id)
    except MissedEvents:
        number, has_missed_events = events.number, True
    yield _open_event(events, number, missed=has_missed_events)
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
        is_past = number < newest_number
        number += len(new_events)
        visible_events = filter_events(new_events)
        yield b"".join(
            map(
                _encode_event,
                _without_repeated_swaps(visible_events) if is_past and last_id is None else visible_events,
            )
        )


def _without_repeated_swaps(events: Sequence[Event]) -> Iterator[Event]:
    for event, next_event in itertools.zip_longest(events, events[1:]):
        if event.type != SWAPPED or next_event is None or next_event.type != SWAPPED:
            yield event


def _open_event(events: EventLog, number: int, *, missed: bool) -> bytes:
    return opened_piece(events.ident(number), missed=missed)


def _encode_event(event: Event) -> bytes:
    return event_piece(event.id, event.type, _encode(event))
