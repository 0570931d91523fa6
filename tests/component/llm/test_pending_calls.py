"""Calls that policies do not allow to run automatically (`autoRun`): the caller gets them, and runs or answers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Rules
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Answer, publish
from llmworld import LlmWorld, chunks, llm_world, policy, theirs
from provider_ids import with_provider_ids
from responsesworld import events, respond, responses_world
from restworld import post
from waiting import eventually

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
FAIL = ScriptedCall("demo__fail", {})
READ_ONLY = "policy default/careful has autoRun: ReadOnly, and the tool has no trusted readOnlyHint"
NONE = "policy default/careful has autoRun: None"


def names(answer: Answer) -> list[str]:
    return [call["function"]["name"] for call in answer.message["choices"][0]["message"].get("tool_calls", [])]


async def test_a_tool_that_only_reads_runs_by_itself_and_another_comes_back(tmp_path: Path) -> None:
    script = ScriptedTurn("", [ADD]), ScriptedTurn("", [FAIL])
    async with llm_world(tmp_path, *script, policies=[policy(auto_run="ReadOnly")]) as world:
        answer = await world.chat("Add, then fail")
    assert [each["name"] for each in world.called] == ["add"]
    assert len(world.model.requests[0]["tools"]) == 2, "both are offered"
    assert names(answer) == ["demo__fail"]
    assert answer.message["choices"][0]["finish_reason"] == "tool_calls"
    report = answer.message["fairlead"]
    pending = [{"id": "call_scripted_0002_0000", "name": "demo__fail", "reason": READ_ONLY}]
    assert with_provider_ids(report["pending"]) == pending
    assert [call["name"] for call in report["calls"]] == ["demo__add"]


async def test_a_stream_shows_a_pending_call_and_says_why(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), policies=[policy(auto_run="None")]) as world:
        stream_chunks = chunks(await world.chat("Add", stream=True))
    assert not world.called
    calls = [call for chunk in stream_chunks[:-1] for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "demo__add"
    assert stream_chunks[-2]["fairlead"]["pending"] == [{"id": calls[0]["id"], "name": "demo__add", "reason": NONE}]


async def test_the_caller_runs_a_pending_call_and_continues(tmp_path: Path) -> None:
    script = ScriptedTurn("", [ADD]), ScriptedTurn("It is 42.")
    async with llm_world(tmp_path, *script, policies=[policy(auto_run="None")]) as world:
        question = {"role": "user", "content": "Add"}
        first = (await world.chat(question)).message["choices"][0]["message"]
        ran = await post(world.gateway, "/v1/tool-calls", {"format": "openai-chat", "message": first})
        assert [each["name"] for each in world.called] == ["add"]
        last = await world.chat(question, first, *ran.message["messages"])
    assert last.message["choices"][0]["message"]["content"] == "It is 42."
    assert "pending" not in last.message["fairlead"]
    assert world.model.requests[1]["messages"][-1]["content"] == "42"


async def test_of_a_mixed_message_the_rest_is_run_and_stands_beside_what_the_caller_says(tmp_path: Path) -> None:
    script = ScriptedTurn("", [ADD, FAIL, ScriptedCall("theirs")]), ScriptedTurn("Done.")
    async with llm_world(tmp_path, *script, policies=[policy(auto_run="ReadOnly")]) as world:
        question = {"role": "user", "content": "Do it all"}
        answer = await world.chat(question, tools=[theirs()])
        assert names(answer) == ["demo__fail", "theirs"]
        assert [each["name"] for each in answer.message["fairlead"]["pending"]] == ["demo__fail"]
        message = answer.message["choices"][0]["message"]
        refused: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": call["id"], "content": "The user does not want that."}
            for call in message["tool_calls"]
        ]
        await world.chat(question, message, *refused, tools=[theirs()])
    results = {each["tool_call_id"]: each["content"] for each in world.model.requests[1]["messages"][2:]}
    assert sorted(results.values()) == ["42", "The user does not want that.", "The user does not want that."]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_policy_that_comes_while_the_model_thinks_holds_for_what_it_calls(
    tmp_path: Path, *, stream: bool
) -> None:
    worlds: list[LlmWorld] = []

    async def end_auto_run() -> None:
        if worlds[0].model.requests:
            return
        publish(tmp_path / "documents", Rules(policies=(policy(auto_run="None"),)))
        await eventually(lambda: worlds[0].gateway.endpoint.selection.policies.enforced)

    script = ScriptedTurn("", [ADD]), ScriptedTurn("I could not.")
    async with llm_world(tmp_path, *script, before_answer=end_auto_run) as world:
        worlds.append(world)
        answer = await world.chat("Add", stream=stream)
    assert not world.called
    assert answer.status == 200
    assert NONE in world.model.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("approve", [False, True])
async def test_a_pending_call_of_responses_waits_for_an_approval(
    tmp_path: Path, *, approve: bool, stream: bool
) -> None:
    script = ScriptedTurn("", [ADD]), ScriptedTurn("So be it.")
    async with responses_world(tmp_path, *script, policies=[policy(auto_run="None")]) as world:
        first = await respond(world, "Add", stream=stream)
        response = events(first)[-1]["response"] if stream else first.message
        approval = response["output"][-1]
        assert (approval["type"], approval["name"], world.called) == ("mcp_approval_request", "demo__add", [])
        answer = {"type": "mcp_approval_response", "approval_request_id": approval["id"], "approve": approve}
        last = await respond(world, [answer], previous_response_id=response["id"])
    assert last.status == 200, last.body
    outputs = [item for item in world.model.requests[1]["input"] if item.get("type") == "function_call_output"]
    assert len(outputs) == 1
    assert [each["name"] for each in world.called] == ["add"] * approve
    assert (outputs[0]["output"] == "42") == approve
