"""What a client of a cascaded engine sends is bounded, whatever its servers do."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from cascadeworld import LOUD, cascade_world, speak
from fairlead_speech.cascaded.hearing import MOST_TURNS
from fairlead_speech.cascaded.input_buffer import MOST
from fairlead_speech.scripted.cascade import STT, ScriptedFault
from fairlead_speech.scripted.script import SpokenReply

LONG = base64.b64encode(b"\0\x10" * (4 << 20)).decode()
"""8 MiB of speech."""


async def test_a_turn_that_is_ended_for_room_leaves_none_for_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: bytes, __: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with cascade_world(tmp_path) as world, world.client() as client:
        monkeypatch.setattr(world.session.state.backends, "transcribed", silent)
        for number in (1, 2):
            await client.send("input_audio_buffer.append", audio=LONG)
            await client.send("input_audio_buffer.append", audio=LONG)
            errors = await client.until("error", number * 2 - 1)
            assert errors[-1]["error"]["code"] == "input_audio_buffer_full"
        buffer = world.session._buffer
        assert 0 < buffer.waiting + len(buffer) <= MOST


async def test_turns_that_wait_for_their_transcripts_are_so_many(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[STT].append(ScriptedFault(hangs=True))
        await client.update(audio={"input": {"turn_detection": None}})
        for _ in range(MOST_TURNS + 1):
            await client.send("input_audio_buffer.append", audio=LOUD)
            await client.send("input_audio_buffer.commit")
        (error,) = await client.until("error")
        assert error["error"]["code"] == "rate_limit_exceeded"
        assert len(client.of_type("input_audio_buffer.committed")) == MOST_TURNS
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        await client.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
        await speak(client)
        await client.until("error", 2)
        assert len(client.of_type("input_audio_buffer.cleared")) == 2, "what nobody can hear is not kept"
        assert len(world.backends.heard) == 1


async def test_a_turn_that_ends_while_another_is_heard_is_answered_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, words = asyncio.Event(), ["tell me", "and quickly"]

    async def held(_: bytes, __: str) -> str:
        await release.wait()
        return words.pop(0)

    async with cascade_world(tmp_path, SpokenReply("Well.")) as world, world.client() as client:
        monkeypatch.setattr(world.session.state.backends, "transcribed", held)
        await client.update(audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}})
        await speak(client)
        await speak(client)
        await client.until("input_audio_buffer.committed", 2)
        release.set()
        await client.until("response.done")
        (asked,) = world.backends.asked
        assert [each["content"] for each in asked["messages"]] == ["tell me", "and quickly"]
