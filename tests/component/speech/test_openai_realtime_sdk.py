"""OpenAI's SDK as the client: it gets the same events through the gateway as without it."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeConversationItemFunctionCallOutputParam, RealtimeFunctionToolParam

from cascadeworld import LOUD, QUIET, cascade_world
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.scripted import SpeechScript, SpokenCall, SpokenReply
from speechworld import MODEL, SPEECH, speech_world

THEIR_TOOL: RealtimeFunctionToolParam = {
    "type": "function",
    "name": "theirs",
    "description": "The client's",
    "parameters": {"type": "object"},
}
CLIENT_CALL = SpokenReply(
    "Let me ask.", (SpokenCall("theirs", {"q": 1}, "call_1"), SpokenCall("theirs", {"q": 2}, "call_2"))
)
REPLIES = (CLIENT_CALL, SpokenReply("Here you are: it is done."), SpokenReply("Beside."))
MADE = ("event_id", "id", "item_id", "response_id", "previous_item_id", "expires_at", "call_id")


def plain(value: Any) -> Any:
    """Messages without ids, which differ between sessions."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in MADE}
    return [plain(each) for each in value] if isinstance(value, list) else value


async def conversation(base_url: str) -> list[Any]:
    """All events of a scripted conversation."""
    events: list[Any] = []

    async def until(connection: AsyncRealtimeConnection, kind: str) -> Any:
        while True:
            event = await asyncio.wait_for(connection.recv(), 10)
            events.append(event.to_dict())
            if event.type == kind:
                return event

    async with (
        AsyncOpenAI(api_key="any", base_url=base_url) as client,
        client.realtime.connect(model=MODEL) as connection,
    ):
        await until(connection, "session.created")
        await connection.session.update(
            session={"type": "realtime", "tools": [THEIR_TOOL], "audio": {"input": {"turn_detection": None}}}
        )
        await until(connection, "session.updated")
        await connection.input_audio_buffer.append(audio=SPEECH)
        await connection.input_audio_buffer.commit()
        await until(connection, "conversation.item.done")
        await connection.response.create()
        done = await until(connection, "response.done")
        for item in done.response.output:
            if item.type == "function_call":
                output: RealtimeConversationItemFunctionCallOutputParam = {
                    "type": "function_call_output",
                    "call_id": item.call_id or "",
                    "output": "{}",
                }
                await connection.conversation.item.create(item=output)
                await until(connection, "conversation.item.done")
        await connection.response.create()
        await until(connection, "response.done")
        await connection.response.cancel()
        await until(connection, "error")
        await connection.response.create(response={"conversation": "none", "metadata": {"topic": "beside"}})
        await until(connection, "response.done")
    return events


async def test_the_sdk_sees_the_same_events_with_and_without_the_gateway(tmp_path: Path) -> None:
    async with speech_world(tmp_path, *REPLIES) as world:
        through = await conversation(f"http://127.0.0.1:{world.gateway.port}/v1")
        assert "demo__add" in world.session.tool_names
    async with ScriptedRealtime(SpeechScript(*REPLIES)).serving() as provider:
        direct = await conversation(f"http://127.0.0.1:{provider.port}/v1")
    assert len(direct) > 40
    assert [plain(event) for event in through] == [plain(event) for event in direct]
    deltas = [event["delta"] for event in through if event["type"] == "response.output_audio.delta"]
    assert sum(len(base64.b64decode(delta)) for delta in deltas) == 1920 * 10, "no sample is lost, none comes twice"


async def test_the_sdk_gets_the_answer_of_a_tool_that_it_does_not_know(tmp_path: Path) -> None:
    call = SpokenCall("demo__add", {"a": 20, "b": 22}, "call_1")
    async with (
        speech_world(tmp_path, SpokenReply("", (call,)), SpokenReply("Forty two.")) as world,
        AsyncOpenAI(api_key="any", base_url=f"http://127.0.0.1:{world.gateway.port}/v1") as client,
        client.realtime.connect(model="fairlead/speech") as connection,
    ):
        await connection.recv()
        await connection.response.create()
        transcript = ""
        async with asyncio.timeout(20):
            while transcript != "Forty two.":
                event = await connection.recv()
                assert event.type != "error"
                if event.type == "response.output_audio_transcript.done":
                    transcript = event.transcript
        assert world.session.of_type("conversation.item.create")[0]["item"]["output"] == "42"


async def test_the_sdk_speaks_with_a_cascaded_engine(tmp_path: Path) -> None:
    call = SpokenCall("demo__add", {"a": 20, "b": 22}, "call_1")
    async with (
        cascade_world(tmp_path, SpokenReply("", (call,)), SpokenReply("Forty two."), heard=["add them"]) as world,
        AsyncOpenAI(api_key="any", base_url=f"http://127.0.0.1:{world.gateway.port}/v1") as client,
        client.realtime.connect(model="voice/any") as connection,
    ):
        kinds = set()
        heard = b""
        await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        await connection.input_audio_buffer.append(audio=LOUD)
        await connection.input_audio_buffer.append(audio=QUIET)
        async with asyncio.timeout(20):
            async for event in connection:
                kinds.add(event.type)
                assert event.type != "error"
                if event.type == "response.output_audio.delta":
                    heard += base64.b64decode(event.delta)
                if event.type == "response.output_audio_transcript.done":
                    assert event.transcript == "Forty two."
                if event.type == "response.done" and heard:
                    break
        assert len(heard) == 1920 * 2
        assert {"session.updated", "input_audio_buffer.speech_started", "conversation.item.done"} <= kinds
        assert world.backends.requests[1]["messages"][-1]["content"] == "42"
