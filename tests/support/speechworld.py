"""A gateway in front of a scripted speech model, with an MCP server that adds numbers, and clients of OpenAI Realtime.

async with speech_world(tmp_path, SpokenReply("Hello")) as world, world.client() as client:
    await client.send("response.create")
    await client.until("response.done")
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from fairlead_api.documents.catalog import ToolEntry
from fairlead_api.documents.rules import Policy, Rules, Tier
from fairlead_app.configuration import Models
from fairlead_app.gateway import Gateway
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.tokens.routes import read_routes
from fairlead_models.providers import read_providers
from fairlead_speech.bridge import SpeechBridge
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.fake import RealtimeScriptSession, ScriptedRealtime
from fairlead_speech.scripted import SpeechScript, SpokenReply
from fairlead_speech.services import SpeechServices
from fairlead_speech.session import SpeechBounds
from gatewayworld import catalog, entry, running
from llmworld import ADDS, FAILS
from toolservers import Reply, Request, answer_modern, raw_server
from waiting import eventually

MODEL = "gpt-realtime"
SPEECH = base64.b64encode(b"\1" * 1920).decode()
SILENCE = base64.b64encode(bytes(1920)).decode()
Call = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


def own_tool(name: str = "theirs") -> dict[str, Any]:
    """A tool of the client."""
    return {"type": "function", "name": name, "description": "The client's", "parameters": {"type": "object"}}


@dataclass
class RealtimeClient:
    """A client of OpenAI Realtime, which stores all received events."""

    socket: aiohttp.ClientWebSocketResponse
    events: list[dict[str, Any]] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    closed: tuple[int | None, str] | None = None
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, kind: str, **members: Any) -> None:
        await self.socket.send_str(json.dumps({"type": kind, **members}))

    async def speak(self) -> None:
        """Send one turn of speech."""
        await self.send("input_audio_buffer.append", audio=SPEECH)
        await self.send("input_audio_buffer.append", audio=SILENCE)

    async def update(self, **session: Any) -> None:
        await self.send("session.update", session={"type": "realtime", **session})

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    async def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for a number of events of a type."""
        while len(self.of_type(kind)) < count:
            assert self.closed is None, f"closed: {self.closed}, after {self.types()}"
            self._more.clear()
            await self._more.wait()
        return self.of_type(kind)

    async def end(self) -> tuple[int | None, str]:
        """Wait until the connection is closed. Returns its code and reason."""
        while self.closed is None:
            self._more.clear()
            await self._more.wait()
        return self.closed

    async def read(self) -> None:
        while True:
            message = await self.socket.receive()
            if message.type is aiohttp.WSMsgType.TEXT:
                self.frames.append(message.data)
                self.events.append(json.loads(message.data))
            else:
                reason = message.extra if message.type is aiohttp.WSMsgType.CLOSE else ""
                self.closed = self.socket.close_code, reason or ""
            self._more.set()
            if self.closed is not None:
                return


@contextlib.asynccontextmanager
async def realtime_client(url: str, **options: Any) -> AsyncIterator[RealtimeClient]:
    """A client whose session has begun."""
    async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0, **options) as ws:
        client = RealtimeClient(ws)
        reading = asyncio.create_task(client.read())
        try:
            await client.until("session.created")
            yield client
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


def services_of(gateway: Gateway) -> SpeechServices:
    """Objects of the gateway that all its sessions share."""
    assert gateway._speech is not None
    return gateway._speech._services


@dataclass
class SpokenGateway:
    """A gateway in front of a provider, with the requests that its MCP server received."""

    gateway: Gateway
    called: list[dict[str, Any]]
    """Parameters of the calls that the MCP server received."""

    @property
    def metrics(self) -> SpeechMetrics:
        """Values of the gateway's metrics."""
        return services_of(self.gateway).metrics

    @property
    def bridge(self) -> SpeechBridge:
        """The only open session."""
        (bridge,) = services_of(self.gateway).running
        return bridge


@dataclass
class SpeechWorld(SpokenGateway):
    """The running processes, with the requests that they received."""

    provider: ScriptedRealtime

    @property
    def session(self) -> RealtimeScriptSession:
        """The provider's last session."""
        return self.provider.sessions[-1]

    def url(self, query: str = f"model={MODEL}") -> str:
        return f"http://127.0.0.1:{self.gateway.port}/v1/realtime?{query}"

    @contextlib.asynccontextmanager
    async def client(
        self, query: str = f"model={MODEL}", *, ready: bool = True, **options: Any
    ) -> AsyncIterator[RealtimeClient]:
        """Connect a client. With `ready`, wait until the provider has the gateway's tools."""
        async with realtime_client(self.url(query), **options) as client:
            if ready:
                await eventually(lambda: bool(self.session.tool_names))
            yield client


@contextlib.asynccontextmanager
async def spoken_gateway(
    folder: Path,
    model: str,
    configured: Mapping[str, Any],
    *,
    tools: Sequence[dict[str, Any]] = (),
    slow: Sequence[dict[str, Any]] = (),
    listed: Sequence[ToolEntry] = (),
    answer: Call | None = None,
    policies: Sequence[Policy] = (),
    tiers: Sequence[Tier] = (),
    bounds: SpeechBounds | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Gateway, list[dict[str, Any]]]]:
    """A gateway in front of providers, with an MCP server and the parameters of its calls. `model` is in the route
    `speech`. `answer` answers calls of three kinds of tools: `tools`, `slow` ones in the tier `deep`, and `listed`
    ones.
    """
    seen: list[dict[str, Any]] = []

    async def call(request: Request) -> dict[str, Any]:
        params = request.message["params"]
        seen.append(params)
        if params["name"] == "add":
            return {"content": [{"type": "text", "text": str(sum(params["arguments"].values()))}]}
        if answer is not None and params["name"] != "fail":
            return await answer(params)
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}

    async def handle(request: Request, reply: Reply) -> None:
        result = await call(request) if request.method == "tools/call" else {}
        answer_modern(request, reply, [ADDS, FAILS, *tools, *slow, *theirs], None, lambda _: result)

    theirs = [json.loads(bytes(each.definition)) for each in listed]
    async with raw_server(handle) as server:
        routes = read_routes({"speech": {"models": [model], "reservedOutputTokens": 0}})
        models = Models(routes, ContextWindows({model: 128000}), None, read_providers(configured, routes), {})
        entries = [*(entry(each, min_tier="deep") for each in slow), *listed]
        demo = catalog("demo", server.url, [ADDS, FAILS, *tools, *entries], trust_annotations=True)
        rules = Rules(policies=tuple(policies), tiers=tuple(tiers))
        async with running(folder, demo, rules, models=models, **{"rest_processes": 0, **settings}) as gateway:
            if bounds is not None:
                services_of(gateway).bounds = bounds
            yield gateway, seen


@contextlib.asynccontextmanager
async def speech_world(
    folder: Path,
    *replies: SpokenReply,
    heard: Sequence[str] = (),
    provider: Mapping[str, Any] | None = None,
    key: str = "",
    **more: Any,
) -> AsyncIterator[SpeechWorld]:
    """A gateway in front of OpenAI Realtime. With a `key`, the provider requires it. `more` are arguments of
    `spoken_gateway`.
    """
    scripted = ScriptedRealtime(SpeechScript(*replies, transcripts=tuple(heard)), key)
    async with scripted.serving():
        base = {"models": [MODEL], "baseUrl": f"http://127.0.0.1:{scripted.port}/v1", **(provider or {})}
        async with spoken_gateway(folder, MODEL, {"scripted": base}, **more) as (gateway, seen):
            yield SpeechWorld(gateway, seen, scripted)
