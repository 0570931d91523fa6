"""A stream of server-sent events, without a socket."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.events import EventLog
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.limits.shares import Shares
from fairlead_rest.event_stream import STALL_SECONDS, EventStreamResponse
from fairlead_rest.resources.events import pieces
from virtualtime import in_virtual_time


@in_virtual_time
async def test_a_reader_of_events_that_takes_nothing_is_cut_off() -> None:
    readers = Shares("event_streams", 2)
    sent = list[str]()

    async def send(message: Message) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Message:
        return await asyncio.Future()

    response = EventStreamResponse(pieces(EventLog(), None), readers, ANONYMOUS, Identities([]))
    running = asyncio.ensure_future(response({}, receive, send))
    await asyncio.sleep(STALL_SECONDS - 1)
    assert readers.total == 1
    await running
    assert (readers.total, sent) == (0, ["http.response.start", "http.response.body"])
    assert asyncio.get_running_loop().time() == STALL_SECONDS
