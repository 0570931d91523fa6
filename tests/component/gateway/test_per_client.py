"""`session: PerClient`: no client sees what another client left in its session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from askers import conversation
from fairlead_api.documents.catalog import ChildEndpoint, CredentialRef, DeclaredLatency
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from gated_stdio_server import CREDENTIAL, Gated, gated, write_token
from gatewayworld import (
    LEGACY,
    META,
    MODERN,
    Answer,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    legacy,
    modern,
    running,
    wait_for_requests,
)
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import LEGACY_STDIO
from waiting import eventually

TOOL = {"name": "count", "inputSchema": {"type": "object"}}


class Counting:
    """A legacy server that counts the calls of each session, and records ended sessions."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.opened = 0
        self.ended: list[str] = []
        self.hold: asyncio.Event | None = None

    async def handle(self, request: Request, reply: Reply) -> None:
        session = request.headers.get("mcp-session-id", "")
        if request.verb == "DELETE":
            self.ended.append(session)
            reply.send(200)
        elif request.verb != "POST":
            reply.send(405, allow="POST")
        elif request.method == "initialize":
            self.opened += 1
            info = {"name": "counting", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info}
            reply.result(request, result, mcp_session_id=f"s{self.opened}")
        elif "id" not in request.message:
            reply.send(202)
        else:
            if self.hold is not None:
                await self.hold.wait()
            self.calls[session] += 1
            text = f"{session} {self.calls[session]}"
            reply.result(request, {"content": [{"type": "text", "text": text}]})


@contextlib.asynccontextmanager
async def counting() -> AsyncIterator[tuple[Counting, RawServer]]:
    seen = Counting()
    async with raw_server(seen.handle) as server:
        yield seen, server


def per_client(url: Any, *tools: Any, **more: Any) -> Any:
    more.setdefault("version", LEGACY)
    return catalog("demo", url, tools or [TOOL], session="PerClient", **more)


async def session_of(gateway: Gateway, capabilities: Any = None) -> str:
    """A new client session."""
    params = {
        "protocolVersion": LEGACY,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    return (await ask(gateway, legacy("initialize", params))).headers["mcp-session-id"]


def text(answer: Answer) -> str:
    message = answer.message if answer.body.startswith(b"{") else answer.events[-1]
    return str(message["result"]["content"][0]["text"])


def count(session: str | None = None, **more: Any) -> Ask:
    return legacy("tools/call", {"name": "demo__count", "arguments": {}, **more}, session=session)


def echo(session: str) -> Ask:
    return legacy("tools/call", {"name": "demo__echo", "arguments": {"text": "x"}}, session=session)


@contextlib.asynccontextmanager
async def behind_a_listener(folder: Path) -> AsyncIterator[tuple[Gated, Gateway]]:
    """A stdio server in a pod, with a process for each client, and its gateway."""
    write_token(folder)
    async with gated(LEGACY_STDIO) as server:
        document = per_client(server.endpoint, "echo", credential=CREDENTIAL)
        async with running(folder, document) as gateway:
            yield server, gateway


async def test_each_client_session_has_one_of_its_own_whatever_it_asks_for(tmp_path: Path) -> None:
    async with counting() as (seen, server), running(tmp_path, per_client(server.url)) as gateway:
        first = await session_of(gateway)
        other = await session_of(gateway)
        questions = await session_of(gateway, {"sampling": {}})
        assert text(await ask(gateway, count(first))) == "s1 1"
        assert text(await ask(gateway, count(first, _meta={"progressToken": "p"}))) == "s1 2"
        assert text(await ask(gateway, count(other))) == "s2 1"
        assert text(await ask(gateway, count(questions))) == "s3 1"
        assert text(await ask(gateway, count(questions))) == "s3 2"
        assert text(await ask(gateway, count(first))) == "s1 3"
        assert seen.opened == 3


async def test_without_per_client_all_share_one(tmp_path: Path) -> None:
    async with counting() as (seen, server):
        async with running(tmp_path, catalog("demo", server.url, [TOOL], version=LEGACY)) as gateway:
            for n in (1, 2):
                assert text(await ask(gateway, count(await session_of(gateway)))) == f"s1 {n}"
        assert seen.ended == ["s1"], "and it ends with the gateway"


async def test_a_session_ends_with_that_of_the_client(tmp_path: Path) -> None:
    async with counting() as (seen, server), running(tmp_path, per_client(server.url)) as gateway:
        first = await session_of(gateway)
        other = await session_of(gateway)
        for session in (first, other):
            await ask(gateway, count(session))
        await ask(gateway, Ask(verb="DELETE", headers={"mcp-session-id": first}))
        await eventually(lambda: seen.ended == ["s1"])
        assert text(await ask(gateway, count(other))) == "s2 2"


async def test_a_session_ends_after_a_while_without_a_call(tmp_path: Path) -> None:
    async with (
        counting() as (seen, server),
        running(tmp_path, per_client(server.url), upstream_session_seconds=0.1) as gateway,
    ):
        first = await session_of(gateway)
        await ask(gateway, count(first))
        await eventually(lambda: seen.ended == ["s1"])
        assert text(await ask(gateway, count(first))) == "s2 1"


async def test_requests_without_a_session_are_alone(tmp_path: Path) -> None:
    async with counting() as (seen, server), running(tmp_path, per_client(server.url)) as gateway:
        assert text(await ask(gateway, calling("demo__count", {}, era=MODERN))) == "s1 1"
        assert text(await ask(gateway, calling("demo__count", {}, era=MODERN))) == "s2 1"
        assert text(await ask(gateway, calling("demo__count", {}, era=LEGACY))) == "s3 1"
        await eventually(lambda: sorted(seen.ended) == ["s1", "s2", "s3"])


async def test_modern_clients_that_may_be_asked_are_alone_too(tmp_path: Path) -> None:
    """Whatever capabilities they declare: a shared session would show one client's state to the next."""
    offer: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {}}}
    async with counting() as (seen, server), running(tmp_path, per_client(server.url)) as gateway:
        for expected in ("s1 1", "s2 1"):
            assert text(await ask(gateway, calling("demo__count", {}, era=MODERN, **offer))) == expected
        await eventually(lambda: sorted(seen.ended) == ["s1", "s2"])


