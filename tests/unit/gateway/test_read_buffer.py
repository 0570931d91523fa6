"""Data that arrives at once is passed on in portions, so that the event loop can do other work in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from fairlead_gateway.endpoint.reader import PORTION, SLICE, ReadBuffer
from waiting import eventually

SENT = bytes(range(256)) * 4096


Take: TypeAlias = Callable[["Reader", bytes | memoryview], None]


class Reader(asyncio.Protocol):
    """A connection that passes on the data that it reads in portions."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.most = 0
        self.turn = 0
        self.turns: list[int] = []
        self.taken = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.buffer = ReadBuffer(transport, self.loop, self._feed)
        self._count()

    def _count(self) -> None:
        self.turn += 1
        if not self.lost:
            self.loop.call_soon(self._count)

    def data_received(self, data: bytes) -> None:
        self.most = max(self.most, len(data))
        self.buffer.add(data)

    def _feed(self, portion: bytes | memoryview) -> None:
        self.turns.append(self.turn)
        self.taken += portion
        self._take(self, portion)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.buffer.on_disconnect()


@asynccontextmanager
async def reader_with_data(take: Take = lambda reader, portion: None) -> AsyncIterator[Reader]:
    """A reader whose peer sent `SENT` before it began to read."""
    made: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()

    def connect() -> Reader:
        made.set_result(Reader(take))
        return made.result()

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    try:
        reader = await made
        reader.transport.pause_reading()
        writer.write(SENT)
        await asyncio.sleep(0)
        reader.transport.resume_reading()
        yield reader
    finally:
        reader.transport.abort()
        writer.close()
        server.close()
        await eventually(lambda: reader.lost)


async def test_data_comes_in_order_and_a_portion_in_each_turn() -> None:
    sizes: Counter[int] = Counter()

    def take(reader: Reader, piece: bytes | memoryview) -> None:
        assert len(piece) <= SLICE
        sizes[reader.turn] += len(piece)

    async with reader_with_data(take) as reader:
        await eventually(lambda: len(reader.taken) == len(SENT))
    assert reader.taken == SENT
    assert max(sizes.values()) <= PORTION < reader.most, "as much was read at once as is handed on"


async def test_the_rest_of_a_portion_waits_for_its_reader() -> None:
    async with reader_with_data(lambda reader, piece: reader.buffer.pause()) as reader:
        while len(reader.taken) < len(SENT):
            seen = len(reader.taken)
            await eventually(lambda seen=seen: len(reader.taken) > seen)  # type: ignore[misc]  # mypy: a default
            assert len(reader.taken) <= seen + SLICE
            reader.buffer.resume()
    assert reader.taken == SENT


async def test_data_is_not_handed_on_or_read_while_its_reader_is_paused() -> None:
    async with reader_with_data(lambda reader, portion: reader.buffer.pause()) as reader:
        for held in range(1, 5):
            await eventually(lambda held=held: len(reader.turns) == held)  # type: ignore[misc]  # mypy: a default
            turn = reader.turn
            await eventually(lambda turn=turn: reader.turn > turn + 20)  # type: ignore[misc]  # as above
            assert len(reader.turns) == held
            assert not reader.transport.is_reading()
            reader.buffer.resume()


async def test_data_of_a_closing_connection_is_not_handed_on() -> None:
    def take(reader: Reader, portion: bytes | memoryview) -> None:
        reader.transport.write(bytes(32 << 20))  # nobody reads this data, so closing takes a while
        reader.transport.close()

    async with reader_with_data(take) as reader:
        await eventually(lambda: reader.turn > 20 + max(reader.turns, default=1 << 60))
        assert reader.transport.is_closing()
        assert not reader.lost
        assert len(reader.turns) == 1
        assert not reader.buffer.waiting
