"""Gemini's generateContent with a scripted model: what the model, the tools and the client get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.providers.gemini.fake_rules import signature
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from geminiworld import GENERATE, STREAM, declare_tools, events, gemini_world, generate, parts, text
from provider_ids import with_provider_ids

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
METHODS = (GENERATE, STREAM)


def names(request: dict[str, Any]) -> list[list[str]]:
    """Names of the functions in each entry of `tools`."""
    return [[each["name"] for each in tool.get("functionDeclarations", [])] for tool in request.get("tools", [])]


def modes(*requests: dict[str, Any]) -> list[str | None]:
    return [each.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode") for each in requests]


async def test_a_model_gets_the_tools_calls_one_and_answers(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.")) as world:
        answer = await generate(world, "What is 2 + 40?")
    first, second = world.model.requests
    assert names(first) == [["demo__add", "demo__fail"]]
    assert world.called[0]["arguments"] == {"a": 2, "b": 40}
    assert [content["role"] for content in second["contents"]] == ["user", "model", "user"]
    assert second["contents"][2]["parts"][0]["functionResponse"] == {
        "id": "call_scripted_0001_0000",
        "name": "demo__add",
        "response": {"output": "42"},
    }
    assert answer.status == 200
    assert text(answer.message) == "Let me see.\n\nIt is 42."
    assert not any("functionCall" in part for part in parts(answer.message))
    assert answer.message["candidates"][0]["finishReason"] == "STOP"
    assert answer.message["responseId"] == "scripted-0001"
    assert answer.message["fairlead"]["calls"][0]["name"] == "demo__add"


async def test_usage_is_the_sum_of_all_rounds(tmp_path: Path) -> None:
    for method in METHODS:
        async with gemini_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
            answer = await generate(world, "Add", method=method)
        last = answer.message if method == GENERATE else events(answer)[-1]
        assert last["usageMetadata"] == {
            "promptTokenCount": 200,
            "candidatesTokenCount": 30,
            "totalTokenCount": 230,
            "cachedContentTokenCount": 80,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 200}],
        }


async def test_a_stream_says_what_a_whole_answer_says(tmp_path: Path) -> None:
    turns = [ScriptedTurn("Let me see.", [ADD], thoughts=["Hm."]), ScriptedTurn("It is 42.")]
    async with gemini_world(tmp_path, *turns) as world:
        stream_events = events(await generate(world, "Add", method=STREAM))
    assert text(*stream_events) == "Let me see.\n\nIt is 42."
    assert [part["text"] for part in parts(*stream_events) if part.get("thought")] == ["Hm."]
    assert {each["responseId"] for each in stream_events} == {"scripted-0001"}
    assert [each["candidates"][0].get("finishReason") for each in stream_events] == [
        *[None] * (len(stream_events) - 1),
        "STOP",
    ]
    assert not any("functionCall" in part for part in parts(*stream_events))
    assert [each for each in stream_events if "fairlead" in each] == [stream_events[-1]]


async def test_a_client_that_requests_no_events_gets_one_array(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.")) as world:
        answer = await generate(world, "Add", method=STREAM, query="")
    assert answer.headers["content-type"] == "application/json"
    responses = json.loads(answer.body)
    assert text(*responses) == "Let me see.\n\nIt is 42."
    assert responses[-1]["candidates"][0]["finishReason"] == "STOP"


async def test_an_error_in_an_array_is_its_last_item(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Half a sen", cut=True)) as world:
        answer = await generate(world, "Add", method=STREAM, query="?alt=json")
    responses = json.loads(answer.body)
    assert text(*responses[:-1]) == "Half a sen"
    assert (responses[-1]["error"]["code"], responses[-1]["error"]["status"]) == (502, "UNAVAILABLE")


async def test_signatures_stay_on_the_parts_that_have_them_within_the_loop(tmp_path: Path) -> None:
    for method in METHODS:
        turns = [ScriptedTurn("", [ADD, ADD], thoughts=["Hm."]), ScriptedTurn("", [ADD]), ScriptedTurn("Done.")]
        async with gemini_world(tmp_path, *turns) as world:
            await generate(world, "Add", method=method)
        _, first, responses, second, _ = world.model.requests[2]["contents"]
        assert [part.get("thoughtSignature") for part in first["parts"]] == [None, signature(1), None]
        assert [part.get("thoughtSignature") for part in second["parts"]] == [signature(2)]
        assert [part["functionResponse"]["id"] for part in responses["parts"]] == [
            "call_scripted_0001_0000",
            "call_scripted_0001_0001",
        ]


async def test_the_callers_own_calls_come_back_to_it(tmp_path: Path) -> None:
    for method in METHODS:
        async with gemini_world(tmp_path, ScriptedTurn("", [CLIENT_CALL])) as world:
            answer = await generate(world, "Ask", method=method, tools=[declare_tools()])
        responses = [answer.message] if method == GENERATE else events(answer)
        (call,) = [part["functionCall"] for part in parts(*responses) if "functionCall" in part]
        assert with_provider_ids(call) == {"id": "call_scripted_0001_0000", "name": "theirs", "args": {"q": 1}}
        assert responses[-1]["candidates"][0]["finishReason"] == "STOP"
        assert not world.called


async def test_the_gateways_functions_follow_those_of_the_caller_in_their_entry(tmp_path: Path) -> None:
    snake = {"function_declarations": [{"name": "theirs", "parameters_json_schema": {"type": "object"}}]}
    searching = {"includeServerSideToolInvocations": True}
    async with gemini_world(tmp_path, *[ScriptedTurn("Hi")] * 3) as world:
        await generate(world, "Hi", tools=[{"googleSearch": {}}, declare_tools()], toolConfig=searching)
        await generate(world, "Hi", tools=[snake])
        await generate(world, "Hi", tools=[{"googleSearch": {}}], toolConfig=searching)
    first, second, third = world.model.requests
    assert names(first) == [[], ["theirs", "demo__add", "demo__fail"]]
    functions = second["tools"][0]["function_declarations"]
    assert [each["name"] for each in functions] == ["theirs", "demo__add", "demo__fail"]
    assert functions[0] == snake["function_declarations"][0]
    assert names(third) == [[], ["demo__add", "demo__fail"]]


@pytest.mark.parametrize(
    "members",
    [
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"mcpServers": [{"name": "x", "streamableHttpTransport": {"url": "https://x"}}]}]},
        {"cachedContent": "cachedContents/x"},
        {"generationConfig": {"candidateCount": 2}},
        {"generation_config": {"response_modalities": ["TEXT", "IMAGE"]}},
        {"model": "script0/gemini-2.5-flash", "generationConfig": {"responseMimeType": "application/json"}},
        {"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}},
        {"fairlead": {"tools": "none"}},
        {"headers": {"x-fairlead-tools": "none"}},
    ],
)
async def test_tools_are_not_injected_where_the_provider_would_refuse_them(
    tmp_path: Path, members: dict[str, Any]
) -> None:
    for method in METHODS:
        async with gemini_world(tmp_path, ScriptedTurn("Hi")) as world:
            answer = await generate(world, "Hi", method=method, **dict(members))
        assert answer.status == 200
        assert world.model.requests[0].get("tools") == members.get("tools")


async def test_members_that_the_gateway_does_not_know_are_forwarded_unchanged(tmp_path: Path) -> None:
    odd: dict[str, Any] = {"x_vendor": {"z": 1.0, "a": [1e30, 12345678901234567890123]}}
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    async with gemini_world(tmp_path, ScriptedTurn("Hi")) as world:
        await generate(world, "Hi", **odd, safetySettings=safety, fairlead={"tags": []})
    sent = world.model.bodies[0]
    assert b'"z": 1.0' in sent
    assert b"12345678901234567890123" in sent
    assert world.model.requests[0]["safetySettings"] == safety
    assert "fairlead" not in world.model.requests[0]


async def test_a_forced_choice_holds_until_something_was_called(tmp_path: Path) -> None:
    forced = {"mode": "ANY", "allowedFunctionNames": ["demo__add"]}
    both = {"includeServerSideToolInvocations": True, "functionCallingConfig": forced}
    cases: list[tuple[dict[str, Any], str]] = [({"functionCallingConfig": forced}, "AUTO"), (both, "VALIDATED")]
    for config, later in cases:
        async with gemini_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
            await generate(world, "Add", toolConfig=config)
        assert modes(*world.model.requests) == ["ANY", later]


async def test_a_choice_that_forces_nothing_stays(tmp_path: Path) -> None:
    config = {
        "function_calling_config": {"mode": "VALIDATED", "allowed_function_names": ["demo__add"]},
        "retrievalConfig": {"languageCode": "de"},
    }
    async with gemini_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
        await generate(world, "Add", tool_config=config)
    assert [request["tool_config"] for request in world.model.requests] == [config, config]


async def test_the_rounds_of_one_request_are_bounded(tmp_path: Path) -> None:
    for method in METHODS:
        async with gemini_world(tmp_path, *[ScriptedTurn("", [ADD])] * 9, llm_rounds=3) as world:
            answer = await generate(world, "Add", method=method)
        assert answer.status == 200
        assert len(world.called) == 3
        assert modes(*world.model.requests) == [None, None, None, "NONE"]
        last = answer.message if method == GENERATE else events(answer)[-1]
        assert last["candidates"][0]["content"]["parts"] == [{"text": ""}]
        assert last["fairlead"]["stopped"] is True


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
async def test_an_unreadable_call_is_requested_once_more(tmp_path: Path, reason: str) -> None:
    bad = ScriptedTurn("", finish_reason=reason)
    forced = {"functionCallingConfig": {"mode": "ANY"}}
    for method in METHODS:
        async with gemini_world(tmp_path, bad, ScriptedTurn("", [ADD]), bad, ScriptedTurn("42")) as world:
            answer = await generate(world, "Add", method=method, toolConfig=forced)
        responses = [answer.message] if method == GENERATE else events(answer)
        assert text(*responses) == "42"
        assert responses[-1]["candidates"][0]["finishReason"] == "STOP"
        assert responses[-1]["usageMetadata"]["totalTokenCount"] == 110 * 3 + 120
        assert modes(*world.model.requests) == ["ANY", "ANY", "AUTO", "AUTO"]


async def test_a_call_that_is_unreadable_twice_is_the_answer(tmp_path: Path) -> None:
    bad = ScriptedTurn("", finish_reason="MALFORMED_FUNCTION_CALL")
    for method in METHODS:
        async with gemini_world(tmp_path, bad, bad) as world:
            answer = await generate(world, "Add", method=method)
        last = answer.message if method == GENERATE else events(answer)[-1]
        assert last["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL"
        assert len(world.model.requests) == 2


async def test_a_blocked_prompt_is_reported_as_by_the_provider(tmp_path: Path) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    for method in METHODS:
        turn = ScriptedTurn(whole=json.dumps(blocked), events=[json.dumps(blocked)])
        async with gemini_world(tmp_path, turn) as world:
            answer = await generate(world, "Hi", method=method)
        response = answer.message if method == GENERATE else events(answer)[-1]
        assert {name: response[name] for name in blocked} == blocked
        assert "candidates" not in response


async def test_a_stream_without_an_end_is_an_error(tmp_path: Path) -> None:
    members: dict[str, Any]
    for members in ({}, {"fairlead": {"tools": "none"}}):
        async with gemini_world(tmp_path, ScriptedTurn("Half a sen", cut=True)) as world:
            stream_events = events(await generate(world, "Hi", method=STREAM, **members))
        assert text(*stream_events[:-1]) == "Half a sen"
        assert stream_events[-1]["error"]["code"] == 502
        assert stream_events[-1]["error"]["details"][0]["reason"] == "bad_answer"


async def test_a_broken_later_round_is_reported_in_the_stream(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Wait.", [ADD]), ScriptedTurn("broken", status=500)) as world:
        stream_events = events(await generate(world, "Add", method=STREAM))
    assert text(*stream_events[:-1]) == "Wait."
    assert stream_events[-1] == {"error": {"code": 500, "message": "broken", "status": "INTERNAL"}}


async def test_a_conversation_that_the_window_does_not_hold_is_counted(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Hi"), windows={"scripted": 2_000}) as world:
        answer = await generate(world, "word " * 5000)
    assert "refused" in answer.message["fairlead"]["tools"]
    assert "tools" not in world.model.requests[0]


async def test_injected_definitions_are_the_same_bytes_in_every_request(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("", [ADD]), *[ScriptedTurn("Hi")] * 2) as world:
        await generate(world, "Add")
        await generate(world, "Hi", tools=[declare_tools()])
    tools = [body[body.index(b'{"name":"demo__add"') :].partition(b"]}]")[0] for body in world.model.bodies]
    assert len(tools) == 3
    assert len(set(tools)) == 1


@pytest.mark.parametrize("method", [GENERATE, STREAM])
@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
async def test_calls_of_an_answer_that_did_not_come_to_its_end_are_not_run(
    tmp_path: Path, reason: str, method: str
) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Half", [ADD], finish_reason=reason)) as world:
        answer = await generate(world, "Add", method=method)
        assert not world.called
    assert len(world.model.requests) == 1
    last = answer.message if method == GENERATE else events(answer)[-1]
    assert last["candidates"][0]["finishReason"] == reason
