"""Clients of Gemini's API that drop call ids: no tool runs twice for one decision of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.providers.gemini.carried_ids import sign_with_id
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.call_ids import new_id
from familytalks import PROVIDERS
from frameworkclients import framework_talk
from gatewayworld import Answer
from geminiworld import GENERATE, STREAM, declare_tools, events, gemini_world, generate, parts, text
from llmworld import LlmWorld, llm_world
from toolservers import tool

ORDERS = tool("order", description="Order a thing", inputSchema={"type": "object", "properties": {}})
ORDER = ScriptedCall("demo__order", {})
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
DONE = ScriptedTurn("Done.")
SIGNATURE = "thoughtSignature"
NOT_KEPT = "turn_not_kept"
methods = pytest.mark.parametrize("method", [GENERATE, STREAM])
providers = pytest.mark.parametrize("provider", PROVIDERS)


def pieces(answer: Answer, method: str) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [answer.message] if method == GENERATE else events(answer)


async def call_round(
    world: LlmWorld, *contents: str | Mapping[str, Any], method: str, signatures: bool
) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """Make a request. Returns the contents that a client without ids sends next, and the member `fairlead`."""
    answers = pieces(await generate(world, *contents, method=method, tools=[declare_tools()]), method)
    model: list[Mapping[str, Any]] = []
    responses: list[Mapping[str, Any]] = []
    for part in parts(*answers):
        if "functionCall" not in part:
            continue
        call = {name: value for name, value in part["functionCall"].items() if name != "id"}
        model.append({"functionCall": call, **({SIGNATURE: part[SIGNATURE]} if signatures else {})})
        responses.append({"functionResponse": {"name": call["name"], "response": {"output": "mine"}}})
    more: list[Mapping[str, Any]] = [{"role": "model", "parts": model}, {"role": "user", "parts": responses}]
    return more if model else [], next(answer["fairlead"] for answer in answers if "fairlead" in answer)


@methods
@providers
async def test_a_mixed_turn_is_whole_again_by_the_signature_of_its_call(
    tmp_path: Path, provider: str, method: str
) -> None:
    turns = [ScriptedTurn("", [CLIENT_CALL]), ScriptedTurn("", [ORDER, CLIENT_CALL]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        first, _ = await call_round(world, "Hi", method=method, signatures=True)
        second, own = await call_round(world, "Hi", *first, method=method, signatures=True)
        assert [call["name"] for call in own["calls"]] == ["demo__order"]
        last = pieces(await generate(world, "Hi", *first, *second, method=method, tools=[declare_tools()]), method)
        assert "".join(map(text, last)) == "Done."
        assert len(world.called) == 1
        sent = json.dumps(world.model.requests[-1])
    assert sent.count("demo__order") >= 2, "as a tool, and as a call"
    assert "_fl-" not in sent
    assert sign_with_id("", "")[:12] not in sent


@methods
@providers
async def test_the_callers_calls_go_first_where_nothing_comes_back_of_an_id(
    tmp_path: Path, provider: str, method: str
) -> None:
    mixed = ScriptedTurn("", [ORDER, CLIENT_CALL])
    turns = [mixed, mixed, ScriptedTurn("", [ORDER]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        first, own = await call_round(world, "Hi", method=method, signatures=False)
        assert NOT_KEPT in own["losses"], "of a client of which nothing is known"
        second, own = await call_round(world, "Hi", *first, method=method, signatures=False)
        assert NOT_KEPT in own["losses"], "of a client that drops ids"
        assert not world.called
        _, own = await call_round(world, "Hi", *first, *second, method=method, signatures=False)
        assert [call["name"] for call in own["calls"]] == ["demo__order"]
        assert len(world.called) == 1


@methods
async def test_tools_that_only_read_run_beside_the_first_calls_of_a_client(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [ADD, CLIENT_CALL]), DONE]
    async with gemini_world(tmp_path, *turns) as world:
        first, own = await call_round(world, "Hi", method=method, signatures=True)
        assert [call["name"] for call in own["calls"]] == ["demo__add"]
        await call_round(world, "Hi", *first, method=method, signatures=True)
        assert len(world.called) == 1
    responses = world.model.requests[1]["contents"][2]["parts"]
    assert [part["functionResponse"]["response"]["output"] for part in responses] == ["42", "mine"]


@methods
async def test_a_call_that_waits_after_a_hidden_round_is_reported_to_the_model(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [ORDER]), ScriptedTurn("", [ORDER, CLIENT_CALL]), DONE]
    async with gemini_world(tmp_path, *turns, tools=[ORDERS]) as world:
        first, own = await call_round(world, "Hi", method=method, signatures=True)
        assert own["losses"] == [NOT_KEPT]
        await call_round(world, "Hi", *first, method=method, signatures=True)
        assert len(world.called) == 1
    contents = world.model.requests[2]["contents"]
    responses = [part["functionResponse"] for each in contents for part in each["parts"] if "functionResponse" in part]
    assert [each["name"] for each in responses] == ["demo__order", "demo__order", "theirs"]
    assert "was not run in that turn" in str(responses[1]["response"])


async def test_a_signature_that_somebody_made_up_finds_no_kept_turn(tmp_path: Path) -> None:
    turns = [ScriptedTurn("", [ADD, CLIENT_CALL]), DONE]
    async with gemini_world(tmp_path, *turns) as world:
        await call_round(world, "Hi", method=GENERATE, signatures=True)
        call = {"functionCall": {"name": "theirs", "args": {}}, SIGNATURE: sign_with_id(new_id(), "")}
        response = {"functionResponse": {"name": "theirs", "response": {"output": "mine"}}}
        model = {"role": "model", "parts": [call]}
        user = {"role": "user", "parts": [response]}
        await generate(world, "Hi", model, user, tools=[declare_tools()])
    assert "demo__add" not in json.dumps(world.model.requests[1]["contents"])


@methods
async def test_the_provider_gets_its_own_signatures_back(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [CLIENT_CALL], thoughts=["Hm."]), DONE]
    async with gemini_world(tmp_path, *turns) as world:
        direct = await generate(world, "Hi", method=method, tools=[declare_tools()], fairlead={"tools": "none"})
        own = [part for part in parts(*pieces(direct, method)) if "functionCall" in part]
    async with gemini_world(tmp_path, *turns) as world:
        first, _ = await call_round(world, "Hi", method=method, signatures=True)
        await generate(world, "Hi", *first, method=method, tools=[declare_tools()])
    model = world.model.requests[1]["contents"][1]
    assert model["parts"] == own
    assert own[0][SIGNATURE]


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["whole", "stream"])
@providers
async def test_langchain_gets_results_of_mixed_turns_once(tmp_path: Path, provider: str, way: str) -> None:
    turns = [ScriptedTurn("", [CLIENT_CALL]), ScriptedTurn("", [ORDER, CLIENT_CALL]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        told = await framework_talk("langchain_google", way, f"http://127.0.0.1:{world.gateway.port}", "Done.")
        assert told == [*[{"text": "", "calls": ["theirs"]}] * 2, {"text": "Done.", "calls": []}]
        assert len(world.called) == 1
    assert json.dumps(world.model.requests[-1]).count("demo__order") >= 2, "as a tool, and as a call"


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["whole", "stream"])
@providers
async def test_langchain_orders_once_in_its_first_turn(tmp_path: Path, provider: str, way: str) -> None:
    turns = [ScriptedTurn("", [ORDER, CLIENT_CALL]), ScriptedTurn("", [ORDER]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        told = await framework_talk("langchain_google", way, f"http://127.0.0.1:{world.gateway.port}", "Done.")
        assert told == [{"text": "", "calls": ["theirs"]}, {"text": "Done.", "calls": []}]
        assert len(world.called) == 1
