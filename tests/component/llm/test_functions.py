"""Chat clients that send `functions`, the predecessor of `tools`: they get the gateway's tools and `function_call`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from familytalks import PROVIDERS
from gatewayworld import Answer
from llmworld import LlmWorld, chunks, llm_world
from toolservers import tool

ORDERS = tool("order", description="Order a thing", inputSchema={"type": "object", "properties": {}})
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
ORDER = ScriptedCall("demo__order", {})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
OTHER = ScriptedCall("theirs", {"q": 2})
DONE = ScriptedTurn("Done.")
OWN = {"name": "theirs", "description": "The caller's", "parameters": {"type": "object", "properties": {}}}
NOT_KEPT = "turn_not_kept"
providers = pytest.mark.parametrize("provider", PROVIDERS)
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def read_answer(answer: Answer, *, stream: bool) -> tuple[dict[str, Any], str, Mapping[str, Any]]:
    """Message, finish reason and member `fairlead` of an answer. Deltas are joined as clients join them."""
    assert answer.status == 200, answer.body
    if not stream:
        choice = answer.message["choices"][0]
        return choice["message"], choice["finish_reason"], answer.message.get("fairlead", {})
    received = chunks(answer)
    assert received[-1] == "[DONE]"
    message: dict[str, Any] = {"content": ""}
    reasons = []
    for chunk in received[:-1]:
        choice = chunk["choices"][0]
        message["content"] += choice["delta"].get("content") or ""
        for name, text in choice["delta"].get("function_call", {}).items():
            call = message.setdefault("function_call", {})
            call[name] = call.get(name, "") + text
        assert "tool_calls" not in choice["delta"]
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    (reason,) = reasons
    return {"role": "assistant", **message}, reason, received[-2].get("fairlead", {})


async def ask(
    world: LlmWorld, *messages: str | Mapping[str, Any], stream: bool, **members: Any
) -> tuple[dict[str, Any], str, Mapping[str, Any]]:
    answer = await world.chat(*messages, functions=[OWN], stream=stream, **members)
    return read_answer(answer, stream=stream)


def result(content: str | None = "mine") -> dict[str, Any]:
    return {"role": "function", "name": "theirs", "content": content}


def without_id(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as returned by a client that supports only two members of `function_call`."""
    call = {name: message["function_call"][name] for name in ("name", "arguments")}
    return {**message, "function_call": call}


@streams
@providers
async def test_a_request_with_functions_gets_the_gateways_tools(tmp_path: Path, provider: str, stream: bool) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("It is 42.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        message, reason, own = await ask(world, "What is 2 + 40?", stream=stream)
    assert (message["content"], reason) == ("It is 42.", "stop")
    assert "function_call" not in message
    assert [call["name"] for call in own["calls"]] == ["demo__add"]
    sent = json.dumps(world.model.requests[0])
    assert all(name in sent for name in ("demo__add", "theirs"))


@streams
@providers
async def test_a_call_of_a_function_comes_back_as_a_function_call(tmp_path: Path, provider: str, stream: bool) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Look.", [CLIENT_CALL]), DONE, provider=PROVIDERS[provider]) as world:
        message, reason, _ = await ask(world, "Hi", stream=stream)
        assert (message["function_call"]["name"], reason) == ("theirs", "function_call")
        assert json.loads(message["function_call"]["arguments"]) == {"q": 1}
        assert "tool_calls" not in message
        last, _, _ = await ask(world, "Hi", without_id(message), result(), stream=stream)
        assert last["content"] == "Done."
    sent = json.dumps(world.model.requests[-1])
    assert '"mine"' in sent
    assert "function_call_output" in sent or "function_call" not in sent


@streams
@providers
async def test_a_mixed_turn_of_functions_is_whole_again(tmp_path: Path, provider: str, stream: bool) -> None:
    turns = [ScriptedTurn("", [CLIENT_CALL]), ScriptedTurn("", [ORDER, CLIENT_CALL]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        first, _, _ = await ask(world, "Hi", stream=stream)
        second, _, own = await ask(world, "Hi", first, result(), stream=stream)
        assert [call["name"] for call in own["calls"]] == ["demo__order"]
        last, _, _ = await ask(world, "Hi", first, result(), second, result(), stream=stream)
        assert last["content"] == "Done."
        assert len(world.called) == 1
    sent = json.dumps(world.model.requests[-1])
    assert sent.count("demo__order") >= 2, "as a tool, and as a call"
    assert "_fl-" not in sent


@streams
@providers
async def test_the_callers_function_goes_first_where_no_id_comes_back(
    tmp_path: Path, provider: str, stream: bool
) -> None:
    mixed = ScriptedTurn("", [ORDER, CLIENT_CALL])
    async with llm_world(tmp_path, mixed, mixed, DONE, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        first, _, own = await ask(world, "Hi", stream=stream)
        assert NOT_KEPT in own["losses"]
        second, _, own = await ask(world, "Hi", without_id(first), result(), stream=stream)
        assert NOT_KEPT in own["losses"]
        assert not world.called
        last, _, _ = await ask(world, "Hi", without_id(first), result(), without_id(second), result(), stream=stream)
        assert last["content"] == "Done."


@streams
@providers
async def test_a_caller_with_functions_gets_the_first_of_two_calls(tmp_path: Path, provider: str, stream: bool) -> None:
    turns = [ScriptedTurn("", [CLIENT_CALL, ADD, OTHER]), DONE]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        message, _, own = await ask(world, "Hi", stream=stream)
        assert json.loads(message["function_call"]["arguments"]) == {"q": 1}
        assert [call["name"] for call in own["calls"]] == ["demo__add"]
        await ask(world, "Hi", message, result(), stream=stream)
    sent = json.dumps(world.model.requests[-1])
    assert "was not run in that turn" in sent
    assert all(text in sent for text in ('"mine"', "42"))


@providers
async def test_a_forced_function_is_a_forced_tool(tmp_path: Path, provider: str) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [CLIENT_CALL]), provider=PROVIDERS[provider]) as world:
        await ask(world, "Hi", stream=False, function_call={"name": "theirs"})
    request = world.model.requests[0]
    assert "theirs" in json.dumps(request.get("tool_choice") or request["toolConfig"])
    assert "function_call" not in request


@streams
async def test_functions_pass_unchanged_where_nothing_is_injected(tmp_path: Path, stream: bool) -> None:
    history = [{"role": "assistant", "content": None, "function_call": {"name": "theirs", "arguments": "{}"}}, result()]
    async with llm_world(tmp_path, ScriptedTurn("", [CLIENT_CALL]), provider=PROVIDERS["openai-chat"]) as world:
        message, reason, _ = await ask(
            world, "Hi", *history, stream=stream, function_call="auto", fairlead={"tools": "none"}
        )
    request = world.model.requests[0]
    assert (request["functions"], request["function_call"]) == ([OWN], "auto")
    assert request["messages"][1:] == history
    assert "tools" not in request
    assert (message["function_call"]["name"], reason) == ("theirs", "function_call")


async def test_a_history_of_functions_without_results_reaches_a_provider_of_tools(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "theirs", "arguments": "{}"}}
    async with llm_world(tmp_path, DONE, provider=PROVIDERS["openai-chat"]) as world:
        message, _, _ = await ask(world, "Hi", call, "Never mind.", call, result(None), stream=False)
    assert message["content"] == "Done."
    messages = world.model.requests[0]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "user", "assistant", "tool"]
    assert "was not sent" in messages[2]["content"]
    assert messages[5]["content"] == ""
    assert len({each["tool_call_id"] for each in messages if each["role"] == "tool"}) == 2
