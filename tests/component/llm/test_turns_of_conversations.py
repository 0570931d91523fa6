"""A stored turn belongs to one conversation, whatever call ids its provider uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.neutral.conversation import MessageTurn, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from familytalks import PROVIDERS, parse_answer, post_request, with_results
from llmworld import LlmWorld, chunks, llm_world, theirs

KIMI = "functions.theirs:1"
"""Call id in the form of Kimi K2, which vLLM and SGLang pass on."""


def user(text: str) -> MessageTurn:
    return MessageTurn("user", (TextPart(text),))


def mixed_turn(a: int, ident: str) -> ScriptedTurn:
    return ScriptedTurn("", [ScriptedCall("demo__add", {"a": a, "b": 0}, "call_0"), ScriptedCall("theirs", {}, ident)])


def shown_id(answer: Any, *, stream: bool) -> str:
    if not stream:
        return str(answer.message["choices"][0]["message"]["tool_calls"][0]["id"])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(answer)[:-1]]
    return next(str(call["id"]) for delta in deltas for call in delta.get("tool_calls", ()) if "id" in call)


async def come_back(world: LlmWorld, ident: str) -> list[dict[str, Any]]:
    """Send the result of the caller's call `ident`. Returns the messages that the model gets."""
    call = {"id": ident, "type": "function", "function": {"name": "theirs", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    await world.chat("Hello", message, {"role": "tool", "tool_call_id": ident, "content": "mine"}, tools=[theirs()])
    sent: list[dict[str, Any]] = world.model.requests[-1]["messages"]
    return sent


@pytest.mark.parametrize("ident", ["call_1", KIMI])
@pytest.mark.parametrize("stream", [False, True])
async def test_two_conversations_that_begin_alike_get_their_own_results(
    tmp_path: Path, stream: bool, ident: str
) -> None:
    turns = [mixed_turn(1, ident), mixed_turn(2, ident), ScriptedTurn("Done."), ScriptedTurn("Done.")]
    async with llm_world(tmp_path, *turns) as world:
        first = shown_id(await world.chat("Hello", tools=[theirs()], stream=stream), stream=stream)
        second = shown_id(await world.chat("Hello", tools=[theirs()], stream=stream), stream=stream)
        results = [[each["content"] for each in (await come_back(world, each_id))[2:]] for each_id in (first, second)]
        assert len(world.called) == 2, "no tool ran a second time"
    assert results == [["1", "mine"], ["2", "mine"]]


@pytest.mark.parametrize("ident", ["call_1", KIMI])
async def test_a_history_that_somebody_made_up_finds_no_kept_turn(tmp_path: Path, ident: str) -> None:
    async with llm_world(tmp_path, mixed_turn(1, ident), ScriptedTurn("Done.")) as world:
        await world.chat("Hello", tools=[theirs()])
        sent = await come_back(world, ident)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert "demo__add" not in json.dumps(sent)


@pytest.mark.parametrize("ident", ["call_1", KIMI, "Ab3dEf9hJ"])
async def test_the_provider_gets_its_own_ids(tmp_path: Path, ident: str) -> None:
    async with llm_world(tmp_path, mixed_turn(1, ident), ScriptedTurn("Done.")) as world:
        shown = shown_id(await world.chat("Hello", tools=[theirs()]), stream=False)
        sent = await come_back(world, shown)
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["call_0", ident]
    assert [message["tool_call_id"] for message in sent[2:]] == ["call_0", ident]


@pytest.mark.parametrize("front", FAMILIES)
async def test_a_turn_is_whole_again_though_the_conversation_before_it_was_rewritten(
    tmp_path: Path, front: str
) -> None:
    turns = [ScriptedTurn("", [ScriptedCall("demo__add", {"a": 2, "b": 40}), ScriptedCall("theirs", {})])]
    provider = PROVIDERS["anthropic" if front != "anthropic" else "openai-chat"]
    async with llm_world(tmp_path, *turns, ScriptedTurn("Done."), provider=provider) as world:
        _, calls, _ = parse_answer(
            await post_request(world, front, user("Hello at 10:01"), user("Add")), front, stream=False
        )
        await post_request(world, front, user("Hello at 10:02"), *with_results(calls))
        assert len(world.called) == 1
    sent = json.dumps(world.model.requests[1])
    assert "10:02" in sent
    assert "10:01" not in sent
    assert '"42"' in sent
