"""Event streams that end before their answer: the gateway resumes them at servers, and legacy clients can resume them
at the gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import LEGACY, Answer, Ask, Wire, ask, calling, catalog, legacy, running
from ports import free_port
from rawserver import Reply, Request, raw_server

STREAM_FIRST = "text/event-stream, application/json"
TOKEN = {"_meta": {"progressToken": "mine"}}


def result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


class Polled:
    """A legacy server that ends the stream of a call at once, and sends the answer to a GET with the last event's
    id."""

    def __init__(self, *, broken: bool = False, gets: int = 1) -> None:
        self.broken = broken
        self.gets = gets
        self.headers: list[dict[str, str]] = []
        self.release = asyncio.Event()
        self.release.set()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            return await self.rest(request, reply)
        if request.method == "initialize":
            result = {
                "protocolVersion": LEGACY,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
            return reply.result(request, result, mcp_session_id="s1")
        if request.method != "tools/call":
            return reply.send(202) if "id" not in request.message else reply.error(request, 400, -32601, "no")
        self.call = request
        reply.open_stream()
        reply.chunk(b"id: e0\nretry: 30\ndata: \n\n")
        await reply.flush()
        if self.broken:
            return reply.close()
        return reply.end_stream()

    async def rest(self, request: Request, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            return reply.send(405)
        self.headers.append(request.headers)
        reply.open_stream()
        if len(self.headers) < self.gets:
            reply.chunk(b"id: e%d\ndata:\n\n" % len(self.headers))
            return reply.end_stream()
        await self.release.wait()
        progress = {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": self.token, "progress": 1},
        }
        if self.token is not None:
            reply.event(progress)
        reply.event({"jsonrpc": "2.0", "id": self.call.message["id"], "result": result("late")})
        return reply.end_stream()

    @property
    def token(self) -> Any:
        return self.call.params.get("_meta", {}).get("progressToken")


@pytest.mark.parametrize("broken", [False, True], ids=["ended", "broken off"])
@pytest.mark.parametrize("gets", [1, 3])
async def test_a_session_asks_a_legacy_server_for_the_rest_of_a_stream(broken: bool, gets: int) -> None:
    polled = Polled(broken=broken, gets=gets)
    async with raw_server(polled.handle) as server, McpSession.over_http(Target.from_url(server.url)) as session:
        answer = json.loads(bytes(await session.call_tool("x", timeout=10)))
    assert answer == result("late")
    assert [headers["last-event-id"] for headers in polled.headers] == ["e0", "e1", "e2"][:gets]
    assert {headers["mcp-session-id"] for headers in polled.headers} == {"s1"}
    assert server.methods().count("tools/call") == 1, "nothing is executed twice"


@pytest.mark.parametrize("broken", [False, True], ids=["ended", "broken off"])
@pytest.mark.parametrize("params", [{}, TOKEN], ids=["plain", "with progress"])
async def test_a_call_waits_for_the_rest_of_its_servers_stream(tmp_path: Path, broken: bool, params: Any) -> None:
    polled = Polled(broken=broken, gets=2)
    async with (
        raw_server(polled.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answer = await ask(gateway, legacy("tools/call", {"name": "demo__x", "arguments": {}, **params}))
    final = answer.events[-1] if params else answer.message
    assert final["result"] == result("late")
    if params:
        assert answer.events[0]["params"] == {"progressToken": "mine", "progress": 1}


async def test_a_call_is_not_sent_again_when_no_connection_comes_about_for_its_rest(tmp_path: Path) -> None:
    """The server may have executed the call: only the request for the rest of the answer was not sent."""
    polled = Polled(broken=True)
    ports: list[int] = []

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", ports.pop(0) if len(ports) > 1 else ports[0])]

    async with raw_server(polled.handle) as server:
        ports += [server.port, free_port(), server.port]
        document = catalog("demo", "http://demo.tools.svc/mcp", ["x"], version=LEGACY)
        async with running(tmp_path, document, resolve=resolve) as gateway:
            answer = await ask(gateway, legacy("tools/call", {"name": "demo__x", "arguments": {}}))
    assert answer.message["result"]["_meta"]["fairlead.dev/error"]["code"] == "CONNECTION_LOST"
    assert server.methods().count("tools/call") == 1


async def test_a_server_that_does_not_continue_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    polled = Polled()

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            return reply.send(405)
        return await polled.handle(request, reply)

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answer = await ask(gateway, calling("demo__x", era=LEGACY))
    assert answer.refusal == "UPSTREAM_ERROR"


# Streams to clients


async def session_of(gateway: Any, version: str = LEGACY) -> str:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    return (await ask(gateway, legacy("initialize", hello))).headers["mcp-session-id"]


def fields(block: bytes) -> dict[str, str]:
    """The fields of one event."""
    split = (line.partition(":") for line in block.decode().split("\n"))
    return {name: value.removeprefix(" ") for name, _, value in split}


def blocks(answer: Answer) -> list[dict[str, str]]:
    return [fields(block) for block in answer.body.split(b"\n\n") if block]


def resume(session: str, event: str) -> Ask:
    headers = {"accept": "text/event-stream", "mcp-session-id": session, "last-event-id": event}
    return Ask(headers=headers, body=b"", verb="GET")


def stream_call(session: str) -> Ask:
    return calling("demo__x", era=LEGACY, session=session).with_headers(accept=STREAM_FIRST)


async def test_a_client_that_names_streams_first_gets_one_that_it_can_come_back_to(tmp_path: Path) -> None:
    polled = Polled()
    async with (
        raw_server(polled.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway)
        first = blocks(await ask(gateway, stream_call(session)))
        assert [(event["data"], event["retry"]) for event in first] == [("", "500")], "the server paused: so do we"
        rest = blocks(await ask(gateway, resume(session, first[0]["id"])))
        assert [json.loads(event["data"])["result"] for event in rest] == [result("late")]
        again = blocks(await ask(gateway, resume(session, first[0]["id"])))
        assert again == rest, "it may have been lost on the way"
        assert blocks(await ask(gateway, resume(session, rest[0]["id"]))) == []


async def test_a_list_is_an_event_for_a_client_that_names_streams_first(tmp_path: Path) -> None:
    async with (
        raw_server(Polled().handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        listed = await ask(gateway, legacy("tools/list").with_headers(accept=STREAM_FIRST))
        assert [tool["name"] for tool in listed.events[0]["result"]["tools"]] == ["demo__x"]
        assert (await ask(gateway, legacy("tools/list"))).headers["content-type"] == "application/json"


async def test_a_lost_connection_costs_a_client_with_a_stream_nothing(tmp_path: Path) -> None:
    polled = Polled()
    polled.release.clear()

    async def slow(request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            return await polled.handle(request, reply)
        await polled.release.wait()
        return reply.result(request, result("late"))

    async with (
        raw_server(slow) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway)
        async with await Wire.connect(gateway) as wire:
            wire.send(stream_call(session))
            head = await wire.reader.readuntil(b"data: \n\n")
        event = head.partition(b"id: ")[2].partition(b"\n")[0].decode()
        async with await Wire.connect(gateway) as other:
            other.send(resume(session, event))
            await other.reader.readuntil(b"\r\n\r\n")
            polled.release.set()
            late = await other.reader.readuntil(b"late")
    assert b'"id":1' in late


@pytest.mark.parametrize("whose", ["another session", "no session", "no such stream"])
async def test_a_stream_is_the_sessions_own(tmp_path: Path, whose: str) -> None:
    polled = Polled()
    async with (
        raw_server(polled.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway)
        event = blocks(await ask(gateway, stream_call(session)))[0]["id"]
        other = await session_of(gateway)
        request = {
            "another session": resume(other, event),
            "no session": resume(session, event).with_headers(mcp_session_id=None),
            "no such stream": resume(session, "A" * 24 + ".1"),
        }[whose]
        assert (await ask(gateway, request)).status == (405 if whose == "no session" else 400)


async def test_an_older_client_gets_no_event_without_data(tmp_path: Path) -> None:
    async with (
        raw_server(Polled().handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, "2025-06-18")
        answer = await ask(gateway, stream_call(session))
    assert [json.loads(event["data"])["result"] for event in blocks(answer)] == [result("late")]
    assert "id" not in blocks(answer)[0]
