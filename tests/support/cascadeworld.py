"""A gateway with a cascaded engine over scripted servers, an MCP server that adds numbers, and clients.

async with cascade_world(tmp_path, SpokenReply("Hello.")) as world, world.client() as client:
    await client.speak()
    await client.until("response.done")
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_speech.cascaded.answering import TurnAnswerer
from fairlead_speech.cascaded.fake import ScriptedCascade
from fairlead_speech.cascaded.session import CascadedSession
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.routed.routing import RoutedSession
from fairlead_speech.scripted import SpeechScript, SpokenReply
from speechworld import MODEL as SPEECH_MODEL
from speechworld import RealtimeClient, SpeechWorld, SpokenGateway, realtime_client, spoken_gateway
from waiting import eventually

MODEL = "assistant"
LOUD = base64.b64encode(b"\0\x10" * 4800).decode()
"""200 ms of speech."""
QUIET = base64.b64encode(bytes(28800)).decode()
"""600 ms of silence, which ends a turn."""


async def speak(client: RealtimeClient) -> None:
    """Send one turn of speech."""
    await client.send("input_audio_buffer.append", audio=LOUD)
    await client.send("input_audio_buffer.append", audio=QUIET)


@dataclass
class CascadeWorld(SpokenGateway):
    """The running processes, with the requests that they received."""

    backends: ScriptedCascade

    @property
    def session(self) -> CascadedSession:
        """The only open session of the engine."""
        session = self.bridge._provider
        assert isinstance(session, CascadedSession)
        return session

    @property
    def tool_names(self) -> list[str]:
        """Names of the functions that the model has received."""
        return self.session.state.config.tool_names

    @contextlib.asynccontextmanager
    async def client(self, query: str = f"model={MODEL}", *, ready: bool = True) -> AsyncIterator[RealtimeClient]:
        """Connect a client. With `ready`, wait until the engine has the gateway's tools."""
        url = f"http://127.0.0.1:{self.gateway.port}/v1/realtime?{query}"
        async with realtime_client(url) as client:
            if ready:
                await eventually(lambda: bool(self.tool_names))
            yield client


@dataclass
class RoutedWorld(SpeechWorld):
    """A speech model whose slow turns are answered by a cascaded engine."""

    backends: ScriptedCascade

    @property
    def routed_session(self) -> RoutedSession:
        """The open session."""
        session = self.bridge._session
        assert isinstance(session, RoutedSession)
        return session

    @property
    def answerer(self) -> TurnAnswerer:
        """The cascaded engine of the session."""
        return self.routed_session._answerer


@contextlib.asynccontextmanager
async def routed_world(
    folder: Path,
    *replies: SpokenReply,
    spoken: Sequence[SpokenReply] = (),
    heard: Sequence[str] = (),
    slow_turns: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    refuses: Sequence[str] = (),
    **more: Any,
) -> AsyncIterator[RoutedWorld]:
    """`replies` are those of the engine's model, `spoken` and `heard` those of the speech model. `engine`: more members
    of the engine. `refuses`: members of `audio.input` that the speech model's provider refuses.
    """
    realtime = ScriptedRealtime(SpeechScript(*spoken, transcripts=tuple(heard)), refuses=frozenset(refuses))
    backends = ScriptedCascade(SpeechScript(*replies))
    async with realtime.serving(), backends.serving():
        slow = {"engine": "voice", **(slow_turns or {})}
        speech = {"baseUrl": f"http://127.0.0.1:{realtime.port}/v1", "models": [SPEECH_MODEL], "slowTurns": slow}
        base = {"baseUrl": f"http://127.0.0.1:{backends.port}/v1"}
        providers = {"speech": speech, **engine_over(base, base, engine or {})}
        async with spoken_gateway(folder, SPEECH_MODEL, providers, **more) as (gateway, seen):
            yield RoutedWorld(gateway, seen, realtime, backends)


def engine_over(
    speech: Mapping[str, Any], local: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Providers: an engine that uses speech servers, and its model."""
    voice = {
        "kind": "cascaded",
        "models": [MODEL],
        "llm": "brain",
        "stt": {"model": "whisper", **speech},
        "tts": {"model": "kokoro", "voice": "af_heart", **speech},
        **more,
    }
    return {"local": {**local, "models": ["brain"]}, "voice": voice}


@contextlib.asynccontextmanager
async def cascade_world(
    folder: Path,
    *replies: SpokenReply,
    heard: Sequence[str] = (),
    engine: Mapping[str, Any] | None = None,
    backend: Mapping[str, Any] | None = None,
    key: str = "",
    delay: float = 0.0,
    **more: Any,
) -> AsyncIterator[CascadeWorld]:
    """`engine`: further members of the engine. `backend`: further members of its speech servers, which require the
    `key` if it is set. `more`: keywords of `spoken_gateway`.
    """
    backends = ScriptedCascade(SpeechScript(*replies, transcripts=tuple(heard)), key, delay)
    async with backends.serving():
        base = {"baseUrl": f"http://127.0.0.1:{backends.port}/v1"}
        speech = {**base, **(backend or {})}
        local = {name: value for name, value in speech.items() if name != "model"}
        providers = engine_over(speech, local, engine or {})
        async with spoken_gateway(folder, MODEL, providers, **more) as (gateway, seen):
            yield CascadeWorld(gateway, seen, backends)
