"""Calls of tools that search found and that policies do not allow to run automatically: the caller gets them under the
tools' own names, not as calls of `execute_tool`, as with listed tools.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anthropicworld import final_message as message_said
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from geminiworld import GENERATE, STREAM, gemini_world, generate, parts, respond_to
from geminiworld import events as responses_of
from llmworld import ANTHROPIC, chunks, llm_world, policy, theirs
from responsesworld import events, respond, responses_world
from restworld import post

ARGUMENTS = {"a": 2, "b": 40}
HELD = ScriptedCall("execute_tool", {"name": "demo__fail", "arguments": ARGUMENTS})
RUNS = ScriptedCall("execute_tool", {"name": "demo__add", "arguments": ARGUMENTS})
REASON = "policy default/careful has autoRun: ReadOnly, and the tool has no trusted readOnlyHint"
SEARCH: dict[str, Any] = {"fairlead": {"tools": "search"}}
CAREFUL: dict[str, Any] = {"policies": [policy(auto_run="ReadOnly")]}
SCRIPT = ScriptedTurn("Look.", [HELD]), ScriptedTurn("Done.")


async def test_the_caller_of_chat_runs_the_pending_call_and_continues(tmp_path: Path) -> None:
    async with llm_world(tmp_path, *SCRIPT, **CAREFUL) as world:
        question = {"role": "user", "content": "Try"}
        answer = (await world.chat(question, **SEARCH)).message
        choice = answer["choices"][0]
        (call,) = choice["message"]["tool_calls"]
        assert (call["function"]["name"], choice["finish_reason"]) == ("demo__fail", "tool_calls")
        assert call["function"]["arguments"] == '{"a":2,"b":40}'
        assert answer["fairlead"]["pending"] == [{"id": call["id"], "name": "demo__fail", "reason": REASON}]
        assert not world.called
        ran = await post(world.gateway, "/v1/tool-calls", {"format": "openai-chat", "message": choice["message"]})
        assert [each["name"] for each in world.called] == ["fail"]
        last = await world.chat(question, choice["message"], *ran.message["messages"], **SEARCH)
    assert last.message["choices"][0]["message"]["content"] == "Done."
    assert "it failed" in world.model.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("provider", [{}, ANTHROPIC])
async def test_a_stream_of_chat_has_the_pending_call_whole_behind_the_text(
    tmp_path: Path, provider: dict[str, Any]
) -> None:
    async with llm_world(tmp_path, *SCRIPT, provider=provider, **CAREFUL) as world:
        stream_chunks = chunks(await world.chat("Try", stream=True, **SEARCH))
    assert not world.called
    choices = [chunk["choices"][0] for chunk in stream_chunks[:-1] if chunk["choices"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
    assert [call["function"]["name"] for call in calls if "id" in call] == ["demo__fail"]
    assert "".join(call["function"].get("arguments", "") for call in calls) == '{"a":2,"b":40}'
    assert choices[-1]["finish_reason"] == "tool_calls"
    reports = [chunk["fairlead"] for chunk in stream_chunks[:-1] if "fairlead" in chunk]
    assert [each["name"] for each in reports[0]["pending"]] == ["demo__fail"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", [ANTHROPIC, {"responses": True}, {"kind": "gemini"}])
async def test_messages_have_a_pending_call_as_a_block_and_take_its_result(
    tmp_path: Path, provider: dict[str, Any], stream: bool
) -> None:
    async with llm_world(tmp_path, *SCRIPT, provider=provider, **CAREFUL) as world:
        message = message_said(await world.messages("Try", stream=stream, **SEARCH), stream)
        text, call = message["content"]
        assert (text["text"], call["type"], call["name"], call["input"]) == (
            "Look.",
            "tool_use",
            "demo__fail",
            ARGUMENTS,
        )
        assert message["stop_reason"] == "tool_use"
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "no"}
        back = {"role": "assistant", "content": message["content"]}
        last = await world.messages("Try", back, {"role": "user", "content": [result]}, **SEARCH)
    assert last.status == 200, last.body
    assert not world.called


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_ask_for_the_approval_of_a_pending_call_and_run_it_then(tmp_path: Path, stream: bool) -> None:
    async with responses_world(tmp_path, *SCRIPT, **CAREFUL) as world:
        first = await respond(world, "Try", stream=stream, **SEARCH)
        response = events(first)[-1]["response"] if stream else first.message
        approval = response["output"][-1]
        assert (approval["type"], approval["name"], approval["arguments"]) == (
            "mcp_approval_request",
            "demo__fail",
            '{"a":2,"b":40}',
        )
        if stream:
            added = [each for each in events(first) if each["type"] == "response.output_item.added"]
            assert [each["output_index"] for each in added] == [*range(len(response["output"]))]
        assert not world.called
        answer = {"type": "mcp_approval_response", "approval_request_id": approval["id"], "approve": True}
        last = await respond(world, [answer], previous_response_id=response["id"], **SEARCH)
    assert last.status == 200, last.body
    assert [each["name"] for each in world.called] == ["fail"]


@pytest.mark.parametrize("method", [GENERATE, STREAM])
async def test_gemini_has_a_pending_call_as_a_part_and_takes_its_response(tmp_path: Path, method: str) -> None:
    async with gemini_world(tmp_path, *SCRIPT, **CAREFUL) as world:
        answer = await generate(world, "Try", method=method, **SEARCH)
        answered_parts = parts(*(responses_of(answer) if method == STREAM else [answer.message]))
        (call,) = [part for part in answered_parts if "functionCall" in part]
        assert (call["functionCall"]["name"], call["functionCall"]["args"]) == ("demo__fail", ARGUMENTS)
        last = await generate(world, "Try", {"role": "model", "parts": answered_parts}, respond_to(call), **SEARCH)
    assert last.status == 200, last.body
    assert not world.called


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_that_may_run_run_beside_a_pending_one_and_their_results_wait(tmp_path: Path, stream: bool) -> None:
    both = ScriptedTurn("Look.", [RUNS, HELD])
    async with llm_world(tmp_path, both, ScriptedTurn("Done."), provider=ANTHROPIC, **CAREFUL) as world:
        message = message_said(await world.messages("Try", stream=stream, **SEARCH), stream)
        assert [each["name"] for each in world.called] == ["add"]
        (call,) = [block for block in message["content"] if block["type"] == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "The user does not want that."}
        back = {"role": "assistant", "content": message["content"]}
        last = await world.messages("Try", back, {"role": "user", "content": [result]}, **SEARCH)
    assert last.status == 200, last.body
    _, called, results = world.model.requests[1]["messages"]
    assert [block["name"] for block in called["content"][1:]] == ["execute_tool", "demo__fail"]
    assert len(results["content"]) == 2


async def test_a_call_by_the_tools_own_name_waits_too(tmp_path: Path) -> None:
    by_name = ScriptedTurn("", [ScriptedCall("demo__fail", {})])
    async with llm_world(tmp_path, by_name, **CAREFUL) as world:
        answer = await world.chat("Try", **SEARCH)
    assert [each["name"] for each in answer.message["fairlead"]["pending"]] == ["demo__fail"]
    assert not world.called


async def test_a_held_tool_named_like_one_of_the_callers_is_refused_to_the_model(tmp_path: Path) -> None:
    async with llm_world(tmp_path, *SCRIPT, **CAREFUL) as world:
        await world.chat("Try", tools=[theirs("demo__fail")], **SEARCH)
    assert not world.called
    assert "autoRun: ReadOnly" in world.model.requests[1]["messages"][-1]["content"]
