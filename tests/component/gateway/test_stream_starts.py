"""Writes to a client that prefers event streams: content and number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from askers import session_of
from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.endpoint.exchange import MAX_COPIED_BYTES
from fairlead_gateway.endpoint.fallback import FallbackServer
from fairlead_gateway.endpoint.stream_starts import StreamStarts
from fairlead_gateway.heap import Heap
from gatewayworld import LEGACY, MODERN, Ask, ask, calling, catalog, legacy, modern, running, wait_for_requests
from rawserver import RawServer, Reply, Request, raw_server
from waiting import eventually

STREAM_FIRST = "text/event-stream, application/json"
NEVER = 3600.0
HELLO = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


class Server:
    """A legacy server that answers calls when the test lets it, after progress if that was requested."""

    def __init__(self, text: str = "done") -> None:
        self.text = text
        self.indent: int | None = None
        self.may_answer = asyncio.Event()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            return reply.result(request, HELLO, mcp_session_id="s")
        if request.method != "tools/call":
            return reply.send(405 if request.verb == "GET" else 202)
        answer = {
            "jsonrpc": "2.0",
            "id": request.message["id"],
            "result": {"content": [{"type": "text", "text": self.text}]},
        }
        token = request.params.get("_meta", {}).get("progressToken")
        if token is None:
            await self.may_answer.wait()
            return reply.send(200, json.dumps(answer, indent=self.indent).encode(), kind="application/json")
        reply.open_stream()
        reply.event(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        )
        await reply.flush()
        await self.may_answer.wait()
        reply.event(answer)
        return reply.end_stream()


class Socket(asyncio.Transport):
    """Transport that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.writes.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing, because the transport has no buffer."""

    def pause_reading(self) -> None:
        """Do nothing, because only tests send data."""

    def resume_reading(self) -> None:
        """Do nothing, as in `pause_reading`."""

    def get_write_buffer_size(self) -> int:
        return 0


class Client:
    """A connection to the gateway without a network in between."""

    def __init__(self, gateway: Gateway) -> None:
        self.socket = Socket()
        fallbacks = FallbackServer(_nowhere, Heap(owner=False))
        self.connection = ClientConnection(gateway.endpoint, fallbacks, set(), asyncio.get_running_loop())
        self.connection.connection_made(self.socket)

    def send(self, message: Ask) -> None:
        self.connection.data_received(message.with_headers(accept=STREAM_FIRST).data("localhost"))

    async def wait_for_writes(self, writes: int = 1) -> list[bytes]:
        """Wait for `count` writes. Returns all writes."""
        await eventually(lambda: len(self.socket.writes) >= writes)
        return self.socket.writes


async def _nowhere(scope: object, receive: object, send: object) -> None:
    """ASGI application, which these tests do not use."""


@asynccontextmanager
async def world(
    folder: Path, server: Server, begin_after: float = NEVER, **settings: Any
) -> AsyncIterator[tuple[Gateway, RawServer]]:
    """A gateway with the server. Event streams to clients begin after `begin_after` seconds."""
    async with (
        raw_server(server.handle) as raw,
        running(folder, catalog("demo", raw.url, ["x"], version=LEGACY), **settings) as gateway,
    ):
        gateway.endpoint.stream_starts = StreamStarts(begin_after)
        yield gateway, raw


def parts_of(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def message_in(body: bytes) -> Any:
    """The message in a body that is one event without an id."""
    assert body.startswith(b"event: message\ndata: ")
    assert body.endswith(b"\n\n")
    assert body.count(b"\n") == 3
    return json.loads(body.partition(b"data: ")[2])


@pytest.mark.parametrize("indent", [None, 2], ids=["on one line", "indented"])
@pytest.mark.parametrize(("size", "resumable"), [(4, True), (4, False), (MAX_COPIED_BYTES + 1, False)])
async def test_an_answer_that_comes_soon_is_one_write_and_leaves_nothing_to_resume(
    tmp_path: Path, indent: int | None, size: int, resumable: bool
) -> None:
    server = Server("x" * size)
    server.indent = indent
    server.may_answer.set()
    async with world(tmp_path, server) as (gateway, _):
        client = Client(gateway)
        for number in (7, 8):  # the second request has a cached head
            session = await session_of(gateway, {}) if resumable else None
            client.send(calling("demo__x", era=LEGACY, number=number, session=session))
            [answer] = await client.wait_for_writes()
            head, body = parts_of(answer)
            assert b"content-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n" in head
            assert b"x-accel-buffering: no\r\ncontent-length: %d" % len(body) in head
            message = message_in(body)
            assert (message["id"], message["result"]["content"][0]["text"]) == (number, "x" * size)
            client.socket.writes.clear()
        assert len(gateway.endpoint.event_store) == 0
        assert len(gateway.endpoint.stream_starts) == 0


async def test_a_large_answer_can_be_resumed_however_soon_it_comes(tmp_path: Path) -> None:
    server = Server("x" * MAX_COPIED_BYTES)
    server.may_answer.set()
    async with world(tmp_path, server) as (gateway, _):
        client = Client(gateway)
        session = await session_of(gateway, {})
        client.send(calling("demo__x", era=LEGACY, session=session))
        first, last = await client.wait_for_writes(2)
        assert b"retry: 500" in first
        assert last.endswith(b"0\r\n\r\n")
        name = first.partition(b"id: ")[2].partition(b"\n")[0]
        resumed = gateway.endpoint.event_store.find(session.encode(), name)
        assert resumed is not None
        assert resumed[0].size > MAX_COPIED_BYTES


async def test_a_call_that_lasts_has_a_stream_that_can_be_resumed(tmp_path: Path) -> None:
    server = Server()
    async with world(tmp_path, server, 0.0) as (gateway, _):
        client = Client(gateway)
        client.send(calling("demo__x", era=LEGACY, session=await session_of(gateway, {})))
        [first] = await client.wait_for_writes()
        head, body = parts_of(first)
        assert b"transfer-encoding: chunked" in head
        assert b".1\nretry: 500\ndata: \n\n" in body
        assert len(gateway.endpoint.event_store) == 1
        server.may_answer.set()
        [_, last] = await client.wait_for_writes(2)
        assert b".2\nevent: message\ndata: " in last
        assert last.endswith(b"0\r\n\r\n")


async def test_a_call_that_lasts_without_a_session_has_a_stream_too(tmp_path: Path) -> None:
    server = Server()
    async with world(tmp_path, server, 0.0) as (gateway, _):
        client = Client(gateway)
        client.send(calling("demo__x", era=LEGACY))
        [first] = await client.wait_for_writes()
        assert parts_of(first)[1] == b""
        server.may_answer.set()
        [_, last] = await client.wait_for_writes(2)
        assert b"\r\nevent: message\ndata: " in last
        assert last.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_notification_begins_the_stream_in_its_own_write(tmp_path: Path, era: str) -> None:
    server = Server()
    async with world(tmp_path, server) as (gateway, _):
        client = Client(gateway)
        token = {"name": "demo__x", "arguments": {}, "_meta": {"progressToken": "mine"}}
        if era == LEGACY:
            client.send(legacy("tools/call", token, session=await session_of(gateway, {})))
        else:
            client.send(modern("tools/call", {"name": "demo__x", "arguments": {}}, progressToken="mine"))
        [first] = await client.wait_for_writes()
        assert b"transfer-encoding: chunked" in parts_of(first)[0]
        assert b'"progressToken":"mine"' in first
        assert (b"retry: 500" in first) == (era == LEGACY)
        assert len(gateway.endpoint.stream_starts) == 0
        server.may_answer.set()
        [_, last] = await client.wait_for_writes(2)
        assert b'"result"' in last
        assert last.endswith(b"0\r\n\r\n")


async def test_a_client_that_goes_before_its_stream_began_leaves_nothing(tmp_path: Path) -> None:
    server = Server()
    async with world(tmp_path, server, cancel_abandoned=True) as (gateway, raw):
        client = Client(gateway)
        client.send(calling("demo__x", era=LEGACY, session=await session_of(gateway, {})))
        await wait_for_requests(raw, 3)
        assert len(gateway.endpoint.stream_starts) == 1
        client.connection.connection_lost(None)
        assert len(gateway.endpoint.stream_starts) == 0
        assert len(gateway.endpoint.event_store) == 0
        await eventually(lambda: not gateway.endpoint.calls)
        assert client.socket.writes == []


async def test_an_error_is_an_event_in_one_write(tmp_path: Path) -> None:
    async with world(tmp_path, Server()) as (gateway, raw):
        session = await session_of(gateway, {})
        raw.refuse()
        client = Client(gateway)
        client.send(calling("demo__x", era=LEGACY, session=session))
        [answer] = await client.wait_for_writes()
        assert message_in(parts_of(answer)[1])["result"]["isError"] is True


async def test_a_list_is_one_write(tmp_path: Path) -> None:
    async with world(tmp_path, Server()) as (gateway, _):
        client = Client(gateway)
        client.send(legacy("tools/list", session=await session_of(gateway, {})))
        [answer] = client.socket.writes
        assert [tool["name"] for tool in message_in(parts_of(answer)[1])["result"]["tools"]] == ["demo__x"]


async def test_an_answer_that_ends_its_connection_says_so(tmp_path: Path) -> None:
    server = Server()
    server.may_answer.set()
    async with world(tmp_path, server) as (gateway, _):
        client = Client(gateway)
        client.send(calling("demo__x", era=LEGACY).with_headers(connection="close"))
        [answer] = await client.wait_for_writes()
        head, body = parts_of(answer)
        assert b"\r\nconnection: close" in head
        assert message_in(body)["result"]["content"][0]["text"] == "done"
        assert client.socket.closing


async def test_requests_in_one_packet_are_answered_one_after_the_other(tmp_path: Path) -> None:
    server = Server()
    async with world(tmp_path, server) as (gateway, raw):
        client = Client(gateway)
        requests = [
            calling("demo__x", era=LEGACY, number=number).with_headers(accept=STREAM_FIRST) for number in (1, 2)
        ]
        client.connection.data_received(b"".join(request.data("localhost") for request in requests))
        await wait_for_requests(raw, 3)
        assert len(gateway.endpoint.stream_starts) == 1, "the second has not begun"
        server.may_answer.set()
        answers = await client.wait_for_writes(2)
        assert [message_in(parts_of(answer)[1])["id"] for answer in answers] == [1, 2]


async def test_a_client_of_http_1_0_gets_json(tmp_path: Path) -> None:
    server = Server()
    server.may_answer.set()
    async with world(tmp_path, server) as (gateway, _):
        request = calling("demo__x", era=LEGACY).with_headers(accept=STREAM_FIRST)
        answer = await ask(gateway, Ask(request.message, request.headers, version="1.0"))
    assert answer.headers["content-type"] == "application/json"
