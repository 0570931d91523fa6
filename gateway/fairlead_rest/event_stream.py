"""A stream of server-sent events: until the client is gone, takes nothing for too long or is not known any more, or the
gateway stops.

One stream costs its connection and a task. What it sends is read from a ring, so a slow reader holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import agent_in
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.limits.shares import Shares
from fairlead_offers.problems import RATE_LIMITED, Problem

HEARTBEAT: Final = 15.0
"""Seconds between comments on a stream where nothing happens."""
STALLED: Final = 30.0
"""Seconds that a reader may take nothing."""
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
    """Events may be missing before this one: read again what they are about."""


class EventStreamResponse(Response):
    """The answer that sends `pieces`. It counts in `readers` while it runs, and ends with the credential of
    `identity`.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self, pieces: AsyncIterator[bytes], readers: Shares, identity: Identity, identities: Identities
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces
        self._readers = readers
        self._identity = identity
        self._identities = identities

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent = agent_in(scope)
        self._readers.add(agent)
        writing = asyncio.create_task(self._write(send), name="event stream")
        leaving = asyncio.create_task(_until_gone(receive), name="reader of an event stream")

        def ended() -> None:
            writing.cancel()

        release = self._identities.hold(self._identity, ended)
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            release()
            self._readers.give_back(agent)
            writing.cancel()
            leaving.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(STALLED):
                    await send(_body(piece, more=True))
            await send(_body(b"", more=False))
        except TimeoutError:
            return


def check_room(readers: Shares, scope: Scope, counts: ShareCounts) -> None:
    """Raises Problem where the agent of a request, or the gateway, has as many streams open as it may."""
    reached = readers.bound(agent_in(scope))
    if reached is not None:
        counts.count("event_streams", reached.bound)
        whose = "of your streams are open, the most of one agent" if reached.bound == "agent" else "streams are open"
        raise Problem(RATE_LIMITED, f"{reached.most} {whose} already", retry_after_ms=5000)


def event_piece(ident: str, kind: str, data: bytes) -> bytes:
    """One event as it is sent; `data` has no line feed."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (ident.encode(), kind.encode(), data)


def opened_piece(ident: str, *, missed: bool) -> bytes:
    """The event with which a stream begins, and that stands in for events that were missed."""
    return b"retry: 2000\n" + event_piece(ident, OPENED, _encode(Opened(ident, OPENED, missed)))


def _body(piece: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
