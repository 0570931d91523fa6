"""Clients and providers of Bedrock's Converse: rounds, stored turns, errors, token counts, lists of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bedrockworld import COUNT, STREAM, answer_calls, bedrock_world, converse, declare_tools, events, final_message
from fairlead_formats.providers.bedrock.fake import BedrockApi
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import llm_world
from restworld import get

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
streams = pytest.mark.parametrize("method", ["converse", STREAM])
DENIED = "User: arn:aws:sts::123456789012:assumed-role/gateway is not authorized to perform: bedrock:InvokeModel"


def texts(message: Any) -> list[str]:
    return [block["text"] for block in message["content"] if "text" in block]


@streams
async def test_a_client_gets_one_answer_for_all_rounds(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("First.", [ADD], thoughts=["Hm."]), ScriptedTurn("It is 42.")]
    async with bedrock_world(tmp_path, *turns) as world:
        answer = await converse(world, "Add", method=method)
        message = final_message(answer, method == STREAM)
    assert texts(message) == ["First.", "It is 42."]
    second = world.model.requests[1]["messages"]
    assert second[1]["content"][0]["reasoningContent"]["reasoningText"]["text"] == "Hm."
    assert second[2]["content"][0]["toolResult"]["content"][0] == {"text": "42"}
    own = dict(events(answer))["metadata"]["fairlead"] if method == STREAM else answer.message["fairlead"]
    assert own["rounds"] == 2


@streams
async def test_a_mixed_turn_is_whole_again_with_its_reasoning(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [ADD, CLIENT_CALL], thoughts=["Hm."]), ScriptedTurn("Both.")]
    async with bedrock_world(tmp_path, *turns) as world:
        message = final_message(
            await converse(world, "Hi", method=method, toolConfig=declare_tools()), method == STREAM
        )
        assert [block["toolUse"]["name"] for block in message["content"] if "toolUse" in block] == ["theirs"]
        again = await converse(world, "Hi", message, answer_calls(message), method=method, toolConfig=declare_tools())
        assert texts(final_message(again, method == STREAM)) == ["Both."]
    messages = world.model.requests[1]["messages"]
    assert [next(iter(block)) for block in messages[1]["content"]] == ["reasoningContent", "toolUse", "toolUse"]
    results = [block["toolResult"]["content"][0]["text"] for block in messages[2]["content"]]
    assert results == ["42", "theirs said so"]


@streams
async def test_a_finished_turn_of_several_rounds_goes_back_without_foreign_reasoning(
    tmp_path: Path, method: str
) -> None:
    turns = [ScriptedTurn("One.", [ADD], thoughts=["Hm."]), ScriptedTurn("Two.", thoughts=["So."]), ScriptedTurn("3")]
    async with bedrock_world(tmp_path, *turns) as world:
        message = final_message(await converse(world, "Hi", method=method), method == STREAM)
        again = await converse(world, "Hi", message, "And?", method=method)
        assert texts(final_message(again, method == STREAM)) == ["3"]
    sent = world.model.requests[2]["messages"][1]["content"]
    assert [next(iter(block)) for block in sent] == ["reasoningContent", "text", "text"]


@streams
async def test_the_last_round_has_no_tools(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("Enough.")]
    async with bedrock_world(tmp_path, *turns, llm_rounds=1) as world:
        answer = await converse(world, "Hi", method=method)
        assert texts(final_message(answer, method == STREAM)) == ["Enough."]
    assert "toolConfig" in world.model.requests[0]
    assert "toolConfig" not in world.model.requests[1]
    assert "[call of demo__add" in world.model.requests[1]["messages"][1]["content"][0]["text"]


async def test_a_stream_that_ends_with_an_exception_is_one_for_the_client(tmp_path: Path) -> None:
    broken = {"modelStreamErrorException": {"message": "the model broke"}}
    turn = ScriptedTurn(events=[json.dumps({"messageStart": {"role": "assistant"}}), json.dumps(broken)])
    async with bedrock_world(tmp_path, turn) as world:
        received = events(await converse(world, "Hi", method=STREAM))
    assert received[-1] == (
        "modelStreamErrorException",
        {"__type": "ModelStreamErrorException", "message": "the model broke"},
    )


async def test_a_stream_that_is_cut_ends_with_an_exception(tmp_path: Path) -> None:
    async with bedrock_world(tmp_path, ScriptedTurn("Half", cut=True)) as world:
        name, error = events(await converse(world, "Hi", method=STREAM))[-1]
    assert (name, error["reason"]) == ("serviceUnavailableException", "bad_answer")


@pytest.mark.parametrize(
    ("turn", "status", "kind"),
    [
        (ScriptedTurn("slow down", status=429), 429, "ThrottlingException"),
        (ScriptedTurn("the model failed", status=424), 424, "ModelErrorException"),
        (ScriptedTurn("You don't have access to the model.", status=403), 403, "AccessDeniedException"),
        (ScriptedTurn(DENIED, status=403), 403, "UnrecognizedClientException"),
    ],
)
async def test_a_refusal_has_its_type_and_no_names_of_the_account(
    tmp_path: Path, turn: ScriptedTurn, status: int, kind: str
) -> None:
    async with bedrock_world(tmp_path, turn) as world:
        answer = await converse(world, "Hi")
    assert (answer.status, answer.message["__type"]) == (status, kind)
    assert (answer.message["message"] == turn.text) == (turn.text != DENIED)
    assert b"arn:" not in answer.body


@streams
async def test_a_refusal_in_a_later_round_has_no_names_of_the_account(tmp_path: Path, method: str) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn(DENIED, status=403)]
    async with bedrock_world(tmp_path, *turns) as world:
        answer = await converse(world, "Hi", method=method)
    assert b"refused the API key" in answer.body
    assert b"arn:" not in answer.body


async def test_a_route_continues_after_a_model_failed(tmp_path: Path) -> None:
    scripts = [[ScriptedTurn("the model failed", status=424)], [ScriptedTurn("Here.")]]
    async with llm_world(tmp_path, *scripts, providers=[{"kind": "bedrock"}, {}]) as world:
        answer = await converse(world, "Hi", model="fairlead/all")
        assert texts(final_message(answer, stream=False)) == ["Here."]


async def test_the_provider_counts_tokens_with_the_tools_that_a_request_gets(tmp_path: Path) -> None:
    async with bedrock_world(tmp_path) as world:
        answer = await converse(world, "Hi", method=COUNT)
    request = world.model.requests[0]
    names = [tool["toolSpec"]["name"] for tool in request["input"]["converse"]["toolConfig"]["tools"]]
    assert names == ["demo__add", "demo__fail"]
    assert answer.body == BedrockApi().count_tokens("/model/scripted/count-tokens", request)


async def test_a_count_of_another_provider_is_estimated(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        answer = await converse(world, "Hi", method=COUNT)
    assert answer.headers["x-fairlead-estimated"] == "true"
    assert answer.message["inputTokens"] > 0


async def test_models_are_listed_as_foundation_models(tmp_path: Path) -> None:
    async with bedrock_world(tmp_path) as world:
        listed = await get(world.gateway, "/foundation-models")
        single = await get(world.gateway, "/foundation-models/scripted")
        none = await get(world.gateway, "/foundation-models/nobody-has-it")
        other = await converse(world, "Hi", method="invoke")
    assert [model["modelId"] for model in listed.message["modelSummaries"]] == ["scripted", "fairlead/all"]
    assert single.message["modelDetails"]["modelId"] == "scripted"
    assert (none.status, none.message["__type"]) == (404, "ResourceNotFoundException")
    assert (other.status, other.message["__type"]) == (404, "ResourceNotFoundException")
