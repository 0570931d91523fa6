"""Limits on the messages of a cascaded engine's client, whatever its servers do."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from cascadeworld import LOUD, MODEL, CascadeWorld, cascade_world, speak
from fairlead_speech.cascaded.fake import LLM, STT, ScriptedFault
from fairlead_speech.cascaded.input_audio import MAX_BYTES
from fairlead_speech.cascaded.transcription import MAX_TURNS
from fairlead_speech.scripted import SpokenCall, SpokenReply
from fairlead_speech.session import SpeechBounds

LONG = base64.b64encode(b"\0\x10" * (4 << 20)).decode()
"""8 MiB of speech."""


async def test_a_turn_that_is_ended_for_room_leaves_none_for_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: bytes, __: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with cascade_world(tmp_path) as world, world.client() as client:
        monkeypatch.setattr(world.session.state.backends, "transcribe", silent)
        for number in (1, 2):
            await client.send("input_audio_buffer.append", audio=LONG)
            await client.send("input_audio_buffer.append", audio=LONG)
            errors = await client.until("error", number * 2 - 1)
            assert errors[-1]["error"]["code"] == "input_audio_buffer_full"
        buffer = world.session._buffer
        assert 0 < buffer.transcribing_bytes + len(buffer) <= MAX_BYTES


async def test_the_number_of_turns_that_wait_for_transcripts_is_bounded(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[STT].append(ScriptedFault(hangs=True))
        await client.update(audio={"input": {"turn_detection": None}})
        for _ in range(MAX_TURNS + 1):
            await client.send("input_audio_buffer.append", audio=LOUD)
            await client.send("input_audio_buffer.commit")
        (error,) = await client.until("error")
        assert error["error"]["code"] == "rate_limit_exceeded"
        assert len(client.of_type("input_audio_buffer.committed")) == MAX_TURNS
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        await client.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
        await speak(client)
        await client.until("error", 2)
        assert len(client.of_type("input_audio_buffer.cleared")) == 2, "what nobody can hear is not kept"
        assert len(world.backends.transcription_requests) == 1


async def test_a_turn_that_ends_while_another_is_transcribed_is_answered_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["tell me", "and quickly"]
    releases = {word: asyncio.Event() for word in words}

    async def wait_for_release(_: bytes, __: str) -> str:
        word = words.pop(0)
        await releases[word].wait()
        return word

    async with cascade_world(tmp_path, SpokenReply("Well.")) as world, world.client() as client:
        monkeypatch.setattr(world.session.state.backends, "transcribe", wait_for_release)
        await client.update(audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}})
        await speak(client)
        await client.until("input_audio_buffer.committed")
        await speak(client)
        await client.until("input_audio_buffer.committed", 2)
        releases["tell me"].set()
        await client.until("conversation.item.input_audio_transcription.completed")
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")  # time for an answer to begin
        assert client.of_type("response.created") == []
        releases["and quickly"].set()
        await client.until("response.done")
        (request,) = world.backends.requests
        assert [each["content"] for each in request["messages"]] == ["tell me", "and quickly"]


def counted_tokens(world: CascadeWorld) -> tuple[int, int]:
    """Tokens of the day that are counted for the agent."""
    assert world.gateway._speech is not None
    models = world.gateway._speech._records.metrics.models
    return models["voice", MODEL].input.total, models["voice", MODEL].output.total


def text_message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_an_answer_that_is_cancelled_before_its_usage_counts_by_an_estimate(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[LLM].append(ScriptedFault(hangs=True))
        await client.send("conversation.item.create", item=text_message("word " * 1000))
        await client.send("response.create")
        await world.backends.until(LLM, 1)
        await client.send("response.cancel")
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "cancelled"
        read, output_tokens = counted_tokens(world)
        assert 1250 < read < 2000
        assert output_tokens == 0


async def test_an_answer_that_breaks_off_counts_with_what_was_said(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[LLM].append(ScriptedFault(cut=True))
        await client.send("conversation.item.create", item=text_message("Hi"))
        await client.send("response.create")
        await client.until("response.done")
        read, output_tokens = counted_tokens(world)
        assert read > 10
        assert output_tokens == len("Half an ") // 4


async def test_a_request_that_the_model_refuses_counts_for_nothing(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[LLM].append(ScriptedFault(status=400))
        await client.send("conversation.item.create", item=text_message("Hi"))
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert done["response"]["usage"]["total_tokens"] == 0


async def test_a_response_that_takes_too_long_as_a_whole_fails(tmp_path: Path) -> None:
    bounds = SpeechBounds(response_seconds=0.0)
    async with cascade_world(tmp_path, bounds=bounds) as world, world.client() as client:
        world.backends.faults[LLM].append(ScriptedFault(hangs=True))
        await client.send("conversation.item.create", item=text_message("Hi"))
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"]["error"]["code"] == "response_timeout"


async def test_a_session_ends_at_the_time_that_was_announced_to_its_client(tmp_path: Path) -> None:
    bounds = SpeechBounds(session_seconds=0.0)
    async with cascade_world(tmp_path, bounds=bounds) as world, world.client(ready=False) as client:
        code, reason = await client.end()
        assert (code, reason) == (1001, "the session has ended after its maximum of 60 minutes: open another one")
        assert client.of_type("error")[-1]["error"]["code"] == "session_expired"


async def test_instructions_and_input_of_one_response_are_bounded(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        item = {**text_message("x" * 1000), "id": "item_x"}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create", response={"instructions": "x" * (1 << 20)})
        reference = {"type": "item_reference", "id": "item_x"}
        await client.send("response.create", response={"conversation": "none", "input": [reference] * 2})
        errors = await client.until("error", 2)
        assert [each["error"]["code"] for each in errors] == ["string_above_max_length", "invalid_value"]
        assert world.backends.requests == []


async def test_results_that_are_too_long_are_cut_and_lose_neither_calls_nor_question(tmp_path: Path) -> None:
    async def look(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "word " * 250_000}]}

    calls = tuple(SpokenCall("demo__look", {"number": each}, f"call_{each}") for each in range(8))
    tool = {"name": "look", "description": "Look", "inputSchema": {"type": "object"}}
    replies = SpokenReply("", calls), SpokenReply("So much.")
    async with (
        cascade_world(tmp_path, *replies, tools=[tool], answer=look) as world,
        world.client() as client,
    ):
        await client.send("conversation.item.create", item=text_message("Look"))
        await client.send("response.create")
        _, done = await client.until("response.done", 2)
        assert done["response"]["status"] == "completed"
        question, _, *results = world.backends.requests[1]["messages"]
        assert question["content"] == "Look"
        assert len(results) == len(calls)
        assert {len(each["content"]) for each in results} == {(64 << 10) - 2}, "with its quotes"
        assert {each["content"][-9:] for each in results} == {"too long)"}
