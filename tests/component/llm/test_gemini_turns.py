"""Later requests of conversations in Gemini's API: turns of which the caller has a part, and calls without
signatures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead_formats.providers.gemini.fake_rules import signature
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Answer
from geminiworld import (
    GENERATE,
    STREAM,
    declare_tools,
    events,
    gemini_world,
    generate,
    parts,
    respond_to,
    text,
    text_content,
)
from provider_ids import with_provider_ids

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
METHODS = (GENERATE, STREAM)


def visible_content(answer: Answer, method: str) -> dict[str, Any]:
    """The content of an answer that the caller receives."""
    return {"role": "model", "parts": parts(*([answer.message] if method == GENERATE else events(answer)))}


def calls(content: dict[str, Any]) -> list[Any]:
    return [part for part in content["parts"] if "functionCall" in part]


async def test_the_model_gets_all_calls_and_results_of_a_mixed_turn(tmp_path: Path) -> None:
    for method in METHODS:
        mixed = ScriptedTurn("Both.", [CLIENT_CALL, ADD, CLIENT_CALL])
        async with gemini_world(tmp_path, mixed, ScriptedTurn("Done.")) as world:
            model = visible_content(await generate(world, "Ask", method=method, tools=[declare_tools()]), method)
            assert [part["functionCall"]["name"] for part in calls(model)] == ["theirs", "theirs"]
            back = respond_to(*reversed(calls(model)))
            last = await generate(world, "Ask", model, back, tools=[declare_tools()])
        assert text(last.message) == "Done."
        user, whole, responses = world.model.requests[1]["contents"]
        assert [part["functionCall"]["name"] for part in calls(whole)] == ["theirs", "demo__add", "theirs"]
        made = [part["functionResponse"] for part in responses["parts"]]
        assert [each["id"] for each in made] == [f"call_scripted_0001_000{index}" for index in range(3)]
        assert made[1]["response"] == {"output": "42"}
        assert user == text_content("Ask")


async def test_text_beside_function_responses_stands_behind_all_of_them(tmp_path: Path) -> None:
    mixed = ScriptedTurn("", [CLIENT_CALL, ADD])
    async with gemini_world(tmp_path, mixed, ScriptedTurn("Done.")) as world:
        model = visible_content(await generate(world, "Ask", tools=[declare_tools()]), GENERATE)
        back = respond_to(*calls(model))
        back["parts"].append({"text": "Go on."})
        await generate(world, "Ask", model, back, "And?", tools=[declare_tools()])
    responses, last = world.model.requests[1]["contents"][2:]
    assert [next(iter(part)) for part in responses["parts"]] == ["functionResponse", "functionResponse", "text"]
    assert last == text_content("And?")


async def test_a_turn_of_several_rounds_that_ends_with_the_callers_call_is_whole_again(tmp_path: Path) -> None:
    turns = [ScriptedTurn("First.", [ADD]), ScriptedTurn("Yours.", [CLIENT_CALL]), ScriptedTurn("Done.")]
    for method in METHODS:
        async with gemini_world(tmp_path, *turns) as world:
            model = visible_content(await generate(world, "Ask", method=method, tools=[declare_tools()]), method)
            back = respond_to(*calls(model))
            await generate(world, "Ask", model, back, tools=[declare_tools()])
        contents = world.model.requests[2]["contents"]
        assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
        assert contents[2]["parts"][0]["functionResponse"]["response"] == {"output": "42"}
        assert contents[4] == with_provider_ids(back)


async def test_a_lost_mixed_turn_stays_as_the_caller_sent_it(tmp_path: Path) -> None:
    call = {"functionCall": {"id": "call_x", "name": "theirs", "args": {}}, "thoughtSignature": signature(1)}
    model = {"role": "model", "parts": [{"text": "Both."}, call]}
    async with gemini_world(tmp_path, ScriptedTurn("Done.")) as world:
        await generate(world, "Ask", model, respond_to(call), tools=[declare_tools()])
    assert world.model.requests[0]["contents"][1:] == [model, respond_to(call)]


async def test_a_call_without_an_id_gets_one(tmp_path: Path) -> None:
    made: list[dict[str, Any]] = [
        {"functionCall": {"name": name, "args": {"a": 1, "b": 2}}} for name in ("demo__add", "theirs")
    ]
    made[0]["thoughtSignature"] = signature(1)
    whole = {"candidates": [{"content": {"role": "model", "parts": made}, "finishReason": "STOP", "index": 0}]}
    for method in METHODS:
        turn = ScriptedTurn(whole=json.dumps(whole), events=[json.dumps(whole)])
        async with gemini_world(tmp_path, turn, ScriptedTurn("Done.")) as world:
            model = visible_content(await generate(world, "Ask", method=method, tools=[declare_tools()]), method)
            (call,) = calls(model)
            assert len(call["functionCall"]["id"]) > 16
            await generate(world, "Ask", model, respond_to(call), tools=[declare_tools()])
        _, called, responses = world.model.requests[1]["contents"]
        ids = [part["functionCall"]["id"] for part in called["parts"]]
        assert ids == [part["functionResponse"]["id"] for part in responses["parts"]]
        assert len(set(ids)) == 2


async def test_calls_of_the_current_turn_without_a_signature_get_what_stands_for_one(tmp_path: Path) -> None:
    call = {"functionCall": {"id": "call_x", "name": "theirs", "args": {}}}
    turn = [{"role": "model", "parts": [call, call]}, respond_to(call, call)]
    async with gemini_world(tmp_path, ScriptedTurn("Done.")) as world:
        await generate(world, "Old", *turn, "New", *turn, tools=[declare_tools()])
    contents = world.model.requests[0]["contents"]
    assert contents[1:3] == turn
    assert [part.get("thoughtSignature") for part in contents[4]["parts"]] == ["skip_thought_signature_validator", None]
    assert contents[5] == turn[1]


async def test_models_that_check_no_signatures_get_none(tmp_path: Path) -> None:
    call = {"functionCall": {"name": "theirs", "args": {}}}
    turn = [{"role": "model", "parts": [call]}, respond_to(call)]
    async with gemini_world(tmp_path, ScriptedTurn("Done.")) as world:
        await generate(world, "New", *turn, model="script0/gemini-2.5-pro", tools=[declare_tools()])
    assert world.model.requests[0]["contents"][1:] == turn
