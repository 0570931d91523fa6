"""A cascaded engine of the gateway as the engine of a played session. Its three servers are scripted."""

from __future__ import annotations

import base64
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

from cascadeworld import LOUD, MODEL, QUIET, engine_over
from fairlead_mcp.addresses import authority
from fairlead_speech.cascaded.fake import ScriptedCascade
from fairlead_speech.scripted import MadeCall, SpeechScript
from playengines import PlayTalk
from playrealtime import RealtimePlayClient, session_of
from speechworld import RealtimeClient
from voicetables import CASCADE as CASCADE_TABLE

_LOUD_BYTE = base64.b64decode(LOUD)[1]
"""Byte that is half of each sample of speech, and never occurs in silence."""


class CascadedPlayTalk(RealtimePlayClient):
    """Session of a cascaded engine."""

    loud = LOUD
    quiet = QUIET

    def __init__(self, servers: ScriptedCascade, client: RealtimeClient) -> None:
        super().__init__(client)
        self._servers = servers

    @property
    def provider_tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self._servers.requests[-1].get("tools", ())]

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        """Bytes of speech only, because an engine drops silence between turns."""
        word = base64.b64decode(LOUD).count(_LOUD_BYTE)
        return self._words * word, sum(audio.count(_LOUD_BYTE) for audio, _ in self._servers.transcription_requests)

    def transcript(self) -> str:
        deltas = self._client.of_type("response.output_audio_transcript.delta")
        by_item = itertools.groupby(deltas, key=lambda each: each["item_id"])
        return "".join(f"{''.join(each['delta'] for each in events).strip()} " for _, events in by_item)

    def calls_by_id(self) -> dict[str, MadeCall]:
        return self._servers.made

    def tool_changes(self) -> list[tuple[float, frozenset[str]]]:
        changes: list[tuple[float, frozenset[str]]] = []
        for at, body in zip(self._servers.requested_at, self._servers.requests, strict=True):
            tools = frozenset(tool["function"]["name"] for tool in body.get("tools", ()))
            if not changes or changes[-1][1] != tools:
                changes.append((at, tools))
        return changes

    def results(self) -> dict[str, tuple[float, str]]:
        results: dict[str, tuple[float, str]] = {}
        for at, body in zip(self._servers.requested_at, self._servers.requests, strict=True):
            for message in body["messages"]:
                if message["role"] == "tool":
                    results.setdefault(message["tool_call_id"], (at, str(message["content"])))
        return results


class CascadedPlay:
    """A chain of speech to text, a model and text to speech."""

    name = "cascaded engine"
    agent = "qa"
    table = CASCADE_TABLE
    hears_first = True
    hears_partials = False
    asked_with_tools = True

    def __init__(self) -> None:
        self._served: ScriptedCascade | None = None

    def providers(self, host: str, name: str) -> dict[str, dict[str, Any]]:
        assert self._served is not None
        base = {"baseUrl": f"http://{authority(host, self._served.port)}/v1"}
        providers = engine_over(base, base, {})
        return {name: dict(providers["voice"]), f"{name}-model": dict(providers["local"])}

    @contextlib.asynccontextmanager
    async def serving(self, script: SpeechScript, host: str) -> AsyncIterator[object]:
        self._served = ScriptedCascade(script)
        async with self._served.serving(host):
            yield self._served

    @contextlib.asynccontextmanager
    async def talk(self, base: str, key: str) -> AsyncIterator[PlayTalk]:
        assert self._served is not None
        async with session_of(base, key, MODEL) as client:
            yield CascadedPlayTalk(self._served, client)
