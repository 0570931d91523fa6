"""Gemini Live as an engine of a played session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp

from fairlead_mcp.addresses import authority
from fairlead_speech.gemini.fake import ScriptedLive
from fairlead_speech.scripted import MadeCall, ScriptedConnection, SpeechScript
from liveworld import LOUD, PATH, QUIET, LiveClient
from playengines import PlayTalk, speak
from voicetables import SPEECH as SPEECH_TABLE


class LivePlayTalk:
    """Session of Gemini Live."""

    def __init__(self, provider: ScriptedLive, client: LiveClient) -> None:
        self._provider = provider
        self._client = client
        self._sent = 0

    @property
    def connections(self) -> Sequence[ScriptedConnection]:
        return self._provider.sessions

    @property
    def provider_tools(self) -> list[str]:
        return self._provider.sessions[-1].tool_names

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        return self._sent, sum(map(len, self._provider.sessions[-1].received_audio))

    @property
    def heard_bytes(self) -> int:
        return len(self._client.audio())

    @property
    def over(self) -> bool:
        turn = self._provider.sessions[-1].turn
        return turn is None or turn.over

    def transcript(self) -> str:
        return self._client.transcript()

    def images(self) -> list[tuple[str, str]]:
        events = self._client.of_type("fairleadToolResult")
        return [(each["callId"], part["mimeType"]) for each in events for part in each["content"]]

    def calls_by_id(self) -> dict[str, MadeCall]:
        return {ident: call for connection in self.connections for ident, call in connection.made.items()}

    def tool_changes(self) -> list[tuple[float, frozenset[str]]]:
        changes = []
        for connection in self.connections:
            for at, message in zip(connection.received_at, connection.received, strict=False):
                tools = message.get("setup", {}).get("tools") or message.get("contextUpdate", {}).get("tools", {}).get(
                    "tools"
                )
                if tools is not None:
                    declared = (each["name"] for tool in tools for each in tool.get("functionDeclarations", ()))
                    changes.append((at, frozenset(declared)))
        return changes

    def results(self) -> dict[str, tuple[float, str]]:
        results = {}
        for connection in self.connections:
            for at, message in zip(connection.received_at, connection.received, strict=False):
                for each in message.get("toolResponse", {}).get("functionResponses", ()):
                    response = each["response"]
                    results[each["id"]] = at, str(response.get("output", response.get("error", response)))
        return results

    async def begin(self, words: str) -> None:
        async def piece() -> None:
            self._sent += len(LOUD)
            await self._client.hear(LOUD)

        await speak(words, piece)

    async def finish(self) -> None:
        self._sent += len(QUIET)
        await self._client.hear(QUIET)

    async def ask(self) -> None:
        """No-op: the model answers on its own after the user has spoken."""

    async def wish(self, tier: str) -> None:
        await self._client.send(fairleadSessionUpdate={"tier": tier})


class LivePlay:
    """Gemini Live with one of its models."""

    agent = "s2s"
    table = SPEECH_TABLE
    hears_partials = True
    asked_with_tools = False

    def __init__(self, name: str, model: str, *, hears_first: bool) -> None:
        self.name = name
        self.hears_first = hears_first
        self._model = model
        self._served: ScriptedLive | None = None

    def providers(self, host: str, name: str) -> dict[str, dict[str, Any]]:
        assert self._served is not None
        base = f"http://{authority(host, self._served.port)}"
        return {name: {"kind": "gemini", "baseUrl": base, "models": [self._model]}}

    @contextlib.asynccontextmanager
    async def serving(self, script: SpeechScript, host: str) -> AsyncIterator[object]:
        self._served = ScriptedLive(script, binary=True, partials=True)
        async with self._served.serving(host=host):
            yield self._served

    @contextlib.asynccontextmanager
    async def talk(self, base: str, key: str) -> AsyncIterator[PlayTalk]:
        assert self._served is not None
        headers = {"x-goog-api-key": key}
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(f"{base}{PATH}", max_msg_size=0, headers=headers) as socket,
        ):
            client = LiveClient(socket)
            reading = asyncio.create_task(client.read())
            model_setup = {
                "model": f"models/{self._model}",
                "inputAudioTranscription": {},
                "outputAudioTranscription": {},
            }
            try:
                await client.send(setup=model_setup)
                await client.until("setupComplete")
                yield LivePlayTalk(self._served, client)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
