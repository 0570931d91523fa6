"""A gateway in front of a scripted Gemini Live, with an MCP server that adds numbers, and clients of Gemini Live.

async with live_world(tmp_path, SpokenReply("Hello")) as world, world.client() as client:
    await client.ask("Hello?")
    await client.turns(1)
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from fairlead_speech.gemini.fake import LiveScriptSession, ScriptedLive
from fairlead_speech.scripted import SpeechScript, SpokenReply
from speechworld import SpokenGateway, spoken_gateway

NEW = "gemini-3.8-live"
OLD = "gemini-2.5-flash-live"
BLOCKS = "gemini-3.1-flash-live-preview"
PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
LOUD = b"\1" * 640
"""20 ms of PCM at 16 kHz."""
QUIET = bytes(640)


def own_function(name: str = "theirs") -> dict[str, Any]:
    """A tool of the client."""
    return {"functionDeclarations": [{"name": name, "description": "The client's"}]}


@dataclass
class LiveClient:
    """A client of Gemini Live, which stores all received messages."""

    socket: aiohttp.ClientWebSocketResponse
    messages: list[dict[str, Any]] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    kinds: set[aiohttp.WSMsgType] = field(default_factory=set)
    closed: tuple[int | None, str] | None = None
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, **message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def hear(self, audio: bytes) -> None:
        """Send audio."""
        data = {"mimeType": "audio/pcm;rate=16000", "data": base64.b64encode(audio).decode()}
        await self.send(realtimeInput={"audio": data})

    async def speak(self) -> None:
        """Send one turn of speech."""
        await self.hear(LOUD)
        await self.hear(QUIET)

    async def ask(self, text: str) -> None:
        """Send one turn of text."""
        turns = [{"role": "user", "parts": [{"text": text}]}]
        await self.send(clientContent={"turns": turns, "turnComplete": True})

    def of_type(self, name: str) -> list[Any]:
        """Received messages with that member."""
        return [message[name] for message in self.messages if name in message]

    def content(self, name: str) -> list[Any]:
        """Members with that name in the server's content."""
        return [event[name] for event in self.of_type("serverContent") if name in event]

    def transcript(self) -> str:
        """Transcript of the model's speech."""
        return "".join(piece["text"] for piece in self.content("outputTranscription"))

    def audio(self) -> bytes:
        """All received audio."""
        parts = [part for turn in self.content("modelTurn") for part in turn["parts"]]
        return b"".join(base64.b64decode(part["inlineData"]["data"]) for part in parts)

    async def until(self, name: str, count: int = 1) -> list[Any]:
        """Wait for a number of messages with a member."""
        while len(self.of_type(name)) < count:
            await self._next()
        return self.of_type(name)

    async def turns(self, count: int) -> None:
        """Wait for a number of finished turns."""
        while len(self.content("turnComplete")) < count:
            await self._next()

    async def end(self) -> tuple[int | None, str]:
        """Wait until the connection is closed. Returns its code and reason."""
        while self.closed is None:
            self._more.clear()
            await self._more.wait()
        return self.closed

    async def _next(self) -> None:
        assert self.closed is None, f"closed: {self.closed}, after {[[*each] for each in self.messages]}"
        self._more.clear()
        await self._more.wait()

    async def read(self) -> None:
        while True:
            message = await self.socket.receive()
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                self.kinds.add(message.type)
                self.frames.append(message.data.encode() if isinstance(message.data, str) else message.data)
                self.messages.append(json.loads(message.data))
            else:
                reason = message.extra if message.type is aiohttp.WSMsgType.CLOSE else ""
                self.closed = self.socket.close_code, reason or ""
            self._more.set()
            if self.closed is not None:
                return


@dataclass
class LiveWorld(SpokenGateway):
    """The running processes, with the requests that they received."""

    provider: ScriptedLive
    model: str

    @property
    def session(self) -> LiveScriptSession:
        """The provider's last connection."""
        return self.provider.sessions[-1]

    def url(self, query: str = "") -> str:
        return f"http://127.0.0.1:{self.gateway.port}{PATH}?{query}"

    @contextlib.asynccontextmanager
    async def client(
        self, query: str = "", *, ready: bool = True, setup: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[LiveClient]:
        """Connect a client. With `ready`, wait for the answer to its setup."""
        async with aiohttp.ClientSession() as http, http.ws_connect(self.url(query), max_msg_size=0, **options) as ws:
            client = LiveClient(ws)
            reading = asyncio.create_task(client.read())
            model_setup = {
                "model": f"models/{self.model}",
                "inputAudioTranscription": {},
                "outputAudioTranscription": {},
            }
            try:
                await client.send(setup={**model_setup, **(setup or {})})
                if ready:
                    await client.until("setupComplete")
                yield client
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


@contextlib.asynccontextmanager
async def live_world(
    folder: Path,
    *replies: SpokenReply,
    model: str = NEW,
    heard: Sequence[str] = (),
    provider: Mapping[str, Any] | None = None,
    key: str = "",
    binary: bool = False,
    **more: Any,
) -> AsyncIterator[LiveWorld]:
    """A gateway in front of Gemini Live. With a `key`, the provider requires it. `more` are arguments of
    `spoken_gateway`.
    """
    scripted = ScriptedLive(SpeechScript(*replies, transcripts=tuple(heard)), key, binary=binary)
    async with scripted.serving():
        base = {"kind": "gemini", "baseUrl": f"http://127.0.0.1:{scripted.port}", **(provider or {})}
        async with spoken_gateway(folder, model, {"scripted": {"models": [model], **base}}, **more) as (gateway, seen):
            yield LiveWorld(gateway, seen, scripted, model)
