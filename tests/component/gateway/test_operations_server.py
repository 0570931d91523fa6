"""Requests at the operations port, byte by byte: one bounded request per connection, in any form."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import pytest
import uvloop

from fairlead_gateway.core.operations_page import PageRequest, PageResponse
from fairlead_gateway.endpoint.connection import LINGER_SECONDS, ClientConnection
from fairlead_gateway.endpoint.listener import Listener
from fairlead_gateway.endpoint.page_server import LIFE_SECONDS, MAX_REQUEST_BYTES, PageServer, operations_service
from fairlead_mcp.addresses import AllowList
from virtualtime import in_virtual_time
from waiting import eventually

HOST = b"Host: localhost\r\n\r\n"
PLAIN = b"GET /page HTTP/1.1\r\n" + HOST
ENDLESS = b"GET /endless HTTP/1.1\r\n" + HOST


@dataclass
class Pages:
    """A page that records requests, a page that never answers, and a page that fails."""

    requests: list[PageRequest] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def page(self, request: PageRequest) -> PageResponse:
        self.requests.append(request)
        return PageResponse(b"well\n")

    async def endless(self, request: PageRequest) -> PageResponse:
        self.requests.append(request)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(request.path)
        raise AssertionError("an event that nobody sets")

    async def broken(self, request: PageRequest) -> PageResponse:
        raise OSError("no such thing")

    def server(self) -> PageServer:
        pages = {"/page": self.page, "/endless": self.endless, "/broken": self.broken}
        return PageServer(pages, AllowList.for_operations("127.0.0.1"))

    def listener(self) -> Listener:
        return Listener(operations_service(), self.server(), "127.0.0.1", 0)


@asynccontextmanager
async def serve_pages(pages: Pages) -> AsyncIterator[int]:
    """Serve the pages. Yields the port."""
    listener = pages.listener()
    await listener.bind()
    await listener.serve()
    try:
        yield listener.port
    finally:
        await listener.stop(0)


async def exchange(pages: Pages, data: bytes) -> bytes:
    """Send bytes. Returns all bytes of the answer."""
    async with serve_pages(pages) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        return answer


class Socket(asyncio.Transport):
    """Transport that records written bytes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def abort(self) -> None:
        self.closed.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing, because the buffer is unlimited."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing, because only tests send data."""

    def resume_reading(self) -> None:
        """Do nothing, as in `pause_reading`."""

    def can_write_eof(self) -> bool:
        return False


def connect(pages: Pages) -> tuple[ClientConnection, Socket]:
    connection = ClientConnection(operations_service(), pages.server(), set(), asyncio.get_running_loop())
    transport = Socket()
    connection.connection_made(transport)
    return connection, transport


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        b"GET /page HTTP/1.0\r\n" + HOST,
        b"GET http://localhost:9464/page HTTP/1.1\r\nHost: other.example\r\n\r\n",
        b"GET /%70age?x=%7B&y&x=2 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + HOST,
        b"GET /page HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: localhost\r\n\r\n2\r\n{}\r\n0\r\nx: y\r\n\r\n",
    ],
)
async def test_a_request_is_answered_alike_whole_and_byte_by_byte(data: bytes) -> None:
    answers = []
    for size in (1, 7, len(data)):
        pages = Pages()
        connection, transport = connect(pages)
        for start in range(0, len(data), size):
            connection.data_received(data[start : start + size])
        await transport.closed.wait()
        connection.connection_lost(None)
        answers.append((transport.written, pages.requests))
    assert answers[0][0] == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 5\r\nconnection: close\r\n\r\n"
        b"well\n"
    )
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0][1]) == 1


async def test_a_page_is_told_what_was_asked() -> None:
    pages = Pages()
    await exchange(pages, b"GET /page?a=1&b=%C3%A4&a=2&c HTTP/1.1\r\nX: 1\r\nx: \xe4\r\n" + HOST)
    (request,) = pages.requests
    assert (request.path, request.query, request.address) == ("/page", {"a": "2", "b": "\xe4", "c": ""}, "127.0.0.1")
    assert request.headers == {b"x": b"1, \xe4", b"host": b"localhost"}


