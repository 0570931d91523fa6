"""A cascaded engine answers slow turns of a Gemini Live session, and no turn gets two answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_speech.cascaded.fake import LLM, STT, ScriptedFault
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import NEW, OLD, own_function
from routedlive import BEGINS, ENDS, PAUSE, VOICE, routed_live_world, speak
from routedturns import CALL, DEEP
from waiting import eventually

MODELS = pytest.mark.parametrize("model", [NEW, OLD])
STORY = "It is a very long story."


async def look(_: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "long ago"}]}


def held_reply(text: str = STORY) -> SpokenReply:
    return SpokenReply(text, held=asyncio.Event())


@MODELS
async def test_a_slow_turn_of_speech_is_answered_by_the_engine_and_handed_back(tmp_path: Path, model: str) -> None:
    replies = SpokenReply("", (CALL,)), SpokenReply("The crown is lost.")
    spoken = SpokenReply("Good morning."), SpokenReply("You are welcome.")
    heard = ("good morning", "tell me the legend", "thanks")
    transcripts = ("good morning", "thanks")
    async with (
        routed_live_world(
            tmp_path, *replies, spoken=spoken, heard=heard, transcripts=transcripts, model=model, answer=look, **DEEP
        ) as world,
        world.client() as client,
    ):
        for number in range(3):
            await speak(client)
            await client.turns(number + 1)
        assert client.transcript() == "Good morning. The crown is lost.You are welcome. ", "each turn has one answer"
        assert len(client.audio()) == 1920 * 9, "no sample is lost, none comes twice"
        assert b"".join(world.session.received_audio) == VOICE + ENDS + BEGINS + VOICE + ENDS, (
            "the turns that it answers"
        )
        await world.wait_for_contents(("user", "tell me the legend"), ("model", "The crown is lost."))
        history = [("user", "good morning"), ("assistant", "Good morning."), ("user", "tell me the legend")]
        assert (world.messages[:3], world.messages[-1]) == (history, ("tool", "long ago"))
        words = "".join(piece["text"] for piece in client.content("inputTranscription"))
        assert words == "good morning tell me the legendthanks "
        assert world.metrics.routed == {"ok": 1}
        assert b"call_1" not in b"\n".join(client.frames)


async def test_the_client_gets_only_what_it_requested(tmp_path: Path) -> None:
    spoken = [SpokenReply("Yes.")]
    setup = {
        "inputAudioTranscription": None,
        "outputAudioTranscription": None,
        "realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": 200}, "turnCoverage": "X"},
    }
    async with (
        routed_live_world(
            tmp_path, SpokenReply("Long ago."), spoken=spoken, heard=["hi", "the legend"], transcripts=["hi"], **DEEP
        ) as world,
        world.client(setup=setup) as client,
    ):
        sent = world.session.setup
        assert sent["realtimeInputConfig"] == {"automaticActivityDetection": {"disabled": True}, "turnCoverage": "X"}
        assert (sent["inputAudioTranscription"], sent["outputAudioTranscription"]) == ({}, {})
        for number in range(2):
            await client.hear(VOICE)
            await client.hear(PAUSE[:6400])
            await client.turns(number + 1)
        assert len(client.audio()) == 1920 * 3
        assert (client.content("inputTranscription"), client.content("outputTranscription")) == ([], [])
        assert not [message for message in client.of_type("serverContent") if not message]
        assert world.messages[:2] == [("user", "hi"), ("assistant", "Yes.")], "the engine knows them nevertheless"


@MODELS
async def test_written_turns_go_to_the_engine_too_with_the_clients_tools(tmp_path: Path, model: str) -> None:
    theirs = SpokenReply("", (SpokenCall("theirs", {"q": 1}, "call_theirs"),))
    setup = {"tools": [own_function(), {"googleSearch": {}}], "systemInstruction": {"parts": [{"text": "Be kind."}]}}
    async with (
        routed_live_world(
            tmp_path, theirs, SpokenReply("Done."), spoken=[SpokenReply("Hello.")], model=model, **DEEP
        ) as world,
        world.client(setup=setup) as client,
    ):
        await client.ask("Tell me the legend")
        (called,) = await client.until("toolCall")
        assert called["functionCalls"] == [{"id": "call_theirs", "name": "theirs", "args": {"q": 1}}]
        response = {"id": "call_theirs", "name": "theirs", "response": {"output": "ok"}}
        await client.send(toolResponse={"functionResponses": [response]})
        await client.turns(1)
        assert world.messages[0] == ("system", "Be kind.")
        assert world.messages[-1] == ("tool", "ok")
        names = [each["function"]["name"] for each in world.backends.requests[-1]["tools"]]
        assert names == ["theirs", "demo__add", "demo__fail", "demo__lookup"]
        await client.send(realtimeInput={"text": "Thanks"})
        await client.turns(2)
        assert client.transcript() == "Done.Hello. "
        await world.wait_for_contents(("user", "Tell me the legend"), ("model", "Done."))
        assert world.session.results() == []


async def test_the_engine_continues_once_the_client_and_the_gateway_have_answered(tmp_path: Path) -> None:
    looking = asyncio.Event()
    go_on = asyncio.Event()

    async def slowly(params: Any) -> dict[str, Any]:
        looking.set()
        await go_on.wait()
        return await look(params)

    both = SpokenReply("", (CALL, SpokenCall("theirs", {}, "call_theirs")))
    async with (
        routed_live_world(tmp_path, both, SpokenReply("Done."), answer=slowly, **DEEP) as world,
        world.client(setup={"tools": [own_function()]}) as client,
    ):
        await client.ask("Tell me the legend")
        await client.until("toolCall")
        await looking.wait()
        response = {"id": "call_theirs", "name": "theirs", "response": {"found": 1}}
        await client.send(toolResponse={"functionResponses": [response]})
        await eventually(lambda: not world.routed_session._engine_messages.open_calls)
        go_on.set()
        await client.turns(1)
        assert client.transcript() == "Done."
        assert world.messages[-2:] == [("tool", "long ago"), ("tool", '{"found":1}')]
        assert len(world.backends.requests) == 2


@MODELS
async def test_a_speaker_interrupts_the_engine_and_the_model_knows_what_was_said(tmp_path: Path, model: str) -> None:
    spoken = [SpokenReply("Yes?")]
    heard = ["tell me the legend", "stop"]
    async with (
        routed_live_world(tmp_path, held_reply(), spoken=spoken, heard=heard, model=model, **DEEP) as world,
        world.client() as client,
    ):
        await speak(client)
        await eventually(lambda: bool(client.content("modelTurn")))
        await client.hear(VOICE)
        await client.turns(1)
        assert client.content("interrupted") == [True]
        assert client.content("generationComplete") == []
        await client.hear(PAUSE)
        await client.turns(2)
        assert client.transcript().endswith("Yes? ")
        assert [role for role, _ in world.contents] == ["user", "model"]
        assert STORY.startswith(world.contents[1][1])
        assert world.metrics.routed == {"cancelled": 1}


async def test_calls_of_the_client_are_taken_back_when_the_speaker_interrupts(tmp_path: Path) -> None:
    theirs = SpokenReply("", (SpokenCall("theirs", {}, "call_theirs"),))
    async with (
        routed_live_world(tmp_path, theirs, spoken=[SpokenReply("Yes?")], heard=["stop"], **DEEP) as world,
        world.client(setup={"tools": [own_function()]}) as client,
    ):
        await client.ask("Tell me the legend")
        await client.until("toolCall")
        await speak(client)
        assert await client.until("toolCallCancellation") == [{"ids": ["call_theirs"]}]
        await client.turns(2)
        assert client.transcript() == "Yes? "


async def test_audio_that_the_client_still_plays_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine produces audio faster than the client plays it, here at once."""
    spoken = [SpokenReply("Yes?")]
    heard = ["the legend", "stop"]
    async with (
        routed_live_world(tmp_path, SpokenReply("Long ago."), spoken=spoken, heard=heard, **DEEP) as world,
        world.client() as client,
    ):
        monkeypatch.setattr(world.routed_session._engine_messages, "_clock", lambda: 0.0)
        await speak(client)
        await client.turns(1)
        assert client.content("interrupted") == []
        await client.hear(VOICE)
        await eventually(lambda: client.content("interrupted") == [True])
        await client.hear(PAUSE)
        await client.turns(2)


