"""`GET /v1/events`: what becomes of servers and their tools, as a stream of server-sent events.

One stream costs its connection and a task; what it sends is read from the ring of `events`, so a slow reader holds
nothing up. One that takes nothing for `STALLED` seconds is cut off, and resumes by `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Header, Request, Response
from starlette.types import Message, Receive, Scope, Send

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.events import Event, EventLog, Missed
from fairlead_gateway.identity.identities import Identities
from fairlead_rest.context import RestContext
from fairlead_rest.examples import servers as examples
from fairlead_rest.openapi import described
from fairlead_rest.problems import RATE_LIMITED, Problem
from fairlead_rest.subject_catalog import SubjectCatalog

HEARTBEAT: Final = 15.0
"""Seconds between comments on a stream where nothing happens."""
STALLED: Final = 30.0
MOST_READERS: Final = 256
MEDIA_TYPE: Final = "text/event-stream"
OPENED: Final = "stream.opened"
_encode = msgspec.json.Encoder().encode


class Opened(msgspec.Struct, frozen=True):
    """The first event of a stream, and one in the middle of it where events were missed."""

    id: str
    """Where the stream begins: what comes next has a later one."""
    type: str
    """`stream.opened`."""
    missed: bool
    """Events may be missing before this one: read `/v1/servers` anew."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/events`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])
    readers: set[object] = set()

    @routes.get(
        "/events", **described("Follow servers and tools", Event | Opened, examples.EVENTS, media_type=MEDIA_TYPE)
    )
    async def follow(
        request: Request,
        last_event_id: Annotated[
            str | None, Header(description="The last `id` that was read: the stream goes on behind it.")
        ] = None,
    ) -> Response:
        if len(readers) >= MOST_READERS:
            raise Problem(RATE_LIMITED, f"{MOST_READERS} streams are open already", retry_after_ms=5000)
        identity = context.seen(request).identity
        reader = EventFilter(identity, lambda: context.seen_by(identity))
        return EventStreamResponse(context.news, last_event_id, readers, reader, context.guard.identities)

    return routes


class EventFilter:
    """Reduces each event to what its subject may see: of servers and tools that it sees, or saw when they went."""

    def __init__(self, identity: Identity, look: Callable[[], SubjectCatalog]) -> None:
        self.identity = identity
        self._look = look
        self._before = look()

    def told(self, events: Iterable[Event]) -> list[Event]:
        """Events of one activation of a catalog, or of several since the last read."""
        before, now = self._before, self._look()
        self._before = now
        if before.whole and now.whole:
            return [*events]
        return [shown for event in events if (shown := self._shown(event, before, now)) is not None]

    def _shown(self, event: Event, before: SubjectCatalog, now: SubjectCatalog) -> Event | None:
        if not event.server:
            servers = [view for view in map(now.of_server, now.snapshot.servers) if view is not None]
            tools = sum(len(view.everything) for view in servers)
            return msgspec.structs.replace(event, servers=len(servers), tools=tools)
        key = ServerKey(*event.server.split("/", 1))
        was, view = before.of_server(key), now.of_server(key)
        if was is None and view is None:
            return None
        known = {**(was.everything if was is not None else {}), **(view.everything if view is not None else {})}
        lists = (event.added, event.removed, event.changed)
        added, removed, changed = (tuple(name for name in names if name in known) for names in lists)
        if any(lists) and not (added or removed or changed):
            return None
        return msgspec.structs.replace(event, added=added, removed=removed, changed=changed, more=0)


class EventStreamResponse(Response):
    """A stream of events until the client is gone, takes nothing for too long or is not known any more, or the gateway
    stops.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self, news: EventLog, last: str | None, readers: set[object], reader: EventFilter, identities: Identities
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._news = news
        self._last = last
        self._readers = readers
        self._reader = reader
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._readers.add(self)
        writing = asyncio.create_task(self._write(send), name="event stream")
        leaving = asyncio.create_task(_until_gone(receive), name="reader of an event stream")

        def ended() -> None:
            writing.cancel()

        release = self._identities.hold(self._reader.identity, ended)
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            release()
            self._readers.discard(self)
            writing.cancel()
            leaving.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for piece in pieces(self._news, self._last, told=self._reader.told):
                async with asyncio.timeout(STALLED):
                    await send(_body(piece, more=True))
            await send(_body(b"", more=False))
        except TimeoutError:
            return


async def pieces(
    news: EventLog,
    last: str | None,
    heartbeat: float = HEARTBEAT,
    *,
    told: Callable[[list[Event]], list[Event]] = list,
) -> AsyncIterator[bytes]:
    """The bytes of a stream that goes on behind the event `last`, or begins now. `told` is what its reader may know of
    events.
    """
    missed = False
    try:
        number = news.number if last is None else news.number_of(last)
    except Missed:
        number, missed = news.number, True
    yield _opened(news, number, missed=missed)
    while not news.closed:
        try:
            events = await news.after(number, heartbeat)
        except Missed:
            number = news.number
            yield _opened(news, number, missed=True)
            continue
        if not events:
            yield b": heartbeat\n\n"
            continue
        number += len(events)
        yield b"".join(_event(event) for event in told(events))


def _opened(news: EventLog, number: int, *, missed: bool) -> bytes:
    ident = news.ident(number)
    return b"retry: 2000\n" + _event(Opened(ident, OPENED, missed))


def _event(event: Event | Opened) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.type.encode(), _encode(event))


def _body(piece: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