@pytest.mark.parametrize("more", [PLAIN, b"\x00 that is not a request"])
async def test_the_operations_server_answers_one_request_whatever_follows(more: bytes) -> None:
    pages = Pages()
    answer = await exchange(pages, PLAIN + more)
    assert answer.endswith(b"\r\n\r\nwell\n")
    assert answer.count(b"HTTP/1.1") == len(pages.requests) == 1


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HELLO\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nHost: localhost\r\n" + HOST, 400),
        (b"GET /page HTTP/2.0\r\n" + HOST, 505),
        (b"GET http://evil.example/page HTTP/1.1\r\n" + HOST, 421),
        (b"GET http://localhost:99999/page HTTP/1.1\r\n" + HOST, 400),
        (b"GET /page HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" + HOST, 501),
        (b"GET /nothing HTTP/1.1\r\n" + HOST, 404),
        (b"GET /mcp HTTP/1.1\r\n" + HOST, 404),
        (b"PUT /page HTTP/1.1\r\nContent-Length: 2\r\nHost: localhost\r\n\r\n{}", 405),
        (b"GET /endless HTTP/1.1\r\nContent-Length: 99999\r\n" + HOST + b"x" * (MAX_REQUEST_BYTES + 1), 413),
    ],
)
async def test_requests_that_the_operations_server_cannot_take_are_refused(data: bytes, status: int) -> None:
    answer = await exchange(Pages(), data)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nallow: GET, HEAD\r\n" in answer) is (status == 405)
    assert b"callback" not in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HEAD /page HTTP/1.1\r\n" + HOST, 200),
        (b"HEAD /nothing HTTP/1.1\r\n" + HOST, 404),
        (b"HEAD /page HTTP/1.1\r\n\r\n", 400),
        (b"HEAD /broken HTTP/1.1\r\n" + HOST, 500),
    ],
)
async def test_head_requests_get_no_body(data: bytes, status: int) -> None:
    head, end, body = (await exchange(Pages(), data)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\ncontent-length: 0" not in head
    assert (end, body) == (b"\r\n\r\n", b"")


async def test_a_page_that_fails_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    answer = await exchange(Pages(), b"GET /broken HTTP/1.1\r\n" + HOST)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "The page /broken of the operations port failed" in caplog.text


@in_virtual_time
@pytest.mark.parametrize("data", [b"", PLAIN[:9], ENDLESS])
async def test_a_connection_lasts_no_longer_than_the_longest_answer(data: bytes) -> None:
    loop = asyncio.get_running_loop()
    connection, transport = connect(Pages())
    connection.data_received(data)
    while not transport.is_closing():
        await asyncio.sleep(1)
        connection.check(loop.time())
    assert loop.time() <= LIFE_SECONDS + LINGER_SECONDS + 1
    connection.connection_lost(None)


async def test_a_page_ends_with_the_connection_of_its_client() -> None:
    pages = Pages()
    async with serve_pages(pages) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ENDLESS)
        await eventually(lambda: bool(pages.requests))
        writer.close()
        await eventually(lambda: pages.ended == ["/endless"])


async def stop_after(turns: int) -> bytes:
    """Connect, and stop the server `turns` iterations of the loop later. Returns the bytes that the client gets."""
    server = Pages().listener()
    await server.bind()
    await server.serve()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop(0)
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionResetError):
                return await asyncio.get_running_loop().sock_recv(client, 1)
        return b""


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_comes_while_the_server_stops_is_not_left_open(turns: int) -> None:
    """Uses the event loop of production. asyncio's own loop loses connections that it accepts just before the server
    closes."""
    assert uvloop.run(stop_after(turns)) == b""


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def leave_connection(pages: Pages, data: bytes) -> weakref.ref[Socket]:
    """Send `data` on a connection, and close it as soon as the server answers or a page begins to handle the request.
    Returns a weak reference to the connection's transport."""
    connection, transport = connect(pages)
    connection.data_received(data)
    await eventually(lambda: bool(transport.written) or bool(pages.requests))
    connection.connection_lost(None)
    return weakref.ref(transport)  # compiled connections do not support weak references


@pytest.mark.parametrize("data", [PLAIN, b"HELLO\r\n\r\n", b"GET /page HTTP/1.1\r\n\r\n", ENDLESS])
async def test_connections_that_are_over_are_freed_without_the_garbage_collector(data: bytes) -> None:
    with no_collector():
        transport = await leave_connection(Pages(), data)
        await eventually(lambda: transport() is None)