@MODELS
async def test_a_speaker_interrupts_the_model_before_the_words_are_transcribed(tmp_path: Path, model: str) -> None:
    replies = [SpokenReply("Long ago.")]
    heard = ["a tale", "no, the legend"]
    async with (
        routed_live_world(tmp_path, *replies, spoken=[held_reply()], heard=heard, model=model, **DEEP) as world,
        world.client() as client,
    ):
        await speak(client)
        await eventually(lambda: bool(client.content("modelTurn")))
        await client.hear(VOICE)
        await client.turns(1)
        assert client.content("interrupted") == [True]
        await client.hear(PAUSE)
        await client.turns(2)
        assert client.transcript().endswith("Long ago.")
        await world.wait_for_contents(("user", "no, the legend"), ("model", "Long ago."))


@pytest.mark.parametrize("engine", [{}, {"filler": {}}])
async def test_where_the_engine_cannot_answer_the_speech_model_does(tmp_path: Path, engine: dict[str, Any]) -> None:
    spoken = [SpokenReply("I do not know.")]
    async with (
        routed_live_world(
            tmp_path, spoken=spoken, heard=["the legend"], transcripts=["the legend"], engine=engine, **DEEP
        ) as world,
        world.client() as client,
    ):
        world.backends.faults[LLM].append(ScriptedFault(status=500))
        await speak(client)
        await client.turns(1)
        assert client.transcript().endswith("I do not know. ")
        assert client.content("inputTranscription") == [{"text": "the legend"}], "once"
        assert b"".join(world.session.received_audio) == VOICE + ENDS, "all that was said"
        assert world.contents == []
        assert world.metrics.routed == {"error": 1}


