"""OpenAI Realtime as an engine of a played session."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp

from fairlead_mcp.addresses import authority
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.scripted import MadeCall, ScriptedConnection, SpeechScript
from playengines import PlayTalk, speak
from speechworld import MODEL, SILENCE, SPEECH, RealtimeClient
from voicetables import SPEECH as SPEECH_TABLE


@contextlib.asynccontextmanager
async def session_of(base: str, key: str, model: str) -> AsyncIterator[RealtimeClient]:
    """A client that requests each answer itself, and interrupts the model when the user speaks."""
    detection = {"type": "server_vad", "create_response": False, "interrupt_response": True}
    audio = {"input": {"transcription": {"model": "any"}, "turn_detection": detection}}
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{base}/v1/realtime?model={model}", max_msg_size=0, headers=headers) as socket,
    ):
        client = RealtimeClient(socket)
        reading = asyncio.create_task(client.read())
        try:
            await client.until("session.created")
            await client.update(audio=audio)
            await client.until("session.updated")
            yield client
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class RealtimePlayClient:
    """The client's side of a session. It requests each answer after it has received the user's transcript."""

    loud = SPEECH
    """Audio of a word."""
    quiet = SILENCE
    """Audio of the pause after a turn."""

    def __init__(self, client: RealtimeClient) -> None:
        self._client = client
        self._words = self._turns = 0

    @property
    def heard_bytes(self) -> int:
        return sum(len(base64.b64decode(each["delta"])) for each in self._client.of_type("response.output_audio.delta"))

    @property
    def over(self) -> bool:
        return len(self._client.of_type("response.created")) == len(self._client.of_type("response.done"))

    def images(self) -> list[tuple[str, str]]:
        events = self._client.of_type("fairlead.tool_result")
        return [(each["call_id"], part["mimeType"]) for each in events for part in each["content"]]

    async def begin(self, words: str) -> None:
        async def piece() -> None:
            self._words += 1
            await self._client.send("input_audio_buffer.append", audio=self.loud)

        await speak(words, piece)

    async def finish(self) -> None:
        self._turns += 1
        await self._client.send("input_audio_buffer.append", audio=self.quiet)
        await self._client.until("conversation.item.input_audio_transcription.completed", self._turns)

    async def ask(self) -> None:
        await self._client.send("response.create")

    async def wish(self, tier: str) -> None:
        await self._client.send("fairlead.session.update", tier=tier)


class RealtimePlayTalk(RealtimePlayClient):
    """Session of OpenAI Realtime."""

    def __init__(self, provider: ScriptedRealtime, client: RealtimeClient) -> None:
        super().__init__(client)
        self._provider = provider

    @property
    def connections(self) -> Sequence[ScriptedConnection]:
        return self._provider.sessions

    @property
    def provider_tools(self) -> list[str]:
        return self._provider.sessions[-1].tool_names

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        word, pause = (len(base64.b64decode(each)) for each in (self.loud, self.quiet))
        heard = self._provider.sessions[-1].of_type("input_audio_buffer.append")
        return self._words * word + self._turns * pause, sum(len(base64.b64decode(each["audio"])) for each in heard)

    def transcript(self) -> str:
        return "".join(each["delta"] for each in self._client.of_type("response.output_audio_transcript.delta"))

    def calls_by_id(self) -> dict[str, MadeCall]:
        return {ident: call for connection in self.connections for ident, call in connection.made.items()}

    def tool_changes(self) -> list[tuple[float, frozenset[str]]]:
        changes = []
        for connection in self.connections:
            for at, event in zip(connection.received_at, connection.received, strict=False):
                if event["type"] == "session.update" and "tools" in event["session"]:
                    changes.append((at, frozenset(tool["name"] for tool in event["session"]["tools"])))
        return changes

    def results(self) -> dict[str, tuple[float, str]]:
        results = {}
        for connection in self.connections:
            for at, event in zip(connection.received_at, connection.received, strict=False):
                item = event.get("item", {})
                if item.get("type") == "function_call_output":
                    results[item["call_id"]] = at, item["output"]
        return results


class RealtimePlay:
    """OpenAI Realtime."""

    name = "OpenAI Realtime"
    agent = "s2s"
    table = SPEECH_TABLE
    hears_first = True
    hears_partials = False
    asked_with_tools = False

    def __init__(self) -> None:
        self._served: ScriptedRealtime | None = None

    def providers(self, host: str, name: str) -> dict[str, dict[str, Any]]:
        assert self._served is not None
        return {name: {"baseUrl": f"http://{authority(host, self._served.port)}/v1", "models": [MODEL]}}

    @contextlib.asynccontextmanager
    async def serving(self, script: SpeechScript, host: str) -> AsyncIterator[object]:
        self._served = ScriptedRealtime(script)
        async with self._served.serving(host):
            yield self._served

    @contextlib.asynccontextmanager
    async def talk(self, base: str, key: str) -> AsyncIterator[PlayTalk]:
        assert self._served is not None
        async with session_of(base, key, MODEL) as client:
            yield RealtimePlayTalk(self._served, client)
