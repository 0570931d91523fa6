"""Time limits of a provider for the connection, for the first byte of its answer, and between two bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from fairlead_models.provider_requests import ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import Provider

pytestmark = pytest.mark.looptime(start=0)

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: x\n\n\r\n"
REQUEST = ProviderRequest("/chat/completions", b"{}")
LONG = 40 << 20


@asynccontextmanager
async def silent_provider(*answer: bytes, scheme: str = "http") -> AsyncIterator[Provider]:
    """A provider that sends parts of an answer at intervals of a second, and then nothing."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer:
            await reader.readuntil(b"\r\n\r\n")
        for part in answer:
            writer.write(part)
            await asyncio.sleep(1)
        await ended.wait()
        writer.close()

    ended = asyncio.Event()
    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield Provider(base_url=f"{scheme}://127.0.0.1:{port}/v1", connect_seconds=5, idle_seconds=2)
        ended.set()


async def test_the_first_byte_of_an_answer_is_awaited_only_for_idle_seconds() -> None:
    async with silent_provider() as provider, aclosing(ProviderClient()) as client:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ProviderUnavailable, match=r"did not answer in time: no byte for 2 s \(idleSeconds\)"):
            await client.send(provider, REQUEST)
        assert asyncio.get_running_loop().time() - begin == pytest.approx(2, abs=0.1)


async def test_the_answer_to_a_websocket_is_awaited_only_for_idle_seconds() -> None:
    async with silent_provider() as provider, aclosing(ProviderClient()) as client:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ProviderUnavailable, match="idleSeconds"):
            await client.connect(provider, "/realtime", {}, max_message=1000, ping=30)
        assert asyncio.get_running_loop().time() - begin == pytest.approx(2, abs=0.1)


async def test_a_connection_is_awaited_only_for_connect_seconds() -> None:
    async with silent_provider(scheme="https") as provider, aclosing(ProviderClient()) as client:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ProviderUnavailable, match=r"did not accept a connection in 5 s \(connectSeconds\)"):
            await client.send(provider, REQUEST)
        assert asyncio.get_running_loop().time() - begin == pytest.approx(5, abs=0.1)


async def test_a_stream_is_closed_idle_seconds_after_its_last_byte() -> None:
    async with silent_provider(HEAD + EVENT, EVENT, EVENT, EVENT) as provider, aclosing(ProviderClient()) as client:
        answer = await client.send(provider, REQUEST)
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ProviderUnavailable, match=r"stopped sending .*: no byte for 2 s \(idleSeconds\)"):
            await answer.read_whole()
        assert asyncio.get_running_loop().time() - begin == pytest.approx(4 + 1, abs=0.1), "2 s after the last of four"
        answer.close()


async def test_a_stream_without_a_first_event_is_closed_after_idle_seconds() -> None:
    async with silent_provider(HEAD) as provider, aclosing(ProviderClient()) as client:
        answer = await client.send(provider, REQUEST)
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ProviderUnavailable, match="stopped sending"):
            await answer.read_whole()
        assert asyncio.get_running_loop().time() - begin == pytest.approx(2, abs=0.1)
        answer.close()


async def test_the_seconds_without_a_byte_begin_again_while_the_request_is_sent() -> None:
    """A provider that reads a long request slowly does not count as silent."""
    reads = 0

    async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal reads
        await reader.readuntil(b"\r\n\r\n")
        left = LONG
        while left:
            left -= len(await reader.read(LONG))
            reads += 1
            await asyncio.sleep(0.5)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    async with (
        await asyncio.start_server(read_slowly, sock=listener, limit=2 << 20),
        aclosing(ProviderClient()) as client,
    ):
        port = listener.getsockname()[1]
        provider = Provider(base_url=f"http://127.0.0.1:{port}/v1", connect_seconds=5, idle_seconds=2)
        answer = await client.send(provider, ProviderRequest("/chat/completions", b" " * LONG))
        assert await answer.read_whole() == b"{}"
    assert reads > 5, "half a second each"
