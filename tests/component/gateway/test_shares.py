"""An agent that takes all it can get leaves other agents their shares of streams and of sessions with servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Definition
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint import notification_streams
from gatewayworld import LEGACY, Answer, Ask, Wire, ask, catalog, legacy, modern, running
from policyworld import Vouching, anybody
from rawserver import Reply, Request, raw_server
from waiting import eventually

TRUST = Trust((Vouching(anybody("mallory"), anybody("alice")),))
DEMO = catalog("demo", "http://127.0.0.1:9/mcp", ["add"])


def of(who: str, request: Ask) -> Ask:
    return request.with_headers(authorization=f"Bearer {who}")


def listen(who: str, **wanted: Any) -> Ask:
    return of(who, modern("subscriptions/listen", {"notifications": {"toolsListChanged": True, **wanted}}))


def outcomes(gateway: Gateway, kind: Any) -> dict[str, int]:
    """Values of the metric for one kind, by outcome."""
    counted = gateway.call_metrics.shares.outcomes
    return {outcome: number for (of_kind, outcome), number in counted.items() if of_kind == kind and number}


@contextlib.asynccontextmanager
async def wires(gateway: Gateway, count: int) -> AsyncIterator[list[Wire]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await Wire.connect(gateway)) for _ in range(count)]


async def open_stream(wire: Wire, request: Ask) -> int:
    """Open a stream. Returns the status of its answer."""
    wire.send(request)
    return int((await wire.reader.readuntil(b"\r\n\r\n")).split(b" ")[1])


@pytest.mark.parametrize(("settings", "share"), [({}, 2), ({"streams_each": 3}, 3)])
async def test_notification_streams_of_one_agent_take_its_share_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], share: int
) -> None:
    monkeypatch.setattr(notification_streams, "MAX_STREAMS", 5)
    async with running(tmp_path, DEMO, trust=TRUST, **settings) as gateway, wires(gateway, 6) as (*crowd, last):
        statuses = [await open_stream(wire, listen("mallory")) for wire in crowd[:4]]
        assert statuses == [200] * share + [429] * (4 - share)
        refused = await crowd[4].ask(listen("mallory"))
        error = refused.message["error"]
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert error["message"] == f"{share} of your streams are open, the limit for one agent: close a stream"
        assert error["data"]["fairlead.dev/error"]["code"] == "RATE_LIMITED"
        assert await open_stream(last, listen("alice")) == 200
        assert outcomes(gateway, "streams") == {"agent": 5 - share}
        crowd[0].close()
        await eventually(lambda: len(gateway.endpoint.streams) == share)
        assert await open_stream(crowd[4], listen("mallory")) == 200


class Held:
    """A legacy server that answers calls only when the test lets it."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.calls = 0

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb != "POST":
            reply.send(405, allow="POST")
        elif request.method == "initialize":
            info = {"name": "held", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info}
            reply.result(request, result, mcp_session_id=f"s{self.calls}")
        elif "id" not in request.message:
            reply.send(202)
        else:
            self.calls += 1
            await self.free.wait()
            reply.result(request, {"content": []})


@pytest.mark.parametrize("sessions", [True, False])
@pytest.mark.parametrize(("settings", "share"), [({}, 3), ({"upstream_sessions_each": 2}, 2)])
async def test_upstream_sessions_of_one_agent_take_its_share_alone(
    tmp_path: Path, settings: dict[str, Any], share: int, sessions: bool
) -> None:
    held = Held()

    async def calls(who: str, count: int) -> list[Ask]:
        made = []
        for _ in range(count):
            session = None
            if sessions:
                params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
                session = (await ask(gateway, of(who, legacy("initialize", params)))).headers["mcp-session-id"]
            made.append(of(who, legacy("tools/call", {"name": "demo__add", "arguments": {}}, session=session)))
        return made

    async with raw_server(held.handle) as server, contextlib.AsyncExitStack() as stack:
        document = catalog("demo", server.url, ["add"], session="PerClient", version=LEGACY)
        bounds = {"upstream_sessions": 4, "upstream_connections": 64, **settings}
        gateway = await stack.enter_async_context(running(tmp_path, document, trust=TRUST, **bounds))
        crowd = await stack.enter_async_context(wires(gateway, share + 1))
        *first, one_more = await calls("mallory", share + 1)
        waiting = [asyncio.ensure_future(wire.ask(each)) for wire, each in zip(crowd, first, strict=False)]
        await eventually(lambda: held.calls == share)
        async with asyncio.timeout(5):
            refused = await ask(gateway, one_more)
        assert refused.refusal == "RATE_LIMITED"
        assert f"{share} of your sessions with the server default/demo are in use" in refused.body.decode()
        alice = asyncio.ensure_future(crowd[-1].ask((await calls("alice", 1))[0]))
        await eventually(lambda: held.calls == share + 1)
        held.free.set()
        answers: list[Answer] = await asyncio.gather(*waiting, alice)
        assert [answer.message["result"] for answer in answers] == [{"content": []}] * (share + 1)
        assert outcomes(gateway, "server_sessions") == {"agent": 1}
        assert (await ask(gateway, one_more)).message["result"] == {"content": []}, "it is given back"


async def test_watched_resources_of_one_agent_take_its_share_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_streams, "MAX_RESOURCE_BYTES", 80)
    uris = ["file:///aa", "file:///bb", "file:///cc"]
    items = tuple(
        Definition(name=uri, definition=Raw(json.dumps({"uri": uri, "name": uri}).encode()), hash="") for uri in uris
    )
    subscribes = Raw(b'{"resources":{"subscribe":true}}')
    document = catalog("demo", "http://127.0.0.1:9/mcp", ["add"], resources=items, capabilities=subscribes)
    async with running(tmp_path, document, trust=TRUST) as gateway, wires(gateway, 2) as (crowd, own):
        for who, wire in (("mallory", crowd), ("alice", own)):
            wire.send(listen(who, resourceSubscriptions=uris))
            await wire.reader.readuntil(b"acknowledged")
        named = {stream.agent: stream.resources for stream in gateway.endpoint.streams._open_streams}
        assert named == {"key:mallory": uris[:2], "key:alice": uris[:2]}
        assert outcomes(gateway, "watched_bytes") == {"agent": 2}
