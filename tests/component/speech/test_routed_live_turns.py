"""Slow turns of a Gemini Live session are answered by a cascaded engine, and nothing is said twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_speech.scripted.cascade import LLM, STT, ScriptedFault
from fairlead_speech.scripted.script import SpokenCall, SpokenReply
from liveworld import BLOCKS, NEW, OLD, own_function
from routedlive import ENDS, VOICE, routed_live_world, speak
from routedturns import CALL, DEEP
from waiting import eventually

MODELS = pytest.mark.parametrize("model", [NEW, OLD])


async def look(_: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "long ago"}]}


@MODELS
async def test_a_slow_turn_of_speech_is_answered_by_the_engine_and_handed_back(tmp_path: Path, model: str) -> None:
    replies = SpokenReply("", (CALL,)), SpokenReply("The crown is lost.")
    spoken = SpokenReply("Good morning."), SpokenReply("You are welcome.")
    heard = "good morning", "tell me the legend", "thanks"
    async with (
        routed_live_world(tmp_path, *replies, spoken=spoken, heard=heard, model=model, answer=look, **DEEP) as world,
        world.client() as client,
    ):
        for number in range(3):
            await speak(client)
            await client.turns(number + 1)
        assert client.said() == "Good morning. The crown is lost.You are welcome. ", "each turn has one answer"
        assert len(client.audio()) == 1920 * 9, "no sample is lost, none comes twice"
        assert b"".join(world.session.heard) == (VOICE + ENDS) * 2, "the turns that it answers, and no other"
        assert world.contents == [("user", "tell me the legend"), ("model", "The crown is lost.")]
        assert world.asked[:3] == [
            ("user", "good morning"),
            ("assistant", "Good morning."),
            ("user", "tell me the legend"),
        ]
        assert world.asked[-1] == ("tool", "long ago")
        assert [piece["text"] for piece in client.content("inputTranscription")][-2:] != []
        assert "".join(piece["text"] for piece in client.content("inputTranscription")).count("legend") == 1
        assert world.metrics.routed == {"ok": 1}
        assert b"call_1" not in b"\n".join(client.frames)
