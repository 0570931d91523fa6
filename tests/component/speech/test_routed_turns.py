"""A cascaded engine answers a speech model's slow turns, and no turn gets two answers."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cascadeworld import routed_world
from fairlead_models.providers import InvalidProvider, read_providers
from fairlead_speech.cascaded.fake import LLM, ScriptedFault
from fairlead_speech.realtime.events import event_type
from fairlead_speech.scripted import SpokenCall, SpokenReply
from fairlead_speech.sockets import TRY_AGAIN_LATER, Closing
from routedturns import CALL, DEEP, ask, spoken_sentences, transcripts
from speechworld import MODEL, SILENCE, SPEECH, own_tool
from waiting import eventually


async def look(_: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "long ago"}]}


async def test_a_slow_turn_of_speech_is_answered_by_the_engine_and_handed_back(tmp_path: Path) -> None:
    replies = SpokenReply("", (CALL,)), SpokenReply("The crown is lost.")
    spoken = SpokenReply("Good morning."), SpokenReply("You are welcome.")
    heard = "good morning", "tell me the legend", "thanks"
    async with (
        routed_world(tmp_path, *replies, spoken=spoken, heard=heard, answer=look, **DEEP) as world,
        world.client() as client,
    ):
        for number, answer in enumerate(("Good morning.", "The crown is lost.", "You are welcome."), 1):
            await client.speak()
            while answer not in transcripts(client):
                await client.until("response.output_audio_transcript.done", len(transcripts(client)) + 1)
            assert transcripts(client)[-1] == answer, number
            await client.until("response.done", len(client.of_type("response.created")))
        assert transcripts(client) == ["Good morning.", "The crown is lost.", "You are welcome."], (
            "each turn has one answer"
        )
        assert len(world.session.of_type("response.create")) == 2
        await world.session.until("conversation.item.create")
        assert spoken_sentences(world) == ["The crown is lost."]
        roles = [(each["role"], each["content"]) for each in world.backends.requests[-1]["messages"]]
        assert roles[:3] == [("user", "good morning"), ("assistant", "Good morning."), ("user", "tell me the legend")]
        assert roles[-1] == ("tool", "long ago")
        assert world.metrics.routed == {"ok": 1}
        assert "call_1" not in "\n".join(client.frames)
        audio = [base64.b64decode(each["delta"]) for each in client.of_type("response.output_audio.delta")]
        assert len(b"".join(audio)) == 1920 * 9, "no sample is lost, none comes twice"


async def test_the_client_sees_its_own_configuration(tmp_path: Path) -> None:
    async with (
        routed_world(tmp_path, spoken=[SpokenReply("Yes.")], heard=["hi"], **DEEP) as world,
        world.client() as client,
    ):
        await client.update(instructions="Be kind.")
        (updated,) = await client.until("session.updated")
        heard = updated["session"]["audio"]["input"]
        assert (heard["turn_detection"]["create_response"], heard["transcription"]) == (True, None)
        assert world.session.config["audio"]["input"]["turn_detection"]["create_response"] is False
        assert world.session.config["audio"]["input"]["transcription"] == {"model": "gpt-4o-mini-transcribe"}
        await client.speak()
        await client.until("response.done")
        assert transcripts(client) == ["Yes."]
        assert not [each for each in client.types() if "input_audio_transcription" in each]


async def test_written_turns_go_to_the_engine_too_with_the_clients_tools(tmp_path: Path) -> None:
    theirs = SpokenReply("", (SpokenCall("theirs", {}, "call_theirs"),))
    async with (
        routed_world(tmp_path, theirs, SpokenReply("Done."), spoken=[SpokenReply("Hello.")], **DEEP) as world,
        world.client() as client,
    ):
        await client.update(instructions="Be kind.", tools=[own_tool()])
        await client.until("session.updated")
        await ask(client, "Tell me the legend")
        (done,) = await client.until("response.done")
        assert [item["name"] for item in done["response"]["output"]] == ["theirs"]
        output = {"type": "function_call_output", "call_id": "call_theirs", "output": "ok"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        await client.until("response.done", 2)
        assert transcripts(client) == ["Done."]
        assert world.backends.requests[0]["messages"][0] == {"role": "system", "content": "Be kind."}
        await world.session.until("conversation.item.create", 2)
        assert spoken_sentences(world) == ["Done."]
        await ask(client, "Thanks")
        await client.until("response.done", 3)
        assert transcripts(client) == ["Done.", "Hello."]


async def test_a_speaker_interrupts_the_engine_and_the_model_knows_what_was_heard(tmp_path: Path) -> None:
    held = SpokenReply("It is a very long story.", held=asyncio.Event())
    heard = "tell me the legend", "stop"
    async with (
        routed_world(tmp_path, held, spoken=[SpokenReply("Yes?")], heard=heard, **DEEP) as world,
        world.client() as client,
    ):
        await client.speak()
        await client.until("response.output_audio.delta")
        await client.send("input_audio_buffer.append", audio=SPEECH)
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        item = done["response"]["output"][0]["id"]
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=14)
        await client.until("conversation.item.truncated")
        await client.send("input_audio_buffer.append", audio=SILENCE)
        await client.until("response.done", 2)
        assert transcripts(client)[-1] == "Yes?"
        assert spoken_sentences(world) == ["It is a very long story.", "It is"]
        assert len(world.session.of_type("conversation.item.delete")) == 1
        assert world.metrics.routed == {"cancelled": 1}


async def test_a_client_cancels_what_the_engine_says(tmp_path: Path) -> None:
    held = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with routed_world(tmp_path, held, **DEEP) as world, world.client() as client:
        await ask(client, "tell me the legend")
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        assert client.of_type("error") == []


async def test_where_the_engine_cannot_answer_the_speech_model_does(tmp_path: Path) -> None:
    async with (
        routed_world(tmp_path, spoken=[SpokenReply("I do not know.")], heard=["the legend"], **DEEP) as world,
        world.client() as client,
    ):
        world.backends.faults[LLM].append(ScriptedFault(status=500))
        await client.speak()
        (done,) = await client.until("response.done")
        assert (done["response"]["status"], transcripts(client)) == ("completed", ["I do not know."])
        assert world.metrics.routed == {"error": 1}


async def test_a_filler_is_not_an_answer_where_the_engine_fails(tmp_path: Path) -> None:
    spoken = [SpokenReply("I do not know.")]
    heard = ["the legend"]
    async with (
        routed_world(tmp_path, spoken=spoken, heard=heard, engine={"filler": {}}, **DEEP) as world,
        world.client() as client,
    ):
        world.backends.faults[LLM].append(ScriptedFault(status=500))
        await client.speak()
        while "I do not know." not in transcripts(client):
            await client.until("response.output_audio_transcript.done", len(transcripts(client)) + 1)
        await client.until("response.done", 2)
        assert [each["response"]["status"] for each in client.of_type("response.done")] == ["failed", "completed"]
        assert spoken_sentences(world) == []


async def test_an_engine_that_is_cancelled_before_it_speaks_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offering = asyncio.Event()
    go_on = asyncio.Event()
    spoken = [SpokenReply("Hello.")]
    async with routed_world(tmp_path, spoken=spoken, heard=["the legend"], **DEEP) as world, world.client() as client:
        session = world.answerer._session
        engine = world.answerer.engine
        offer = session.offer_tools
        send = engine.send
        sent = list[str]()

        async def note_and_send(message: bytes) -> None:
            sent.append(event_type(message))
            await send(message)

        monkeypatch.setattr(engine, "send", note_and_send)

        async def offer_late() -> None:
            offering.set()
            await go_on.wait()
            await offer()

        monkeypatch.setattr(session, "offer_tools", offer_late)
        await client.speak()
        await offering.wait()
        await client.send("response.cancel")
        await eventually(lambda: not world.answerer.active)
        go_on.set()
        await client.send("response.create")
        await client.until("response.done")
        assert (transcripts(client), "response.create" in sent) == (["Hello."], False)
        assert world.metrics.routed == {"cancelled": 1}


async def test_a_tier_that_is_gone_leaves_the_turn_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = [SpokenReply("Hello.")]
    heard = ["the legend", "the legend"]
    async with (
        routed_world(tmp_path, SpokenReply("Long ago."), spoken=spoken, heard=heard, **DEEP) as world,
        world.client() as client,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(world.answerer._tier, "_catalog", lambda: SimpleNamespace(tiers=()))
            await client.speak()
            await client.until("response.done")
        assert not world.answerer.active
        await client.speak()
        await client.until("response.done", 2)
        assert transcripts(client) == ["Hello.", "Long ago."]


async def test_an_engine_that_is_closed_ends_the_session(tmp_path: Path) -> None:
    held = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with routed_world(tmp_path, held, heard=["the legend"], **DEEP) as world, world.client() as client:
        await client.speak()
        await client.until("response.output_audio.delta")
        answerer = world.answerer
        await answerer.engine.close(Closing(TRY_AGAIN_LATER, "the client did not read"))
        assert await client.end() == (TRY_AGAIN_LATER, "the client did not read")
        assert not answerer.active, "nobody waits for it"


async def test_a_session_that_ends_starts_no_response_of_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = asyncio.Event()
    requested = asyncio.Event()

    async def wait(_: Any) -> dict[str, Any]:
        running.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody answers it")

    async with (
        routed_world(tmp_path, SpokenReply("", (CALL,)), heard=["the legend"], answer=wait, **DEEP) as world,
        world.client() as client,
    ):
        await client.speak()
        await running.wait()
        session = world.answerer._session
        engine = world.answerer.engine
        left = []
        close = engine.close

        async def note_and_close(how: Closing) -> None:
            left.append([*session._calls.running])
            await close(how)
            requested.set()

        monkeypatch.setattr(engine, "close", note_and_close)
        await client.socket.close()
        await requested.wait()
        assert left == [[]], "a result would have had the engine go on, unheard"


@pytest.mark.parametrize("heard", ["", " "])
async def test_turns_without_a_transcript_are_answered_by_the_provider(tmp_path: Path, heard: str) -> None:
    spoken = [SpokenReply("What did you say?")]
    async with (
        routed_world(tmp_path, SpokenReply("Long ago."), spoken=spoken, heard=["tell me", heard], **DEEP) as world,
        world.client(f"model={MODEL}&x-fairlead-tier=deep") as client,
    ):
        await client.speak()
        await client.until("response.done")
        await client.speak()
        await client.until("response.done", 2)
        assert transcripts(client) == ["Long ago.", "What did you say?"], "the engine would answer the question before"


async def test_the_engine_answers_as_the_client_requests(tmp_path: Path) -> None:
    async with routed_world(tmp_path, SpokenReply("Long ago."), **DEEP) as world, world.client() as client:
        options = {"instructions": "Be short.", "tool_choice": "none", "output_modalities": ["text"]}
        await ask(client, "tell me the legend", **options, metadata={"turn": "1"})
        (done,) = await client.until("response.done")
        assert done["response"]["metadata"] == {"turn": "1"}
        assert [each["text"] for each in client.of_type("response.output_text.done")] == ["Long ago."]
        (request,) = world.backends.requests
        assert (request["messages"][0]["content"], request["tool_choice"]) == ("Be short.", "none")


async def test_a_request_that_the_engine_refuses_goes_to_the_model(tmp_path: Path) -> None:
    async with routed_world(tmp_path, spoken=[SpokenReply("Hello.")], **DEEP) as world, world.client() as client:
        metadata = {f"member{number}": "" for number in range(17)}
        await ask(client, "tell me the legend", metadata=metadata)
        (done,) = await client.until("response.done")
        assert (transcripts(client), done["response"]["metadata"]) == (["Hello."], metadata)
        assert client.of_type("error") == []


def test_an_engine_that_is_none_is_refused() -> None:
    provider = {"baseUrl": "http://127.0.0.1:1/v1", "slowTurns": {"engine": "voice"}}
    with pytest.raises(InvalidProvider, match="slowTurns"):
        read_providers({"speech": provider}, {})
    base = {"baseUrl": "http://127.0.0.1:1/v1", "model": "x"}
    voice = {"kind": "cascaded", "stt": base, "tts": base, "llm": "speech/x"}
    with pytest.raises(InvalidProvider, match="for the kinds openai, gemini"):
        read_providers({"speech": {**provider, "kind": "anthropic"}, "voice": voice}, {})
