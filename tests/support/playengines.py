"""Engines that a session is played over: a scripted provider, and a client that speaks to it through a gateway."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Protocol

import aiohttp

from fairlead_speech.scripted.connection import ScriptedConnection
from fairlead_speech.scripted.gemini import ScriptedLive
from fairlead_speech.scripted.realtime import ScriptedRealtime
from fairlead_speech.scripted.script import SpeechScript
from liveworld import LOUD, NEW, OLD, PATH, QUIET, LiveClient
from speechworld import MODEL, SILENCE, SPEECH, RealtimeClient
from voicetables import SPEECH as SPEECH_TABLE

FRAME_SECONDS: Final = 0.04
"""Between two pieces of the user's speech, each of which is a word."""
Table = dict[str, dict[str, set[str]]]


class PlayTalk(Protocol):
    """One session, seen from its client and from the model."""

    @property
    def connections(self) -> Sequence[ScriptedConnection]:
        """Connections of the provider, the newest one last."""
        ...

    @property
    def provider_tools(self) -> list[str]:
        """Names of the functions that the model has."""
        ...

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        """Bytes of audio that the client sent, and that the model heard."""
        ...

    @property
    def heard_bytes(self) -> int:
        """Bytes of audio that the client got."""
        ...

    @property
    def over(self) -> bool:
        """Whether the model has finished what it says."""
        ...

    def transcript(self) -> str:
        """All that the client was told the model said."""
        ...

    def images(self) -> list[tuple[str, str]]:
        """Ids of calls and media types of what came to the client as events."""
        ...

    def shown(self) -> list[tuple[float, frozenset[str]]]:
        """When the model got which functions, by the monotonic clock."""
        ...

    def results(self) -> dict[str, tuple[float, str]]:
        """When the model got a call's result, and its text."""
        ...

    async def begin(self, words: str) -> None:
        """The user says some words; the end of it is not heard yet."""
        ...

    async def finish(self) -> None:
        """The user has spoken: the words are heard, where they were not before."""
        ...

    async def ask(self) -> None:
        """Have the model answer, where it does not by itself."""
        ...

    async def wish(self, tier: str) -> None:
        """Ask the gateway for a tier."""
        ...


