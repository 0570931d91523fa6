"""Anthropic's own client gets the same final message with the gateway in between as without it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from anthropic_transcripts import START, TRANSCRIPTS
from anthropicworld import ADD, CLIENT_CALL, CLIENT_TOOL
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import ANTHROPIC, llm_world
from provider_ids import with_provider_ids
from transcripts import with_and_without, without_marks

anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed (fairlead[dev])")


def sdk_client(stream: bool, **members: Any) -> Callable[[str], Awaitable[Any]]:
    """A client that returns its final message, or the exception that it raises."""

    async def ask(base: str) -> Any:
        async with anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=0) as client:
            messages = [{"role": "user", "content": "Hi"}]
            options = {"model": "scripted", "max_tokens": 1024, "messages": messages, "tools": [CLIENT_TOOL], **members}
            try:
                if not stream:
                    return with_provider_ids((await client.messages.create(**options)).to_dict(warnings=False))
                async with client.messages.stream(**options) as events:
                    return with_provider_ids((await events.get_final_message()).to_dict(warnings=False))
            except anthropic.APIStatusError as error:
                return type(error).__name__, error.status_code, error.body, error.request_id

    return ask


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_stream_of_one_round_is_the_same_with_the_gateway_and_without(tmp_path: Path, name: str) -> None:
    bare, ours = await with_and_without(tmp_path, [TRANSCRIPTS[name]], sdk_client(True), provider=ANTHROPIC)
    assert ours == bare
    assert bare


WHOLE = {
    "text": ScriptedTurn("Gr\u00fc\u00dfe \U0001faa2"),
    "thoughts and calls": ScriptedTurn("Both.", [CLIENT_CALL, CLIENT_CALL], thoughts=["Hm.", "Oh."]),
    "a refusal": ScriptedTurn("No", finish_reason="refusal"),
    "blocks that nobody knows": ScriptedTurn(
        whole=json.dumps({**START["message"], "content": [{"type": "hologram", "beams": [1.0]}], "x": 1})  # type: ignore[dict-item] # a message
    ),
    "an error": ScriptedTurn("overloaded", status=529),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_answer_is_the_same_with_the_gateway_and_without(tmp_path: Path, name: str) -> None:
    bare, ours = await with_and_without(tmp_path, [WHOLE[name]], sdk_client(False), provider=ANTHROPIC)
    if isinstance(ours, dict):
        assert ours.pop("fairlead")["rounds"] == 1
    assert ours == bare


@pytest.mark.parametrize("broken", [ScriptedTurn("Half", breaks=True), ScriptedTurn("Half", cut=True)])
async def test_a_stream_that_breaks_off_is_raised_by_the_client(tmp_path: Path, broken: ScriptedTurn) -> None:
    async with llm_world(tmp_path, broken, provider=ANTHROPIC) as world:
        name, status, body, _ = await sdk_client(True)(f"http://127.0.0.1:{world.gateway.port}")
    assert (name, status) == ("APIStatusError", 200)
    assert body["error"]["type"] == "api_error"


ROUNDS: dict[str, Sequence[ScriptedTurn]] = {
    "one call": [ScriptedTurn("", [ADD]), ScriptedTurn("42")],
    "text in every round": [ScriptedTurn("First.", [ADD]), ScriptedTurn("Second.", [ADD]), ScriptedTurn("Third.")],
    "parallel calls": [ScriptedTurn("", [ADD, ADD]), ScriptedTurn("84")],
    "thoughts in every round": [
        ScriptedTurn("", [ADD], thoughts=["One."]),
        ScriptedTurn("", [ADD], thoughts=["Two.", "Three."]),
        ScriptedTurn("Four.", thoughts=["Four?"]),
    ],
    "ours, then the caller's": [ScriptedTurn("", [ADD]), ScriptedTurn("Yours.", [CLIENT_CALL])],
    "ours and the caller's at once": [ScriptedTurn("Both.", [CLIENT_CALL, ADD, ScriptedCall("theirs", {"q": 2})])],
    "ours, then nothing": [ScriptedTurn("", [ADD]), ScriptedTurn("")],
    "cut in a later round": [ScriptedTurn("", [ADD]), ScriptedTurn("Half", finish_reason="max_tokens")],
}


@pytest.mark.parametrize("shows", [False, True])
@pytest.mark.parametrize("name", ROUNDS)
async def test_a_stream_of_several_rounds_is_the_whole_answer(tmp_path: Path, name: str, shows: bool) -> None:
    answers = []
    ran = 0
    for stream in (True, False):
        async with llm_world(tmp_path, *ROUNDS[name], provider=ANTHROPIC) as world:
            options = {"extra_body": {"fairlead": {"showCalls": shows}}}
            answer = await sdk_client(stream, **options)(f"http://127.0.0.1:{world.gateway.port}")
            answers.append(json.loads(without_marks(json.dumps(answer))))
            ran = len(world.called)
    streamed, whole = answers
    assert len(whole.pop("fairlead")["calls"]) == ran
    assert streamed == whole
    shown = [each for each in whole["content"] if each["type"] == "mcp_tool_use"]
    assert len(shown) == (ran if shows else 0)


async def test_the_report_is_in_the_last_event_that_can_hold_it(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42"), provider=ANTHROPIC) as world:
        base = f"http://127.0.0.1:{world.gateway.port}"
        messages = [{"role": "user", "content": "Hi"}]
        client = anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=0)
        async with client, client.messages.stream(model="scripted", max_tokens=9, messages=messages) as events:
            told = [each.to_dict() async for each in events if each.type == "message_delta"]
    assert told[0]["fairlead"]["calls"][0]["name"] == "demo__add"


async def test_a_clients_own_retries_see_the_providers_status(tmp_path: Path) -> None:
    turns = [ScriptedTurn("later", status=429, headers={"retry-after": "0"}), ScriptedTurn("Hi")]
    async with llm_world(tmp_path, *turns, provider=ANTHROPIC) as world:
        base = f"http://127.0.0.1:{world.gateway.port}"
        async with anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=1) as client:
            messages = [{"role": "user", "content": "Hi"}]
            answer = await client.messages.create(model="scripted", max_tokens=9, messages=messages)
            counted = await client.messages.count_tokens(model="scripted", messages=messages)
    assert answer.content[0].text == "Hi"
    assert counted.input_tokens > 0
