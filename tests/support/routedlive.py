"""A Gemini Live model whose slow turns a cascaded engine answers, behind a gateway, and clients of it.

async with routed_live_world(tmp_path, SpokenReply("Long ago."), heard=["tell me the legend"], **DEEP) as world:
    ...
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascadeworld import engine_over
from fairlead_speech.cascaded.fake import ScriptedCascade
from fairlead_speech.gemini.fake import ScriptedLive
from fairlead_speech.gemini.routing import RoutedLive
from fairlead_speech.scripted import SpeechScript, SpokenReply
from liveworld import NEW, LiveClient, LiveWorld
from speechworld import spoken_gateway
from waiting import eventually

VOICE = b"\0\x10" * 3200
"""200 ms of speech of 16 kHz."""
PAUSE = bytes(19_200)
"""600 ms of silence, which ends a turn."""
ENDS = PAUSE[:16_000]
"""Part of the silence in the turn that it ends."""
BEGINS = PAUSE[16_000:]
"""Part of the silence in the next turn."""


@dataclass
class RoutedLiveWorld(LiveWorld):
    """The running processes, with the requests that they received."""

    backends: ScriptedCascade

    @property
    def routed_session(self) -> RoutedLive:
        """The open session."""
        session = self.bridge._session
        assert isinstance(session, RoutedLive)
        return session

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Roles and texts of the model's text input."""
        return [(each["role"], each["parts"][0]["text"]) for each in self.session.contents]

    async def wait_for_contents(self, *contents: tuple[str, str]) -> None:
        """Wait until the model's text input is exactly this."""
        await eventually(lambda: self.contents == [*contents])

    @property
    def messages(self) -> list[tuple[str, Any]]:
        """Roles and texts in the last request to the engine's model."""
        return [(each["role"], each["content"]) for each in self.backends.requests[-1]["messages"]]


async def speak(client: LiveClient) -> None:
    """Send one turn of speech."""
    await client.hear(VOICE)
    await client.hear(PAUSE)


@contextlib.asynccontextmanager
async def routed_live_world(
    folder: Path,
    *replies: SpokenReply,
    spoken: Sequence[SpokenReply] = (),
    heard: Sequence[str] = (),
    transcripts: Sequence[str] = (),
    model: str = NEW,
    engine: Mapping[str, Any] | None = None,
    slow_turns: Mapping[str, Any] | None = None,
    delay: float = 0.0,
    **more: Any,
) -> AsyncIterator[RoutedLiveWorld]:
    """`replies`: replies of the engine's model; `spoken`: replies of Gemini. `heard`: transcripts of the user's speech
    by the engine's server; `transcripts`: those by Gemini. `engine`: more members of the engine. `delay`: seconds that
    each of the engine's servers takes.
    """
    live = ScriptedLive(SpeechScript(*spoken, transcripts=tuple(transcripts)))
    backends = ScriptedCascade(SpeechScript(*replies, transcripts=tuple(heard)), delay=delay)
    async with live.serving(), backends.serving():
        slow = {"engine": "voice", **(slow_turns or {})}
        gemini = {"kind": "gemini", "baseUrl": f"http://127.0.0.1:{live.port}", "models": [model], "slowTurns": slow}
        base = {"baseUrl": f"http://127.0.0.1:{backends.port}/v1"}
        providers = {"scripted": gemini, **engine_over(base, base, engine or {})}
        async with spoken_gateway(folder, model, providers, **more) as (gateway, seen):
            yield RoutedLiveWorld(gateway, seen, live, model, backends)
