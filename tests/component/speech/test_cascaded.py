"""A cascaded engine through the gateway: its client's events, the requests to its servers, and their failures."""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from cascadeworld import LOUD, MODEL, QUIET, CascadeWorld, cascade_world, speak
from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_speech.cascaded.fake import LLM, STT, TTS, ScriptedFault
from fairlead_speech.scripted import SpokenCall, SpokenReply
from llmworld import PATH
from restworld import post
from speechworld import RealtimeClient

ADD = SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")
TIERS = (
    Tier(name="fast", max_latency_ms=500, default=True),
    Tier(name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",))),
)
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}


def audio(client: RealtimeClient) -> bytes:
    """All audio that the client received."""
    return b"".join(base64.b64decode(each["delta"]) for each in client.of_type("response.output_audio.delta"))


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def ask(client: RealtimeClient, text: str) -> None:
    await client.send("conversation.item.create", item=message(text))
    await client.send("response.create")


def messages_to_model(world: CascadeWorld, index: int = -1) -> list[tuple[str, Any]]:
    return [(each["role"], each["content"]) for each in world.backends.requests[index]["messages"]]


async def test_speech_is_heard_answered_and_spoken(tmp_path: Path) -> None:
    reply = SpokenReply("Hello there, my friend. How are you today?")
    async with cascade_world(tmp_path, reply, heard=["good morning"]) as world, world.client() as client:
        await client.update(instructions="Be kind.")
        await speak(client)
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "completed"
        assert done["response"]["usage"]["total_tokens"] == 30
        (heard,) = client.of_type("conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == "good morning"
        assert messages_to_model(world) == [("system", "Be kind."), ("user", "good morning")]
        pieces = [each["input"] for each in world.backends.spoken]
        assert pieces == ["Hello there, my friend.", "How are you today?"], "spoken while it is written"
        assert len(audio(client)) == 1920 * 8, "no sample is lost, none comes twice"
        (transcript,) = client.of_type("response.output_audio_transcript.done")
        assert transcript["transcript"] == reply.text
        (pcm, fields), *_ = world.backends.transcription_requests
        assert b"\0\x10" * 4800 in pcm, "the speech as it came"
        assert fields == {"model": "whisper", "response_format": "json"}
        assert {each["voice"] for each in world.backends.spoken} == {"af_heart"}


async def test_events_come_in_the_order_of_the_wire(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, SpokenReply("Yes."), heard=["hi"]) as world, world.client() as client:
        await speak(client)
        await client.until("response.done")
        assert [kind for kind, _ in groupby(client.types())] == [
            "session.created",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.delta",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        assert world.session.state.conversation.last == client.of_type("conversation.item.done")[-1]["item"]["id"]


async def test_turns_that_a_client_ends_itself_are_transcribed_before_they_are_answered(tmp_path: Path) -> None:
    async with (
        cascade_world(tmp_path, SpokenReply("Fine."), heard=["how are you"]) as world,
        world.client() as client,
    ):
        await client.update(audio={"input": {"turn_detection": None}})
        await client.send("input_audio_buffer.append", audio=LOUD)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.until("response.done")
        assert messages_to_model(world) == [("user", "how are you")]
        await client.send("input_audio_buffer.commit")
        (error,) = await client.until("error")
        assert error["error"]["code"] == "input_audio_buffer_commit_empty"


async def test_an_answer_may_be_text_alone(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, SpokenReply("Just text.")) as world, world.client() as client:
        await client.update(output_modalities=["text"])
        await ask(client, "Hello")
        (done,) = await client.until("response.done")
        assert done["response"]["output"][0]["content"] == [{"type": "output_text", "text": "Just text."}]
        assert (world.backends.spoken, audio(client)) == ([], b"")


async def test_a_transcript_chooses_the_tier_of_its_own_answer(tmp_path: Path) -> None:
    async def look(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "long ago"}]}

    replies = SpokenReply("", (SpokenCall("demo__lookup", {}, "call_1"),)), SpokenReply("Long ago.")
    async with (
        cascade_world(
            tmp_path, *replies, heard=["tell me the legend"], tiers=TIERS, slow=[LOOKUP], answer=look
        ) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.until("response.done", 2)
        offered = [[tool["function"]["name"] for tool in each["tools"]] for each in world.backends.requests]
        assert offered == [["demo__add", "demo__fail", "demo__lookup"]] * 2
        assert [each["role"] for each in world.backends.requests[1]["messages"]] == ["user", "assistant", "tool"]
        assert world.backends.requests[1]["messages"][-1]["content"] == "long ago"


async def test_a_speaker_who_interrupts_ends_the_answer_and_its_requests(tmp_path: Path) -> None:
    held = asyncio.Event()
    replies = SpokenReply("This is a long story.", held=held), SpokenReply("Yes?")
    async with (
        cascade_world(tmp_path, *replies, heard=["tell me", "stop"]) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.until("response.output_audio.delta")
        await client.send("input_audio_buffer.append", audio=LOUD)
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert done["response"]["output"][0]["status"] == "incomplete"
        await world.backends.until_gone()
        item = done["response"]["output"][0]["id"]
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=16)
        await client.until("conversation.item.truncated")
        await client.send("input_audio_buffer.append", audio=QUIET)
        await client.until("response.done", 2)
        assert messages_to_model(world) == [("user", "tell me"), ("assistant", "This is"), ("user", "stop")]


async def test_a_client_cancels_a_response(tmp_path: Path) -> None:
    async with (
        cascade_world(tmp_path, SpokenReply("A story.", held=asyncio.Event())) as world,
        world.client() as client,
    ):
        await ask(client, "Tell me")
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        await world.backends.until_gone()
        await client.send("response.cancel")
        (error,) = await client.until("error")
        assert error["error"]["code"] == "response_cancel_not_active"


async def test_noise_is_not_answered(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, heard=[""]) as world, world.client() as client:
        await speak(client)
        (done,) = await client.until("response.done")
        assert (done["response"]["status"], done["response"]["output"]) == ("completed", [])
        assert world.backends.requests == []


@pytest.mark.parametrize(
    ("path", "fault", "code"),
    [
        (STT, ScriptedFault(status=500), "stt_refused"),
        (STT, ScriptedFault(hangs=True), "stt_unavailable"),
        (STT, ScriptedFault(cut=True), "stt_unavailable"),
        (STT, ScriptedFault(body=b"no json"), "stt_failed"),
        (STT, ScriptedFault(body=json.dumps({"text": "x" * 100_000}).encode()), "stt_failed"),
        (LLM, ScriptedFault(status=400), "provider_refused"),
        (LLM, ScriptedFault(cut=True), "bad_answer"),
        (TTS, ScriptedFault(status=500), "tts_refused"),
        (TTS, ScriptedFault(hangs=True), "tts_unavailable"),
        (TTS, ScriptedFault(cut=True), "tts_unavailable"),
        (TTS, ScriptedFault(body=b""), "tts_failed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_server_that_fails_is_a_response_that_failed(
    tmp_path: Path, path: str, fault: ScriptedFault, code: str
) -> None:
    base = {"idleSeconds": 1.5 if fault.hangs else 30, "model": "any"}  # on a busy machine, other tools are slow too
    replies = SpokenReply("Hello."), SpokenReply("Hello again."), SpokenReply("Hello.")
    async with cascade_world(tmp_path, *replies, heard=["hi", "hi"], backend=base) as world, world.client() as client:
        world.backends.faults[path].append(fault)
        await speak(client)
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "failed"
        assert done["response"]["status_details"]["error"]["code"] == code
        assert len(client.of_type("conversation.item.input_audio_transcription.failed")) == (path == STT)
        await speak(client)
        _, again = await client.until("response.done", 2)
        assert again["response"]["status"] == "completed", "the session goes on"


async def test_keys_go_only_to_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_KEY", "secret-key")
    own = {"model": "any", "keyEnv": "VOICE_KEY"}
    async with (
        cascade_world(tmp_path, SpokenReply("Hello."), heard=["hi"], backend=own, key="secret-key") as world,
        world.client() as client,
    ):
        await speak(client)
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "completed"
        assert "secret-key" not in "\n".join(client.frames)


async def test_an_error_about_a_missing_key_names_only_its_variable(tmp_path: Path) -> None:
    own = {"model": "any", "keyEnv": "NO_SUCH_VOICE_KEY"}
    async with cascade_world(tmp_path, heard=["hi"], backend=own) as world, world.client() as client:
        await speak(client)
        (done,) = await client.until("response.done")
        error = done["response"]["status_details"]["error"]
        assert (error["code"], "NO_SUCH_VOICE_KEY" in error["message"]) == ("stt_unavailable", True)


async def test_text_that_cannot_be_synthesized_is_written_alone(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, SpokenReply("Hello. … Bye.")) as world, world.client() as client:
        await ask(client, "Hi")
        (done,) = await client.until("response.done")
        assert [each["input"] for each in world.backends.spoken] == ["Hello.", "Bye."]
        assert done["response"]["output"][0]["content"][0]["transcript"] == "Hello. … Bye."


async def test_calls_of_a_server_that_repeats_their_ids_are_all_run(tmp_path: Path) -> None:
    replies = SpokenReply("", (ADD,)), SpokenReply("", (ADD,)), SpokenReply("Five.")
    async with cascade_world(tmp_path, *replies) as world, world.client() as client:
        await ask(client, "Add, twice")
        await client.until("response.done", 3)
        assert len(world.called) == 2
        assert messages_to_model(world)[-1] == ("tool", "5")


async def test_a_model_that_answers_with_a_document_in_place_of_a_stream_is_spoken(tmp_path: Path) -> None:
    whole = ScriptedFault(body=ChatApi().whole_body(ScriptedTurn("Hello."), 1, {}))
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[LLM].append(whole)
        await ask(client, "Hi")
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "completed"
        assert [each["input"] for each in world.backends.spoken] == ["Hello."]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_call_that_may_lack_its_end_is_not_run(tmp_path: Path, reason: str) -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "theirs", "arguments": '{"a": 2}'}}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": reason}
    cut = ScriptedFault(body=f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode())
    async with cascade_world(tmp_path) as world, world.client() as client:
        world.backends.faults[LLM].append(cut)
        await ask(client, "Add")
        (done,) = await client.until("response.done")
        assert done["response"]["status"] == "incomplete"
        assert not done["response"]["output"]


async def test_tokens_and_the_time_to_the_first_audio_are_counted(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, SpokenReply("Hello.")) as world, world.client() as client:
        await ask(client, "Hi")
        await client.until("response.done")
        assert world.metrics.first_audio["first"].count == world.metrics.first_audio["answer"].count == 1
        assert world.gateway._speech is not None
        models = world.gateway._speech._records.metrics.models
        assert (models["voice", MODEL].input.total, models["voice", MODEL].output.total) == (20, 10)


async def test_transcribed_seconds_and_synthesized_characters_are_counted(tmp_path: Path) -> None:
    async with cascade_world(tmp_path, SpokenReply("Hello."), heard=["Hi"]) as world, world.client() as client:
        await speak(client)
        await client.until("response.done")
        assert 0.2 <= world.metrics.transcribed_seconds["voice"] <= 0.8, "the speech, and what may be around it"
        assert world.metrics.synthesized_characters == {"voice": len("Hello.")}


async def test_a_cascaded_engine_takes_no_written_requests(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world:
        answer = await post(world.gateway, PATH, {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]})
        assert answer.status == 404
        assert b"/v1/realtime" in answer.body


async def test_session_updates_that_the_engine_cannot_do_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async with cascade_world(tmp_path) as world, world.client() as client:
        before = json.dumps(world.session.state.config.session)
        refused: list[dict[str, Any]] = [
            {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
            {"audio": {"output": {"speed": 9}}},
            {"output_modalities": ["audio", "text"]},
            {"instructions": "x" * (1 << 20)},
        ]
        for number, session in enumerate(refused, 1):
            await client.update(**session)
            await client.until("error", number)
        assert json.dumps(world.session.state.config.session) == before
        await client.send("input_audio_buffer.append", audio="no base64!")
        await client.send("conversation.item.create", item={"type": "function_call_output", "call_id": "?"})
        await client.send("conversation.item.delete", item_id="?")
        await client.send("no.such.event")
        await client.send("conversation.item.create", item=message("x" * (2 << 20)))
        codes = [each["error"]["code"] for each in (await client.until("error", 10))[5:]]
        assert codes == [
            "invalid_value",
            "item_create_invalid_tool_call_id",
            "item_not_found",
            "invalid_value",
            "string_above_max_length",
        ]