class PlayEngine(Protocol):
    """An engine. What a provider is, what its sessions are like, and which tools a tier has for it."""

    name: str
    agent: str
    """Agent whose key the client has."""
    table: Table
    """Tools that each tier adds for the agent."""
    hears_first: bool
    """Whether tools that follow from words are there before the model answers them; else with the next turn."""
    hears_partials: bool
    """Whether words are known before the user has spoken to the end."""

    def provider(self, host: str) -> dict[str, Any]:
        """Entry of the file of providers, while `serving`. `host` is where the gateway reaches this machine."""
        ...

    def serving(self, script: SpeechScript, host: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Serve the model at that address of this machine."""
        ...

    def talk(self, base: str, key: str) -> contextlib.AbstractAsyncContextManager[PlayTalk]:
        """A session through the gateway at `base`."""
        ...


async def _spoken(words: str, send: Any) -> None:
    for _ in words.split():
        await send()
        await asyncio.sleep(FRAME_SECONDS)


class RealtimePlayTalk:
    """Session of OpenAI Realtime whose client asks for each answer, once it has read what the user said."""

    def __init__(self, provider: ScriptedRealtime, client: RealtimeClient) -> None:
        self._provider, self._client = provider, client
        self._sent = self._turns = 0

    @property
    def connections(self) -> Sequence[ScriptedConnection]:
        return self._provider.sessions

    @property
    def provider_tools(self) -> list[str]:
        return self._provider.sessions[-1].tool_names

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        heard = self._provider.sessions[-1].of_type("input_audio_buffer.append")
        return self._sent, sum(len(base64.b64decode(each["audio"])) for each in heard)

    @property
    def heard_bytes(self) -> int:
        return sum(len(base64.b64decode(each["delta"])) for each in self._client.of_type("response.output_audio.delta"))

    @property
    def over(self) -> bool:
        return len(self._client.of_type("response.created")) == len(self._client.of_type("response.done"))

    def transcript(self) -> str:
        return "".join(each["delta"] for each in self._client.of_type("response.output_audio_transcript.delta"))

    def images(self) -> list[tuple[str, str]]:
        found = self._client.of_type("fairlead.tool_result")
        return [(each["call_id"], part["mimeType"]) for each in found for part in each["content"]]

    def shown(self) -> list[tuple[float, frozenset[str]]]:
        found = []
        for connection in self.connections:
            for at, event in zip(connection.received_at, connection.received, strict=False):
                if event["type"] == "session.update" and "tools" in event["session"]:
                    found.append((at, frozenset(tool["name"] for tool in event["session"]["tools"])))
        return found

    def results(self) -> dict[str, tuple[float, str]]:
        found = {}
        for connection in self.connections:
            for at, event in zip(connection.received_at, connection.received, strict=False):
                item = event.get("item", {})
                if item.get("type") == "function_call_output":
                    found[item["call_id"]] = at, item["output"]
        return found

    async def begin(self, words: str) -> None:
        async def piece() -> None:
            self._sent += len(base64.b64decode(SPEECH))
            await self._client.send("input_audio_buffer.append", audio=SPEECH)

        await _spoken(words, piece)

    async def finish(self) -> None:
        self._turns += 1
        self._sent += len(base64.b64decode(SILENCE))
        await self._client.send("input_audio_buffer.append", audio=SILENCE)
        await self._client.until("conversation.item.input_audio_transcription.completed", self._turns)

    async def ask(self) -> None:
        await self._client.send("response.create")

    async def wish(self, tier: str) -> None:
        await self._client.send("fairlead.session.update", tier=tier)


class RealtimePlay:
    """OpenAI Realtime."""

    name = "OpenAI Realtime"
    agent, table = "s2s", SPEECH_TABLE
    hears_first, hears_partials = True, False

    def __init__(self) -> None:
        self._served: ScriptedRealtime | None = None

    def provider(self, host: str) -> dict[str, Any]:
        assert self._served is not None
        return {"baseUrl": f"http://{host}:{self._served.port}/v1", "models": [MODEL]}

    @contextlib.asynccontextmanager
    async def serving(self, script: SpeechScript, host: str) -> AsyncIterator[object]:
        self._served = ScriptedRealtime(script)
        async with self._served.serving(host):
            yield self._served

    @contextlib.asynccontextmanager
    async def talk(self, base: str, key: str) -> AsyncIterator[PlayTalk]:
        assert self._served is not None
        audio = {"input": {"transcription": {"model": "any"}, "turn_detection": {
            "type": "server_vad", "create_response": False, "interrupt_response": True}}}  # fmt: skip
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(f"{base}/v1/realtime?model={MODEL}", max_msg_size=0, headers=headers) as socket,
        ):
            client = RealtimeClient(socket)
            reading = asyncio.create_task(client.read())
            try:
                await client.until("session.created")
                await client.update(audio=audio)
                await client.until("session.updated")
                yield RealtimePlayTalk(self._served, client)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


class LivePlayTalk:
    """Session of Gemini Live."""

    def __init__(self, provider: ScriptedLive, client: LiveClient) -> None:
        self._provider, self._client = provider, client
        self._sent = 0

    @property
    def connections(self) -> Sequence[ScriptedConnection]:
        return self._provider.sessions

    @property
    def provider_tools(self) -> list[str]:
        return self._provider.sessions[-1].tool_names

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        return self._sent, sum(map(len, self._provider.sessions[-1].heard))

    @property
    def heard_bytes(self) -> int:
        return len(self._client.audio())

    @property
    def over(self) -> bool:
        turn = self._provider.sessions[-1].turn
        return turn is None or turn.over

    def transcript(self) -> str:
        return self._client.said()

    def images(self) -> list[tuple[str, str]]:
        found = self._client.of_type("fairleadToolResult")
        return [(each["callId"], part["mimeType"]) for each in found for part in each["content"]]

    def shown(self) -> list[tuple[float, frozenset[str]]]:
        found = []
        for connection in self.connections:
            for at, message in zip(connection.received_at, connection.received, strict=False):
                tools = message.get("setup", {}).get("tools") or message.get("contextUpdate", {}).get("tools", {}).get(
                    "tools"
                )
                if tools is not None:
                    declared = (each["name"] for tool in tools for each in tool.get("functionDeclarations", ()))
                    found.append((at, frozenset(declared)))
        return found

    def results(self) -> dict[str, tuple[float, str]]:
        found = {}
        for connection in self.connections:
            for at, message in zip(connection.received_at, connection.received, strict=False):
                for each in message.get("toolResponse", {}).get("functionResponses", ()):
                    said = each["response"]
                    found[each["id"]] = at, str(said.get("output", said.get("error", said)))
        return found

    async def begin(self, words: str) -> None:
        async def piece() -> None:
            self._sent += len(LOUD)
            await self._client.hear(LOUD)

        await _spoken(words, piece)

    async def finish(self) -> None:
        self._sent += len(QUIET)
        await self._client.hear(QUIET)

    async def ask(self) -> None:
        """Nothing: the model answers who has spoken."""

    async def wish(self, tier: str) -> None:
        await self._client.send(fairleadSessionUpdate={"tier": tier})


class LivePlay:
    """Gemini Live, by one of its models."""

    agent, table = "s2s", SPEECH_TABLE
    hears_partials = True

    def __init__(self, name: str, model: str, *, hears_first: bool) -> None:
        self.name = name
        self.hears_first = hears_first
        self._model = model
        self._served: ScriptedLive | None = None

    def provider(self, host: str) -> dict[str, Any]:
        assert self._served is not None
        return {"kind": "gemini", "baseUrl": f"http://{host}:{self._served.port}", "models": [self._model]}

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
            asked = {"model": f"models/{self._model}", "inputAudioTranscription": {}, "outputAudioTranscription": {}}
            try:
                await client.send(setup=asked)
                await client.until("setupComplete")
                yield LivePlayTalk(self._served, client)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


def engines() -> list[PlayEngine]:
    """All engines, each anew."""
    return [
        RealtimePlay(),
        LivePlay("Gemini 3.8 Live", NEW, hears_first=True),
        LivePlay("Gemini 2.5 Live", OLD, hears_first=False),
    ]