async def test_sessions_are_bounded_and_the_one_idle_for_longest_makes_room(tmp_path: Path) -> None:
    async with counting() as (seen, server):
        document = per_client(server.url)
        async with running(tmp_path, document, upstream_sessions=2, upstream_sessions_each=2) as gateway:
            first, second, third = [await session_of(gateway) for _ in range(3)]
            for session in (first, second, third):
                await ask(gateway, count(session))
            await eventually(lambda: seen.ended == ["s1"])
            seen.hold = asyncio.Event()
            wires = [await Wire.connect(gateway) for _ in range(2)]
            waiting = [asyncio.ensure_future(w.ask(count(s))) for w, s in zip(wires, (second, third), strict=True)]
            await eventually(lambda: gateway.registry.gauges()[document.key].busy == 2)
            assert (await ask(gateway, count(first))).refusal == "RATE_LIMITED"
            seen.hold.set()
            assert [text(answer) for answer in await asyncio.gather(*waiting)] == ["s2 2", "s3 2"]
            for wire in wires:
                wire.close()


async def test_cached_results_are_of_one_client(tmp_path: Path) -> None:
    tool = entry(TOOL, latency=DeclaredLatency(cacheable_seconds=60))
    async with counting() as (_, server), running(tmp_path, per_client(server.url, tool)) as gateway:
        first = await session_of(gateway)
        other = await session_of(gateway)
        answers = [text(await ask(gateway, count(session))) for session in (first, other, first, None, None)]
        assert answers == ["s1 1", "s2 1", "s1 1", "s3 1", "s4 1"]


async def test_each_client_has_a_process_of_its_own_behind_a_listener(tmp_path: Path) -> None:
    async with behind_a_listener(tmp_path) as (server, gateway):
        sessions = [await session_of(gateway) for _ in range(2)]
        for session in sessions * 2:
            assert text(await ask(gateway, echo(session)))
        assert len(server.servers) == 2
        await ask(gateway, Ask(verb="DELETE", headers={"mcp-session-id": sessions[0]}))
        await eventually(lambda: len(server.servers) == 1)


