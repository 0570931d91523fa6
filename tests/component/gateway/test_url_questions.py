"""Pages that servers ask users to open (URL elicitation): each kind of client with each kind of server."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gatewayworld import LEGACY, MODERN, Ask, Wire, ask
from pageworld import (
    ASKED,
    CLIENTS,
    ERROR,
    INPUT,
    METHODS,
    OWN_ID,
    PAGE,
    QUESTION,
    REASON,
    REQUIRED,
    SERVERS,
    SESSIONS,
    TEXT,
    WAYS,
    PageClient,
    PageWorld,
    assert_valid,
    legacy_ask,
    modern_ask,
    page_world,
    params_of,
    session_as,
)
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPENS: Final = CLIENTS["2026-07-28 with url"]
OLD_OPENS: Final = CLIENTS["2025-11-25 with url"]
NEEDS_PAGE: Final = params_of("legacy", "PerClient", ERROR, "tools/call")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageWorld]:
    async with page_world(tmp_path_factory.mktemp("pages")) as made:
        yield made


def expected_question(kind: PageClient, server: str, way: str) -> str:
    """How a client is asked: as in the table of `calls.path.page_answers`, or during the call if it has a stream."""
    if kind.revision < LEGACY or "url" not in (kind.elicitation or {}):
        return TEXT
    if kind.revision == MODERN:
        return INPUT
    return ASKED if way == QUESTION and kind.streams else REQUIRED


CELLS: Final = [
    pytest.param(*cell, id=f"client of {cell[0]}, {cell[1]} server by {cell[2]} to {cell[3]}, {cell[4]}")
    for cell in itertools.product(CLIENTS, SERVERS, WAYS, METHODS, SESSIONS)
]


@pytest.mark.parametrize(("client", "server", "way", "method", "session"), CELLS)
async def test_a_page_is_asked_for_in_the_form_of_the_client(
    world: PageWorld, client: str, server: str, way: str, method: str, session: str
) -> None:
    kind = CLIENTS[client]
    outcome = await world.call(kind, server, way, method, session)
    assert outcome.form == expected_question(kind, server, way)
    if outcome.form == TEXT:
        assert PAGE in outcome.text
        assert REASON in outcome.text
        assert "error" in outcome.last or outcome.last["result"]["isError"] is True
        return
    (params,) = outcome.params
    page = {"mode": "url", "url": PAGE, "message": REASON}
    if outcome.form == INPUT:
        assert params == page, "an id belongs to 2025-11-25 alone"
    else:
        ident = params.pop("elicitationId")
        assert params == page
        assert (ident == OWN_ID) is (SERVERS[server] != MODERN)
    assert "error" not in outcome.last
    assert outcome.text in ("done", "")
    told = outcome.form == ASKED and SERVERS[server] != MODERN
    assert outcome.completed == ([{"elicitationId": OWN_ID}] if told else [])


@pytest.mark.parametrize("server", SERVERS)
async def test_a_server_is_told_what_its_client_can_be_asked(world: PageWorld, server: str) -> None:
    asking = world.servers[server]
    for client, declared in {
        "2025-11-25 with url": {"elicitation": {"form": {}, "url": {}}},
        "2025-11-25 with forms": {"elicitation": {"form": {}}},
        "2025-06-18 with url, which it does not know": {"elicitation": {}},
        "2025-03-26 with url, which it does not know": {},
        "2026-07-28 with url": {"elicitation": {"form": {}, "url": {}}},
    }.items():
        asking.declared.clear()
        await world.call(CLIENTS[client], server, QUESTION, "tools/call", "PerClient")
        assert all(each == declared for each in asking.declared), client


@pytest.mark.parametrize(
    ("odd", "form"),
    [
        pytest.param({"elicitationId": None}, REQUIRED, id="no id"),
        pytest.param({"elicitationId": 7}, REQUIRED, id="a number as id"),
        pytest.param({"message": None}, REQUIRED, id="no message"),
        pytest.param({"mode": None}, REQUIRED, id="no mode"),
        pytest.param({"url": 7}, TEXT, id="a number as URL"),
        pytest.param({"url": "not a url"}, TEXT, id="no URL"),
        pytest.param({"url": "https://pages.example/" + "x" * 10_000}, TEXT, id="a URL without end"),
        pytest.param({"x-own": {"b": 1.50, "a": [None]}}, REQUIRED, id="a member of its own"),
    ],
)
async def test_an_odd_error_of_a_server_is_made_valid_or_becomes_text(
    world: PageWorld, odd: dict[str, Any], form: str
) -> None:
    server = world.servers["legacy"]
    server.odd = odd
    try:
        outcome = await world.call(OLD_OPENS, "legacy", ERROR, "tools/call")
        prompt = await world.call(OLD_OPENS, "legacy", ERROR, "prompts/get")
    finally:
        server.odd = {}
    assert (outcome.form, prompt.form) == (form, form)
    if form == REQUIRED:
        assert isinstance(outcome.params[0]["elicitationId"], str)
        assert outcome.params[0].get("x-own") == odd.get("x-own")


@pytest.mark.parametrize("server", ["modern", "legacy"])
async def test_a_question_without_a_url_reaches_no_client(world: PageWorld, server: str) -> None:
    asking = world.servers[server]
    asking.odd = {"url": "not a url"}
    try:
        for kind in (OPENS, OLD_OPENS):
            outcome = await world.call(kind, server, QUESTION, "tools/call")
            assert (outcome.form, outcome.last["result"]["isError"]) == (TEXT, True)
    finally:
        asking.odd = {}


async def test_a_person_who_declines_ends_the_call_and_its_server_hears_nothing(world: PageWorld) -> None:
    for action in ("decline", "cancel"):
        outcome = await world.call(OPENS, "legacy", ERROR, "tools/call", response={"action": action})
        before = len(world.servers["legacy"].calls)
        assert outcome.form == INPUT
        assert outcome.last["result"]["_meta"]["fairlead.dev/error"]["code"] == "CANCELLED"
        assert len(world.servers["legacy"].calls) == before


async def test_a_page_that_is_still_open_is_asked_for_again_and_never_answered_for(world: PageWorld) -> None:
    params = params_of("legacy", "Shared", ERROR, "tools/call")
    world.servers["legacy"].opened = False
    result = (await ask(world.gateway, modern_ask(OPENS, "tools/call", params))).message["result"]
    for number in (2, 3):
        again = {**params, "requestState": result["requestState"], "inputResponses": {"page0": {"action": "accept"}}}
        result = (await ask(world.gateway, modern_ask(OPENS, "tools/call", again, number=number))).message["result"]
        assert_valid(MODERN, "InputRequiredResult", result)
    world.servers["legacy"].opened = True
    again = {**params, "requestState": result["requestState"]}
    last = (await ask(world.gateway, modern_ask(OPENS, "tools/call", again, number=4))).message["result"]
    assert last["resultType"] == "complete"
    assert "requestState" not in world.servers["legacy"].calls[-1], "the state is the gateway's own"


@pytest.mark.parametrize("spoiled", ["arguments", "tool", "server", "method", "state", "responses"])
async def test_a_state_repeats_no_other_call(world: PageWorld, spoiled: str) -> None:
    params = params_of("legacy", "Shared", ERROR, "tools/call")
    world.servers["legacy"].opened = False
    result = (await ask(world.gateway, modern_ask(OPENS, "tools/call", params))).message["result"]
    state, method = result["requestState"], "tools/call"
    other = {**params, "requestState": state, "inputResponses": {"page0": {"action": "accept"}}}
    if spoiled == "arguments":
        other["arguments"] = {"more": 1}
    elif spoiled == "tool":
        other |= params_of("legacy", "Shared", QUESTION, "tools/call")
    elif spoiled == "server":
        other |= params_of("forms-alone", "Shared", ERROR, "tools/call")
    elif spoiled == "method":
        method, other = "prompts/get", {**other, "name": params_of("legacy", "Shared", ERROR, "prompts/get")["name"]}
    elif spoiled == "state":
        other["requestState"] = state[:-1] + ("0" if state[-1] != "0" else "1")
    else:
        other["inputResponses"] = []
    before = len(world.servers["legacy"].calls)
    answer = await ask(world.gateway, modern_ask(OPENS, method, other, number=2))
    assert (answer.status, answer.code) == (400, -32602)
    assert len(world.servers["legacy"].calls) == before


async def test_the_order_of_arguments_makes_no_other_call(world: PageWorld) -> None:
    params = {**params_of("legacy", "Shared", ERROR, "tools/call"), "arguments": {"a": 1, "b": {"c": 2, "d": 3}}}
    world.servers["legacy"].opened = False
    result = (await ask(world.gateway, modern_ask(OPENS, "tools/call", params))).message["result"]
    world.servers["legacy"].opened = True
    turned = {**params, "arguments": {"b": {"d": 3, "c": 2}, "a": 1}, "requestState": result["requestState"]}
    last = await ask(world.gateway, modern_ask(OPENS, "tools/call", turned, number=2))
    assert last.message["result"]["resultType"] == "complete"


async def test_call_repeated_after_its_page_is_retried_like_any_other(world: PageWorld) -> None:
    params, server = params_of("modern", "Shared", ERROR, "prompts/get"), world.servers["modern"]
    server.opened = False
    result = (await ask(world.gateway, modern_ask(OPENS, "prompts/get", params))).message["result"]
    server.opened = True
    server.drops = 1
    again = {**params, "requestState": result["requestState"], "inputResponses": {"page0": {"action": "accept"}}}
    last = await ask(world.gateway, modern_ask(OPENS, "prompts/get", again, number=2))
    assert last.message["result"]["resultType"] == "complete"
    assert server.drops == 0


async def test_a_question_without_a_stream_is_cancelled_at_its_server(world: PageWorld) -> None:
    server = world.servers["legacy"]
    server.cancelled.clear()
    await world.call(CLIENTS["2025-11-25 with url, without streams"], "legacy", QUESTION, "tools/call", "PerClient")
    await eventually(lambda: len(server.cancelled) == 1)


async def open_listener(world: PageWorld, kind: PageClient) -> tuple[Wire, str]:
    """The stream and the session of a client whose call asks to open a page."""
    world.servers["legacy"].completes = asyncio.Queue()
    world.servers["legacy"].opened = False
    session = await session_as(world.gateway, kind)
    headers = {**legacy_ask(kind, "x", {}, session).headers, "accept": "text/event-stream"}
    stream = await Wire.connect(world.gateway)
    stream.send(Ask(verb="GET", headers=headers, body=b""))
    await stream.reader.readuntil(b"\r\n\r\n")
    await ask(world.gateway, legacy_ask(kind, "tools/call", NEEDS_PAGE, session))
    return stream, session


async def test_a_page_that_is_done_is_announced_between_calls(tmp_path: Path) -> None:
    async with page_world(tmp_path) as world:
        stream, _ = await open_listener(world, OLD_OPENS)
        for completed in ({"elicitationId": 7}, {}, {"elicitationId": OWN_ID}):
            world.servers["legacy"].complete(completed)
        async with asyncio.timeout(30):
            event = await stream.reader.readuntil(b"elicitation/complete")
            event += await stream.reader.readuntil(b"\n\n")
        message = json.loads(event.rpartition(b"data: ")[2])
        assert_valid(LEGACY, "ServerNotification", message)
        assert message["params"] == {"elicitationId": OWN_ID}, "and none that names no elicitation"
        stream.close()


@pytest.mark.parametrize("client", ["2025-11-25 with forms", "2025-06-18 with forms"])
async def test_a_client_of_forms_alone_hears_nothing_of_pages(tmp_path: Path, client: str) -> None:
    async with page_world(tmp_path) as world:
        stream, session = await open_listener(world, CLIENTS[client])
        world.servers["legacy"].complete({"elicitationId": OWN_ID})
        await eventually(world.servers["legacy"].completed.is_set)
        await ask(world.gateway, legacy_ask(CLIENTS[client], "tools/call", NEEDS_PAGE, session))
    assert b"elicitation" not in await stream.read_to_end()
    stream.close()
