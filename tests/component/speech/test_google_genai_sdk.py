"""Google's SDK as the client: it gets the same messages through the gateway as without it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types

from certificates import Authority
from fairlead_speech.gemini.fake import ScriptedLive
from fairlead_speech.scripted import SpeechScript, SpokenCall, SpokenReply
from liveworld import LOUD, NEW, OLD, QUIET, live_world
from routedlive import PAUSE, VOICE, routed_live_world
from routedturns import CALL, DEEP

CLIENT_CALL = SpokenReply(
    "Let me ask.", (SpokenCall("theirs", {"q": 1}, "call_1"), SpokenCall("theirs", {"q": 2}, "call_2"))
)
REPLIES = (CLIENT_CALL, SpokenReply("Here you are: it is done."), SpokenReply("Beside."))
HEARD = ("what is it",)
THEIR_TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name="theirs", description="The client's", behavior=types.Behavior.BLOCKING)
    ]
)
OTHER_TOOL = types.Tool(function_declarations=[types.FunctionDeclaration(name="other")])
CONFIG = types.LiveConnectConfig(
    response_modalities=[types.Modality.AUDIO],
    input_audio_transcription=types.AudioTranscriptionConfig(),
    output_audio_transcription=types.AudioTranscriptionConfig(),
    tools=[THEIR_TOOL],
)


def client(port: int, authority: Authority) -> genai.Client:
    """The SDK's client. It supports only TLS."""
    trust = ssl.create_default_context(cadata=authority.bundle)
    options = types.HttpOptions(base_url=f"https://127.0.0.1:{port}", async_client_args={"ssl": trust})
    return genai.Client(api_key="any", http_options=options)


async def turn(session: Any) -> list[dict[str, Any]]:
    """Messages of one turn of the model. The client answers calls of its own tools."""
    messages: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        async for message in session.receive():
            messages.append(message.model_dump(mode="json", exclude_none=True))
            if message.tool_call is not None:
                answers = [
                    types.FunctionResponse(id=call.id, name=call.name, response={"output": "yes"})
                    for call in message.tool_call.function_calls
                ]
                await session.send_tool_response(function_responses=answers)
    return messages


async def conversation(port: int, authority: Authority) -> list[dict[str, Any]]:
    """All messages of a scripted conversation."""
    async with client(port, authority).aio.live.connect(model=NEW, config=CONFIG) as session:
        assert session.setup_complete is not None
        for audio in (LOUD, QUIET):
            blob = types.Blob(data=audio, mime_type="audio/pcm;rate=16000")
            await session.send_realtime_input(audio=blob)
        events = await turn(session)
        await session.send_context_update(tools=[OTHER_TOOL])
        turns = types.Content(role="user", parts=[types.Part(text="And now?")])
        await session.send_client_content(turns=turns, turn_complete=True)
        return events + await turn(session)


async def test_the_sdk_sees_the_same_messages_with_and_without_the_gateway(tmp_path: Path) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    async with live_world(tmp_path, *REPLIES, heard=HEARD, tls_cert=cert) as world:
        through = await conversation(world.gateway.port, authority)
        assert world.session.tool_names == ["other", "demo__add", "demo__fail"]
        heard = world.session.received_audio
    provider = ScriptedLive(SpeechScript(*REPLIES, transcripts=HEARD))
    async with provider.serving(authority.server_context(tmp_path)):
        direct = await conversation(provider.port, authority)
    assert len(direct) > 20
    assert through == direct
    assert heard == provider.sessions[0].received_audio == [LOUD, QUIET]


async def test_the_sdk_gets_the_answer_of_a_tool_that_it_does_not_know(tmp_path: Path) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    call = SpokenCall("demo__add", {"a": 20, "b": 22}, "call_1")
    async with (
        live_world(tmp_path, SpokenReply("", (call,)), SpokenReply("Forty two."), tls_cert=cert) as world,
        client(world.gateway.port, authority).aio.live.connect(model="fairlead/speech", config=CONFIG) as session,
    ):
        await session.send_realtime_input(text="How much?")
        messages = await turn(session)
        words = [each.get("server_content", {}).get("output_transcription", {}).get("text", "") for each in messages]
        assert "".join(words) == "Forty two. "
        assert not [each for each in messages if "tool_call" in each]
        assert world.session.results()[0]["response"] == {"output": "42"}


def kinds(events: list[dict[str, Any]]) -> set[str]:
    """Kinds of content in the messages of a turn."""
    return {kind for event in events for kind in event.get("server_content", {})}


@pytest.mark.parametrize("model", [NEW, OLD])
async def test_the_sdk_sees_a_turn_that_an_engine_answers_as_any_other(tmp_path: Path, model: str) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    theirs = SpokenReply("Let me ask.", (CALL, SpokenCall("theirs", {"q": 1}, "call_2")))

    async def look(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "long ago"}]}

    async with (
        routed_live_world(
            tmp_path,
            theirs,
            SpokenReply("Long ago."),
            spoken=[SpokenReply("Good morning.")],
            model=model,
            heard=["good morning", "the legend"],
            transcripts=["good morning"],
            tls_cert=cert,
            answer=look,
            **DEEP,
        ) as world,
        client(world.gateway.port, authority).aio.live.connect(model=model, config=CONFIG) as session,
    ):
        turns = []
        for _ in range(2):
            for audio in (VOICE, PAUSE):
                blob = types.Blob(data=audio, mime_type="audio/pcm;rate=16000")
                await session.send_realtime_input(audio=blob)
            turns.append(await turn(session))
        others, engines = turns
        assert kinds(engines) == kinds(others)
        assert engines[-1]["server_content"] == others[-1]["server_content"] == {"turn_complete": True}
        texts = [each.get("server_content", {}).get("output_transcription", {}).get("text", "") for each in engines]
        assert "".join(texts) == "Let me ask.Long ago."
        (called,) = [each["tool_call"] for each in engines if "tool_call" in each]
        assert called["function_calls"] == [{"id": "call_2", "name": "theirs", "args": {"q": 1}}]
        assert [call["name"] for call in world.called] == ["lookup"]