async def test_a_process_behind_a_listener_is_kept_for_as_long_as_a_session_is(tmp_path: Path) -> None:
    """The shorter lifetime of streams to shared processes does not apply: those are opened again for the next call."""
    async with behind_a_listener(tmp_path) as (server, gateway):
        gateway.registry.factory.link_seconds = 0.01
        seen: list[set[int]] = []
        # each process takes longer to start than `link_seconds`
        for session in [await session_of(gateway) for _ in range(3)]:
            assert text(await ask(gateway, echo(session)))
            seen.append({*server.servers})
        assert seen[0] < seen[1] < seen[2]


async def test_each_client_has_a_child_of_its_own_off_a_cluster(tmp_path: Path) -> None:
    children = ChildHost()
    child = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
    try:
        async with running(tmp_path, per_client(child, "echo"), children=children) as gateway:
            sessions = [await session_of(gateway) for _ in range(2)]
            for session in sessions * 2:
                assert text(await ask(gateway, echo(session)))
            assert len(children.children()) == 2
            for session in sessions:
                await ask(gateway, Ask(verb="DELETE", headers={"mcp-session-id": session}))
            await eventually(lambda: not children.children())
    finally:
        await children.aclose()


async def test_upstream_sessions_end_with_the_gateway(tmp_path: Path) -> None:
    async with counting() as (seen, server), running(tmp_path, per_client(server.url)) as gateway:
        await ask(gateway, count(await session_of(gateway)))
        await wait_for_requests(server, 2)
        await gateway.registry.aclose(0)
        assert seen.ended == ["s1"]


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("elicitation/create", {"elicitation": {}}),
    ("sampling/createMessage", {"sampling": {}}),
    ("roots/list", {"roots": {}}),
]


@pytest.mark.parametrize(("method", "offered"), QUESTIONS)
@pytest.mark.parametrize("client", [MODERN, LEGACY])
@pytest.mark.parametrize("holder", ["a child process", "behind a listener"])
async def test_a_client_with_a_process_of_its_own_is_asked_by_it(
    tmp_path: Path, holder: str, client: str, method: str, offered: dict[str, Any]
) -> None:
    told = {"action": "accept", "z": [1.5]}
    write_token(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        endpoint: Any = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
        ref: CredentialRef | None = None
        children = ChildHost()
        stack.push_async_callback(children.aclose)
        if holder != "a child process":
            endpoint = (await stack.enter_async_context(gated(LEGACY_STDIO))).endpoint
            ref = CREDENTIAL
        document = per_client(endpoint, "ask", credential=ref)
        gateway = await stack.enter_async_context(running(tmp_path, document, children=children))
        x: dict[str, Any] = {"name": "demo__ask", "arguments": {"method": method}}
        if client == LEGACY:
            session = await session_of(gateway, offered)
            inquiries, last = await conversation(gateway, session, {"result": told}, call=x)
            questions = [question for question, _ in inquiries]
        else:
            offer: dict[str, Any] = {META + "clientCapabilities": offered}
            first = (await ask(gateway, modern("tools/call", x, **offer))).message["result"]
            questions = [question["method"] for question in first["inputRequests"].values()]
            more = {"inputResponses": dict.fromkeys(first["inputRequests"], told)}
            again = {**x, **more, "requestState": first["requestState"]}
            last = (await ask(gateway, modern("tools/call", again, number=2, **offer))).message
        assert questions == [method]
        assert json.loads(last["result"]["content"][0]["text"]) == {"told": told, "offered": offered}


async def test_a_process_that_all_clients_share_asks_nobody(tmp_path: Path) -> None:
    children = ChildHost()
    child = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
    try:
        document = catalog("demo", child, ["ask"], version=LEGACY)
        async with running(tmp_path, document, children=children) as gateway:
            session = await session_of(gateway, {"elicitation": {}})
            x: dict[str, Any] = {"name": "demo__ask", "arguments": {"method": "elicitation/create"}}
            questions, last = await conversation(gateway, session, {"result": {}}, call=x)
    finally:
        await children.aclose()
    reported = json.loads(last["result"]["content"][0]["text"])
    assert (questions, reported["told"]["code"], reported["offered"]) == ([], -32601, {})
