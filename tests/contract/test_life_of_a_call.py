"""The page docs/how-it-works/life-of-a-call.md: its links name existing code, and real calls take its steps."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, LegacyAsker, conversation, session_of
from fairlead_app.gateway import Gateway
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.calls.path.client_call import STAGES
from gatewayworld import LEGACY, MODERN, Wire, ask, catalog, legacy, modern, running, wait_for_requests
from lifepages import LifePage, assert_taken_in_order, links_in, steps, trace_calls
from petapi import PET, api_catalog, pet_api
from rawserver import RawServer, Reply, Request, raw_server
from restworld import MESSAGES, post
from waiting import eventually

PAGE = LifePage("life-of-a-call")
part = PAGE.part
CALL: dict[str, Any] = {"name": "demo__x", "arguments": {}}
OFFER: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
QUESTION = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {"type": "object"}}}

Traced = Callable[[], Any]
Scenario = Callable[[Path, Traced], Awaitable[None]]


def test_each_name_of_the_page_is_defined_in_the_file_that_it_links_to() -> None:
    assert len(links_in(PAGE.text)) > 50
    PAGE.assert_names_are_where_they_lead()


def test_the_page_names_every_stage_in_its_order() -> None:
    checks = part("One call, stop by stop").partition("**Checks.**")[2].partition("**Upstream.**")[0]
    assert [stage.__name__ for stage in STAGES] == re.findall(r"\[`(\w+)`\]\(\S+/calls/path/client_call\.py\)", checks)


async def answer_with_progress(request: Request, reply: Reply) -> None:
    """A server of either era that reports progress on request, and counts other requests."""
    if request.verb != "POST":
        return reply.send(405)
    if request.method == "initialize":
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        return reply.result(request, hello, mcp_session_id="s")
    if request.method != "tools/call":
        return reply.send(202)
    token = request.params.get("_meta", {}).get("progressToken")
    result = {"content": [], "resultType": "complete"}
    if token is None:
        return reply.result(request, result)
    reply.open_stream()
    reply.event(
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
    )
    reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
    return reply.end_stream()


def world(
    make: Callable[[Gateway, RawServer, Traced], Awaitable[None]],
    handle: Callable[[Request, Reply], Awaitable[None]] = answer_with_progress,
    **more: Any,
) -> Scenario:
    """Scenario with a gateway and a server whose sessions are open before the tracing begins."""

    async def scenario(tmp_path: Path, traced: Traced) -> None:
        async with (
            raw_server(handle) as server,
            running(tmp_path, catalog("demo", server.url, ["x"], **more)) as gateway,
        ):
            await make(gateway, server, traced)

    return scenario


def call_scenario(client: str, server: str) -> Scenario:
    async def make(gateway: Gateway, _: RawServer, traced: Traced) -> None:
        request = modern("tools/call", CALL) if client == MODERN else legacy("tools/call", CALL)
        await ask(gateway, request)
        with traced():
            assert (await ask(gateway, request)).message["result"]["content"] == []

    return world(make, version=server)


def with_progress(client: str) -> Scenario:
    async def make(gateway: Gateway, _: RawServer, traced: Traced) -> None:
        meta = {"progressToken": "t"}
        request = legacy("tools/call", {**CALL, "_meta": meta})
        if client == MODERN:
            request = modern("tools/call", CALL, **meta)
        with traced():
            progress, _ = (await ask(gateway, request)).events
        assert progress["params"] == {"progressToken": "t", "progress": 1}

    return world(make, version=LEGACY)


async def fail(request: Request, reply: Reply) -> None:
    reply.send(503)


async def call_and_fail(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    with traced():
        assert (await ask(gateway, modern("tools/call", CALL))).refusal == "UPSTREAM_ERROR"


async def hang(request: Request, reply: Reply) -> None:
    reply.open_stream()


async def abandon_call(gateway: Gateway, server: RawServer, traced: Traced) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.send(modern("tools/call", CALL))
        await wait_for_requests(server, 1)
        with traced():
            wire.transport.abort()
            await eventually(lambda: not gateway.endpoint.context.calls)


async def ask_in_the_call(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    session = await session_of(gateway, {"elicitation": {}})
    with traced():
        questions, _ = await conversation(gateway, session, {"result": PICKED})
    assert len(questions) == 1


async def ask_by_a_result(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    with traced():
        first = (await ask(gateway, modern("tools/call", CALL, **OFFER))).message["result"]
        answers = dict.fromkeys(first["inputRequests"], PICKED)
        more = {"requestState": first["requestState"], "inputResponses": answers}
        last = await ask(gateway, modern("tools/call", {**CALL, **more}, **OFFER))
    assert last.message["result"]["resultType"] == "complete"


async def answer_with_question(request: Request, reply: Reply) -> None:
    if "inputResponses" in request.params:
        return reply.result(request, {"content": [], "resultType": "complete"})
    return reply.result(request, {"resultType": "input_required", "inputRequests": {"q": QUESTION}})


class WantsPage:
    """A server whose tool answers only after a page was opened."""

    def __init__(self) -> None:
        self._calls = 0

    async def handle(self, request: Request, reply: Reply) -> None:
        self._calls += 1
        if self._calls > 1:
            return reply.result(request, {"content": [], "resultType": "complete"})
        page = {"mode": "url", "elicitationId": "1", "url": "https://pages.example", "message": "Connect"}
        return reply.error(request, 400, -32042, "More is needed", {"elicitations": [page]})


async def opening_a_page(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    offer: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
    with traced():
        result = (await ask(gateway, modern("tools/call", CALL, **offer))).message["result"]
        more = {"inputResponses": {"page0": {"action": "accept"}}, "requestState": result["requestState"]}
        last = await ask(gateway, modern("tools/call", {**CALL, **more}, **offer))
    assert last.message["result"]["resultType"] == "complete"


async def in_its_session(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    session = await session_of(gateway, {})
    with traced():
        assert (await ask(gateway, legacy("tools/call", CALL, session=session))).message["result"]["content"] == []


async def an_operation(tmp_path: Path, traced: Traced) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server)) as gateway:
        with traced():
            answer = await ask(gateway, modern("tools/call", {"name": "pets__getPet", "arguments": {"id": "7"}}))
    assert answer.message["result"]["structuredContent"] == PET


async def by_rest(gateway: Gateway, _: RawServer, traced: Traced) -> None:
    with traced():
        answer = await post(
            gateway, "/v1/tool-calls", {"format": "mcp", "message": MESSAGES["mcp"]([("1", "demo__x", {})])}
        )
    assert answer.status == 200, answer.message


WALKS: dict[str, tuple[str, Scenario]] = {
    **{
        f"a call of a {client} client at a {server} server": (
            part("One call, stop by stop"),
            call_scenario(client, server),
        )
        for client in (LEGACY, MODERN)
        for server in (LEGACY, MODERN)
    },
    "a failed attempt": (part("When it fails, or the client gives up").split("\n\n")[0], world(call_and_fail, fail)),
    "a client that is gone": (
        part("When it fails, or the client gives up").split("\n\n")[1],
        world(abandon_call, hang),
    ),
    **{
        f"progress for a {client} client": (
            part("Progress, log messages and event streams"),
            with_progress(client),
        )
        for client in (LEGACY, MODERN)
    },
    "a question in the middle of a call": (
        part("Questions to the client"),
        world(ask_in_the_call, LegacyAsker().handle, version=LEGACY),
    ),
    "a legacy server's question to a modern client": (
        part("Questions to the client", "| modern | legacy |"),
        world(ask_by_a_result, LegacyAsker().handle, version=LEGACY),
    ),
    "a modern server's question to a legacy client": (
        part("Questions to the client", "| legacy | modern |"),
        world(ask_in_the_call, answer_with_question),
    ),
    "a page that a person has to open": (
        part("Pages that people have to open"),
        world(opening_a_page, WantsPage().handle),
    ),
    "a session for each client": (
        part("A session for each client"),
        world(in_its_session, version=LEGACY, session="PerClient"),
    ),
    "an operation of an HTTP API": (part("An operation of an HTTP API"), an_operation),
    "REST": (part("REST and Python"), world(by_rest)),
}


@pytest.mark.skipif(not hasattr(ToolCall.run, "__code__"), reason="compiled functions cannot be traced")
@pytest.mark.parametrize("walk", WALKS)
async def test_a_real_call_takes_the_steps_in_the_order_of_the_page(tmp_path: Path, walk: str) -> None:
    text, scenario = WALKS[walk]
    seen: list[str] = []
    await scenario(tmp_path, lambda: trace_calls(seen))
    assert_taken_in_order(steps(text), seen)
