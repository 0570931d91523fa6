"""A filler phrase is spoken once before an answer that takes longer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cascadeworld import cascade_world, speak
from fairlead_api.documents.rules import Tier
from fairlead_speech.cascaded.fake import LLM, TTS, ScriptedFault
from fairlead_speech.scripted import SpokenCall, SpokenReply
from speechworld import RealtimeClient
from waiting import eventually

ADD = SpokenCall("demo__wait", {}, "call_1")
WAIT = {"name": "wait", "description": "Wait", "inputSchema": {"type": "object"}}
PHRASE = "Let me think."
FAST = Tier(name="fast", max_latency_ms=500, default=True)
DEEP = Tier(name="deep", max_latency_ms=4000)
IN_DEEP = "model=assistant&x-fairlead-tier=deep"


def transcripts(client: RealtimeClient) -> list[str]:
    return [each["transcript"] for each in client.of_type("response.output_audio_transcript.done")]


async def test_a_phrase_is_spoken_while_a_tool_runs_and_the_answer_follows(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def wait(_: Any) -> dict[str, Any]:
        await release.wait()
        return {"content": [{"type": "text", "text": "now"}]}

    again = SpokenCall("demo__wait", {}, "call_2")
    replies = SpokenReply("", (ADD,)), SpokenReply("", (again,)), SpokenReply("Now it is.")
    async with (
        cascade_world(tmp_path, *replies, heard=["when"], engine={"filler": {}}, tools=[WAIT], answer=wait) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.until("response.done")
        assert transcripts(client) == [PHRASE]
        assert client.of_type("response.output_audio.delta")
        release.set()
        await client.until("response.output_audio_transcript.done", 2)
        assert transcripts(client) == [PHRASE, "Now it is."], "not again for the second call of the turn"
        assert PHRASE not in str(world.backends.requests), "the model does not see it"
        assert world.metrics.fillers["cascaded"] == 1


async def test_a_filler_is_spoken_in_a_slow_tier_before_the_model_has_answered(tmp_path: Path) -> None:
    async with (
        cascade_world(tmp_path, heard=["when"], engine={"filler": {}}, tiers=[FAST, DEEP]) as world,
        world.client(IN_DEEP) as client,
    ):
        world.backends.faults[LLM].append(ScriptedFault(hangs=True))
        await speak(client)
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        (done,) = await client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == PHRASE


@pytest.mark.parametrize(
    ("filler", "query"), [(None, IN_DEEP), ({"fromTier": "none"}, IN_DEEP), ({}, "model=assistant")]
)
async def test_a_filler_is_not_spoken_if_it_is_off_or_the_answer_is_quick(
    tmp_path: Path, filler: Mapping[str, Any] | None, query: str
) -> None:
    engine = {} if filler is None else {"filler": filler}
    async with (
        cascade_world(tmp_path, SpokenReply("Soon."), heard=["when"], engine=engine, tiers=[FAST, DEEP]) as world,
        world.client(query) as client,
    ):
        await speak(client)
        await client.until("response.done")
        assert transcripts(client) == ["Soon."]


async def test_phrases_take_turns_in_the_language_of_the_session_and_are_made_once(tmp_path: Path) -> None:
    filler = {"phrases": ["Hm."], "languages": {"de": ["Moment.", "Mal sehen."]}}
    replies = [SpokenReply("Ja.")] * 3
    async with (
        cascade_world(tmp_path, *replies, heard=["wann"] * 3, engine={"filler": filler}, tiers=[FAST, DEEP]) as world,
        world.client(IN_DEEP) as client,
    ):
        await client.update(audio={"input": {"transcription": {"model": "any", "language": "de"}}})
        for number in range(3):
            await speak(client)
            await client.until("response.done", number + 1)
        assert transcripts(client) == ["Moment.", "Ja.", "Mal sehen.", "Ja.", "Moment.", "Ja."]
        made = [each["input"] for each in world.backends.spoken]
        assert made.count("Moment.") == made.count("Mal sehen.") == 1
        assert world.backends.transcription_requests[0][1]["language"] == "de"


async def test_white_space_before_a_call_is_not_spoken(tmp_path: Path) -> None:
    async def wait(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "now"}]}

    replies = SpokenReply("\n\n", (ADD,)), SpokenReply("Now it is.")
    async with (
        cascade_world(tmp_path, *replies, heard=["when"], engine={"filler": {}}, tools=[WAIT], answer=wait) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.until("response.done", 2)
        assert transcripts(client) == [PHRASE, "Now it is."]


async def test_a_phrase_without_audio_costs_no_answer(tmp_path: Path) -> None:
    async with (
        cascade_world(
            tmp_path, SpokenReply("Soon."), heard=["when"], engine={"filler": {}}, tiers=[FAST, DEEP]
        ) as world,
        world.client(IN_DEEP) as client,
    ):
        fillers = world.session.state.fillers
        await eventually(lambda: fillers.audio(PHRASE, "af_heart", 1) is not None)
        world.backends.faults[TTS].append(ScriptedFault(body=b""))
        await client.update(audio={"output": {"voice": "another"}})
        await speak(client)
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "completed"
