"""Stream of server-sent events.

A stream ends when the client disconnects or does not read for too long, when the client's credential is revoked, or
when the gateway stops. Each open stream takes a connection and a task, so their number is limited. Events are read from
a ring buffer, so that a slow reader does not delay others.
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
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.limits.shares import Shares
from fairlead_offers.problems import RATE_LIMITED, Problem

HEARTBEAT_SECONDS: Final = 15.0
"""Seconds between the comments that are sent while there are no events."""
STALL_SECONDS: Final = 30.0
"""Maximum seconds for which a client may not read from its stream, before the stream ends."""
MEDIA_TYPE: Final = "text/event-stream"
OPENED: Final = "stream.opened"
_encode = msgspec.json.Encoder().encode


class Opened(msgspec.Struct, frozen=True):
    """First event of a stream. It is sent again whenever events were missed."""

    id: str
    """Id of the position at which the stream begins. Later events have later ids."""
    type: str
    """`stream.opened`."""
    missed: bool
    """Whether events before this event may be missing, so that the client must read the state again."""


class EventStreamResponse(Response):
    """Response that sends `pieces`, the encoded events. While it runs, `readers` counts it as an open stream of its
    agent. It ends when the credential of `identity` becomes invalid.
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
        write_task = asyncio.create_task(self._write(send), name="event stream")
        disconnect_task = asyncio.create_task(_wait_for_disconnect(receive), name="reader of an event stream")

        def cancel() -> None:
            write_task.cancel()

        release = self._identities.watch(self._identity, cancel)
        try:
            await asyncio.wait({write_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            release()
            self._readers.give_back(agent)
            write_task.cancel()
            disconnect_task.cancel()
            await asyncio.gather(write_task, disconnect_task, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for piece in self._pieces:
                async with asyncio.timeout(STALL_SECONDS):
                    await send(_body(piece, more=True))
            await send(_body(b"", more=False))
        except TimeoutError:
            return


def check_room(readers: Shares, scope: Scope, counts: ShareCounts) -> None:
    """Raise Problem if the agent of a request, or the gateway, has the maximum number of open streams."""
    reached_bound = readers.bound(agent_in(scope))
    if reached_bound is not None:
        counts.count("event_streams", reached_bound.bound)
        agent_limit = "of your streams are open, which is the limit for one agent"
        gateway_limit = "streams are open, which is the limit of this gateway"
        text = agent_limit if reached_bound.bound == "agent" else gateway_limit
        raise Problem(RATE_LIMITED, f"{reached_bound.limit} {text}", retry_after_ms=5000)


def event_piece(ident: str, kind: str, data: bytes) -> bytes:
    """Encode an event. `data` must not contain a line feed."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (ident.encode(), kind.encode(), data)


def opened_piece(ident: str, *, missed: bool) -> bytes:
    """Encode the event `stream.opened`, with which a stream begins and which replaces missed events."""
    return b"retry: 2000\n" + event_piece(ident, OPENED, _encode(Opened(ident, OPENED, missed)))


def _body(piece: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
