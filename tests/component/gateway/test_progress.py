"""Progress on its way: at once, to the client whose call it is, under the token that this client gave."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gatewayworld import LEGACY, MODERN, Ask, Wire, ask, catalog, legacy, modern, running
from rawserver import Reply, Request, raw_server
from waiting import eventually

ERAS = (MODERN, LEGACY)
HELLO = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
MORE: dict[str, Any] = {"total": 3, "message": "on it", "x-unknown": {"b": [1, None], "a": 2}, "_meta": {"k": "v"}}


class Reporter:
    """A server that reports progress of each call at once, and answers when it may."""

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


def asking(client: str, of: int, token: Any) -> Ask:
    params: dict[str, Any] = {"name": "demo__x", "arguments": {"of": of}}
    if client == MODERN:
        return modern("tools/call", params, progressToken=token)
    return legacy("tools/call", {**params, "_meta": {"progressToken": token}}, session="mine")


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
        await Wire.connect(gateway) as one,
        await Wire.connect(gateway) as two,
    ):
        for of, wire in enumerate((one, two)):
            wire.send(asking(client, of, token))
        for of, wire in enumerate((one, two)):
            heard = await event(wire)
            assert heard["params"] == {"progressToken": token, "progress": of, **MORE}
            assert type(heard["params"]["progressToken"]) is type(token)
        assert len({*reporter.tokens}) == 2, "one sender may not use a token twice at a time"
        reporter.may_end.set()
        for of, wire in enumerate((one, two)):
            own, last = await event(wire), await event(wire)
            assert (own["params"]["progress"], own["params"]["progressToken"]) == (100, token)
            assert json.loads(last["result"]["content"][0]["text"]) == {"of": of}
            assert last["id"] == 1


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_an_answer_that_no_progress_came_before_is_json_although_it_was_asked_for(
    tmp_path: Path, client: str, server_era: str
) -> None:
    """Clients refuse an event of more than 1 MiB, and a JSON body of that size they take."""
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
        answer = await ask(gateway, asking(client, 1, "tok"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.message["result"]["content"][0]["text"] == large


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_progress_that_its_client_does_not_read_is_not_kept_for_it(
    tmp_path: Path, client: str, server_era: str
) -> None:
    """It would fill the memory of the gateway. The answer comes all the same."""
    reporter = Reporter(reports=60_000)
    reporter.may_end.set()
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(asking(client, 0, "tok"))
        await eventually(lambda: any(c.congested for c in gateway._listener.connections))
        (connection,) = gateway._listener.connections
        sizes = []
        for _ in range(50):
            await asyncio.sleep(0.01)
            sizes.append(connection.transport.get_write_buffer_size())
        assert max(sizes) < 4_000_000, "of 12 million"
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        while "result" not in await event(wire):
            pass


@pytest.mark.parametrize("client", ERAS)
async def test_what_is_asked_behind_a_stream_is_answered_behind_it(tmp_path: Path, client: str) -> None:
    reporter = Reporter()
    health = Ask(verb="GET", body=b"", target="/healthz")
    async with (
        raw_server(reporter.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(asking(client, 0, "tok"))
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