@pytest.mark.parametrize("fault", [None, ScriptedFault(status=500), ScriptedFault(hangs=True)])
async def test_turns_without_a_transcript_are_answered_by_the_provider(
    tmp_path: Path, fault: ScriptedFault | None
) -> None:
    spoken = [SpokenReply("What did you say?")]
    async with (
        routed_live_world(tmp_path, SpokenReply("Long ago."), spoken=spoken, heard=["tell me", ""], **DEEP) as world,
        world.client("x-fairlead-tier=deep") as client,
    ):
        await speak(client)
        await client.turns(1)
        world.backends.faults[STT].append(fault)
        await speak(client)
        await client.turns(2)
        assert client.transcript() == "Long ago.What did you say? ", "the engine would answer the question before"


async def test_a_filler_is_spoken_before_the_answer(tmp_path: Path) -> None:
    phrase = {"filler": {"phrases": ["Let me think."]}}
    async with (
        routed_live_world(tmp_path, SpokenReply("Long ago."), heard=["the legend"], engine=phrase, **DEEP) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.turns(1)
        assert client.transcript() == "Let me think.Long ago."
        await world.wait_for_contents(("user", "the legend"), ("model", "Long ago."))


async def test_an_answer_in_writing_is_one_of_the_engine_too(tmp_path: Path) -> None:
    setup = {"generationConfig": {"responseModalities": ["TEXT"]}, "outputAudioTranscription": None}
    async with (
        routed_live_world(tmp_path, SpokenReply("Long ago."), **DEEP) as world,
        world.client(setup=setup) as client,
    ):
        await client.ask("the legend")
        await client.turns(1)
        parts = [part["text"] for turn in client.content("modelTurn") for part in turn["parts"]]
        assert "".join(parts) == "Long ago."
        assert world.backends.spoken == []


async def test_the_engine_has_what_the_client_has_set_since(tmp_path: Path) -> None:
    async with (
        routed_live_world(tmp_path, SpokenReply("Long ago."), **DEEP) as world,
        world.client() as client,
    ):
        update = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": {"tools": [own_function()]}}
        await client.send(contextUpdate=update)
        turns = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello"}]}]
        await client.send(clientContent={"turns": turns})
        await client.ask("the legend")
        await client.turns(1)
        assert world.messages == [
            ("system", "Be brief."),
            ("user", "Hi"),
            ("assistant", "Hello"),
            ("user", "the legend"),
        ]
        assert world.backends.requests[0]["tools"][0]["function"]["name"] == "theirs"
