"""Progress notifications: forwarded at once, only to the client of the call, with that client's token."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from askers import session_of
from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_app.gateway import Gateway
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, MODERN, Ask, Wire, ask, calling, catalog, legacy, modern, running
from rawserver import Reply, Request, raw_server
from waiting import eventually

ERAS = (MODERN, LEGACY)
HELLO = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
MORE: dict[str, Any] = {"total": 3, "message": "on it", "x-unknown": {"b": [1, None], "a": 2}, "_meta": {"k": "v"}}


class Reporter:
    """A server that reports progress of each call at once, and answers when the test lets it."""

    def __init__(self, reports: int = 1) -> None:
        self.reports = reports
        self.tokens: list[Any] = []
        self.may_end = asyncio.Event()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            return reply.result(request, HELLO, mcp_session_id="s")
        if request.verb == "GET":
            return reply.send(405)
        if request.method != "tools/call":
            return reply.send(202)
        token = request.params["_meta"]["progressToken"]
        self.tokens.append(token)
        reply.open_stream()
        for step in range(self.reports):
            self.report(reply, token, request.params["arguments"]["of"] + step)
        await reply.flush()
        await self.may_end.wait()
        for other in self.tokens:
            self.report(reply, other, 100)
        text = {"type": "text", "text": json.dumps(request.params["arguments"])}
        result = {"content": [text], "resultType": "complete"}
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        return reply.end_stream()

    def report(self, reply: Reply, token: Any, progress: int) -> None:
        params = {"progressToken": token, "progress": progress, **MORE}
        reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def make_call(client: str, of: int, token: Any) -> Ask:
    params: dict[str, Any] = {"name": "demo__x", "arguments": {"of": of}}
    if client == MODERN:
        return modern("tools/call", params, progressToken=token)
    return legacy("tools/call", {**params, "_meta": {"progressToken": token}})


async def event(wire: Wire) -> Any:
    """The next message of a stream."""
    block = b""
    while b"data: {" not in block:
        block = await asyncio.wait_for(wire.reader.readuntil(b"\n\n"), 30)
    return json.loads(block.partition(b"data: ")[2])


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("token", ["tok", 7, 0, "7"])
async def test_calls_with_one_token_hear_at_once_of_their_own_progress_and_of_no_other(
    tmp_path: Path, client: str, server_era: str, token: Any
) -> None:
    reporter = Reporter()
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
        await Wire.connect(gateway) as first,
        await Wire.connect(gateway) as second,
    ):
        for of, wire in enumerate((first, second)):
            wire.send(make_call(client, of, token))
        for of, wire in enumerate((first, second)):
            heard = await event(wire)
            assert heard["params"] == {"progressToken": token, "progress": of, **MORE}
            assert type(heard["params"]["progressToken"]) is type(token)
        assert len({*reporter.tokens}) == 2, "one sender may not use a token twice at a time"
        reporter.may_end.set()
        for of, wire in enumerate((first, second)):
            own = await event(wire)
            last = await event(wire)
            assert (own["params"]["progress"], own["params"]["progressToken"]) == (100, token)
            assert json.loads(last["result"]["content"][0]["text"]) == {"of": of}
            assert last["id"] == 1


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_progress_after_an_attempt_that_failed_is_heard(tmp_path: Path, client: str, server_era: str) -> None:
    reporter = Reporter()
    reporter.may_end.set()
    failed: list[Any] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "tools/call" and not failed:
            failed.append(request.message["id"])
            reply.close()
        else:
            await reporter.handle(request, reply)

    tool = {"name": "x", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, [tool], version=server_era, trust_annotations=True)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(make_call(client, 7, "mine"))
        first = await event(wire)
        assert (first["params"]["progressToken"], first["params"]["progress"]) == ("mine", 7)
    assert failed


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_an_answer_that_no_progress_came_before_is_json_although_it_was_asked_for(
    tmp_path: Path, client: str, server_era: str
) -> None:
    """Clients refuse events of more than 1 MiB, but accept JSON bodies of that size."""
    large = "x" * 2_000_000

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            return reply.result(request, HELLO, mcp_session_id="s")
        if request.method != "tools/call":
            return reply.send(202)
        result = {"content": [{"type": "text", "text": large}], "resultType": "complete"}
        return reply.result(request, result)

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
    ):
        answer = await ask(gateway, make_call(client, 1, "tok"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.message["result"]["content"][0]["text"] == large


async def unread(gateway: Gateway, wire: Wire, request: Ask) -> int:
    """Maximum number of bytes that wait in the gateway while the client does not read. Afterwards, the client reads
    again."""
    wire.transport.pause_reading()
    wire.send(request)
    await eventually(lambda: any(c.congested for c in gateway._listener.connections))
    (connection,) = [c for c in gateway._listener.connections if c.congested]
    most = 0
    for _ in range(40):
        await asyncio.sleep(0.01)
        most = max(most, connection.transport.get_write_buffer_size())
    wire.transport.resume_reading()
    return most


MANY = 60_000
"""Number of reports of 200 bytes that exceeds all buffers on the way."""


@pytest.mark.parametrize("client", ["modern", "legacy", "legacy in a session"])
@pytest.mark.parametrize("server_era", ERAS)
async def test_a_client_that_reads_late_holds_its_server_up_and_misses_nothing(
    tmp_path: Path, client: str, server_era: str
) -> None:
    reporter = Reporter(reports=MANY)
    reporter.may_end.set()
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        request = make_call(MODERN if client == "modern" else LEGACY, 0, "tok")
        if client == "legacy in a session":
            request = request.with_headers(mcp_session_id=await session_of(gateway, {}))
        assert await unread(gateway, wire, request) < 1 << 20
        heard = 0
        while "result" not in await event(wire):
            heard += 1
    assert heard == MANY + 1


async def test_a_client_that_goes_while_it_holds_its_server_up_cancels_its_call(tmp_path: Path) -> None:
    reporter = Reporter(reports=MANY)
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.transport.pause_reading()
        wire.send(make_call(MODERN, 0, "tok"))
        await eventually(lambda: any(c.congested for c in gateway._listener.connections))
        wire.transport.abort()
        await eventually(lambda: not gateway.endpoint.calls)
        await eventually(lambda: not server.open)


async def test_a_client_that_reads_late_holds_up_no_server_that_others_use(tmp_path: Path) -> None:
    """Unread messages of the client beyond a limit are dropped, and the answer arrives."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(**message: Any) -> None:
            writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        await reader.readline()
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("method") == "initialize":
                say(id=message["id"], result=HELLO)
            elif message.get("method") == "tools/call":
                token = message["params"].get("_meta", {}).get("progressToken")
                for step in range(MANY if token is not None else 0):
                    say(method="notifications/progress", params={"progressToken": token, "progress": step, **MORE})
                say(id=message["id"], result={"content": []})
        writer.close()

    write_token(tmp_path)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        reached = TcpEndpoint(host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
        document = catalog("demo", reached, ["x"], version=LEGACY, credential=CREDENTIAL)
        async with running(tmp_path, document) as gateway, await Wire.connect(gateway) as wire:
            assert await unread(gateway, wire, make_call(MODERN, 0, "tok")) < 3 << 20
            assert (await ask(gateway, calling("demo__x"))).message["result"]["content"] == []
            while "result" not in (last := await event(wire)):
                pass
    assert last["result"]["content"] == []


@pytest.mark.parametrize("client", ERAS)
async def test_requests_behind_a_stream_are_answered_behind_it(tmp_path: Path, client: str) -> None:
    reporter = Reporter()
    health = Ask(verb="GET", body=b"", target="/healthz")
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(make_call(client, 0, "tok"))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert b"text/event-stream" in head
        await event(wire)
        wire.send(legacy("ping", number="p"), health, modern("tools/list", number="l"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.reader.readuntil(b"HTTP/1.1"), 0.2)
        reporter.may_end.set()
        rest = await wire.reader.readuntil(b"0\r\n\r\n")
        assert b"HTTP/1.1" not in rest
        assert b'"result"' in rest
        answers = [await wire.answer() for _ in range(3)]
    assert [answer.message.get("id", answer.message.get("status")) for answer in answers] == ["p", "ok", "l"]
