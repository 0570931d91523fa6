"""Conversations over any speech engine, so that one suite of tests says what all of them have in common.

async with engine.world(tmp_path, SpokenReply("Hello")) as world, engine.talk(world) as talk:
    await talk.ask("Hello?")
    await talk.answers(1)
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cascadeworld import LOUD as LOUD_SPEECH
from cascadeworld import QUIET as LONG_SILENCE
from cascadeworld import CascadeWorld, cascade_world, speak
from fairlead_app.gateway import Gateway
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.scripted import SpokenReply
from liveworld import LOUD, QUIET, LiveClient, LiveWorld, live_world, own_function
from speechworld import SILENCE, SPEECH, RealtimeClient, SpeechWorld, own_tool, speech_world
from waiting import eventually


class SpokenWorld(Protocol):
    """Gateway, provider and MCP server."""

    gateway: Gateway
    called: list[dict[str, Any]]

    @property
    def metrics(self) -> SpeechMetrics:
        """Values of the gateway's metrics."""
        ...


class Conversation(Protocol):
    """One session, from the client's and the provider's point of view."""

    @property
    def provider_tools(self) -> list[str]:
        """Names of the functions that the model has received."""
        ...

    @property
    def results(self) -> dict[str, str]:
        """Results that the model received from the gateway, by call: their text, including errors."""
        ...

    @property
    def client_calls(self) -> list[str]:
        """Ids of calls that the client received."""
        ...

    @property
    def unspoken(self) -> list[tuple[str, Any]]:
        """Ids of calls, with the parts of their results that the client received as events."""
        ...

    def frames(self) -> str:
        """All messages that the client received."""
        ...

    async def ask(self, text: str = "Go on") -> None:
        """Have the model answer a text of the user."""
        ...

    async def speak(self) -> None:
        """Have the model answer speech of the user."""
        ...

    async def begin_to_speak(self) -> None:
        """The user begins to speak, possibly during an answer."""
        ...

    async def stop_speaking(self) -> None:
        """The user stops speaking."""
        ...

    async def wait_until_spoken(self, text: str) -> None:
        """Wait until the model has spoken a text."""
        ...

    async def wait_until_settled(self) -> None:
        """Wait until the gateway can change the tools."""
        ...

    async def wait_for_calls(self, count: int) -> None:
        """Wait until the client has received calls."""
        ...

    async def answer(self, ident: str, name: str) -> None:
        """Answer a call as the client, and let the model continue."""
        ...

    async def wish(self, **members: Any) -> None:
        """Say a command for the gateway."""
        ...

    async def refusal(self) -> str:
        """Wait for the gateway's refusal of a command."""
        ...


class RealtimeTalk:
    """Session of OpenAI Realtime."""

    def __init__(self, world: SpeechWorld, client: RealtimeClient) -> None:
        self._world = world
        self._client = client

    @property
    def provider_tools(self) -> list[str]:
        return self._world.session.tool_names

    @property
    def results(self) -> dict[str, str]:
        items = [each["item"] for each in self._world.session.of_type("conversation.item.create")]
        return {
            item["call_id"]: item["output"]
            for item in items
            if item["type"] == "function_call_output" and item.get("id", "").startswith("fairlead_")
        }

    @property
    def client_calls(self) -> list[str]:
        outputs = [item for done in self._client.of_type("response.done") for item in done["response"]["output"]]
        return [item["call_id"] for item in outputs if item["type"] == "function_call"]

    @property
    def unspoken(self) -> list[tuple[str, Any]]:
        return [(each["call_id"], each["content"]) for each in self._client.of_type("fairlead.tool_result")]

    def frames(self) -> str:
        return "\n".join(self._client.frames)

    async def ask(self, text: str = "Go on") -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self._client.send("conversation.item.create", item=item)
        await self._client.send("response.create")

    async def speak(self) -> None:
        await self._client.speak()

    async def begin_to_speak(self) -> None:
        await self._client.send("input_audio_buffer.append", audio=SPEECH)

    async def stop_speaking(self) -> None:
        await self._client.send("input_audio_buffer.append", audio=SILENCE)

    async def wait_until_spoken(self, text: str) -> None:
        kind = "response.output_audio_transcript.done"
        count = 0
        while text not in [each["transcript"] for each in self._client.of_type(kind)]:
            count += 1
            await self._client.until("response.done", count)

    async def wait_until_settled(self) -> None:
        """Return at once: tools can be sent between any two responses."""

    async def wait_for_calls(self, count: int) -> None:
        seen = 0
        while len(self.client_calls) < count:
            seen += 1
            await self._client.until("response.done", seen)

    async def answer(self, ident: str, name: str) -> None:
        item = {"type": "function_call_output", "call_id": ident, "output": "ok"}
        await self._client.send("conversation.item.create", item=item)
        await self._client.send("response.create")

    async def wish(self, **members: Any) -> None:
        await self._client.send("fairlead.session.update", **members)

    async def refusal(self) -> str:
        return str((await self._client.until("error"))[0]["error"]["message"])


class CascadedTalk(RealtimeTalk):
    """Session of a cascaded engine."""

    def __init__(self, world: CascadeWorld, client: RealtimeClient) -> None:
        self._cascade = world
        self._client = client

    @property
    def provider_tools(self) -> list[str]:
        return self._cascade.tool_names

    @property
    def results(self) -> dict[str, str]:
        items = [each.wire for each in self._cascade.session.state.conversation.items()]
        return {
            item["call_id"]: item["output"]
            for item in items
            if item["type"] == "function_call_output" and item["id"].startswith("fairlead_")
        }

    async def speak(self) -> None:
        await speak(self._client)

    async def begin_to_speak(self) -> None:
        await self._client.send("input_audio_buffer.append", audio=LOUD_SPEECH)

    async def stop_speaking(self) -> None:
        await self._client.send("input_audio_buffer.append", audio=LONG_SILENCE)


class LiveTalk:
    """Session of Gemini Live."""

    def __init__(self, world: LiveWorld, client: LiveClient) -> None:
        self._world = world
        self._client = client
        self._theirs: set[str] = set()

    @property
    def provider_tools(self) -> list[str]:
        return self._world.session.tool_names

    @property
    def results(self) -> dict[str, str]:
        results = {}
        for each in self._world.session.results():
            if each["id"] not in self._theirs:
                results[each["id"]] = str(each["response"].get("output", each["response"].get("error")))
        return results

    @property
    def client_calls(self) -> list[str]:
        return [call["id"] for made in self._client.of_type("toolCall") for call in made["functionCalls"]]

    @property
    def unspoken(self) -> list[tuple[str, Any]]:
        return [(each["callId"], each["content"]) for each in self._client.of_type("fairleadToolResult")]

    def frames(self) -> str:
        return b"\n".join(self._client.frames).decode()

    async def ask(self, text: str = "Go on") -> None:
        await self._client.ask(text)

    async def speak(self) -> None:
        await self._client.speak()

    async def begin_to_speak(self) -> None:
        await self._client.hear(LOUD)

    async def stop_speaking(self) -> None:
        await self._client.hear(QUIET)

    async def wait_until_spoken(self, text: str) -> None:
        while text not in self._client.transcript():
            await self._client.until("serverContent", len(self._client.of_type("serverContent")) + 1)
        await self._client.turns(1)

    async def wait_until_settled(self) -> None:
        session = self._world.bridge._session
        assert isinstance(session, LiveSession)
        await eventually(lambda: session._turns.handle_current)

    async def wait_for_calls(self, count: int) -> None:
        while len(self.client_calls) < count:
            await self._client.until("toolCall", len(self._client.of_type("toolCall")) + 1)

    async def answer(self, ident: str, name: str) -> None:
        self._theirs.add(ident)
        response = {"id": ident, "name": name, "response": {"output": "ok"}}
        await self._client.send(toolResponse={"functionResponses": [response]})

    async def wish(self, **members: Any) -> None:
        await self._client.send(fairleadSessionUpdate=members)

    async def refusal(self) -> str:
        return str((await self._client.until("fairleadError"))[0]["message"])


class RealtimeEngine:
    """OpenAI Realtime."""

    name = "openai-realtime"

    @contextlib.asynccontextmanager
    async def talk(
        self,
        folder: Path,
        *replies: SpokenReply,
        own_tools: Sequence[str] = (),
        query: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AsyncIterator[tuple[SpokenWorld, Conversation]]:
        """A world, and a session whose client has its own tools. `more` are arguments of the world."""
        parameters = "&".join(["model=gpt-realtime", *(f"{name}={value}" for name, value in (query or {}).items())])
        async with speech_world(folder, *replies, **more) as world, world.client(parameters) as client:
            audio = {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}
            await client.update(audio=audio, tools=[own_tool(name) for name in own_tools])
            await client.until("session.updated")
            yield world, RealtimeTalk(world, client)


class CascadedEngine:
    """A chain of speech to text, a model and text to speech."""

    name = "cascaded"

    @contextlib.asynccontextmanager
    async def talk(
        self,
        folder: Path,
        *replies: SpokenReply,
        own_tools: Sequence[str] = (),
        query: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AsyncIterator[tuple[SpokenWorld, Conversation]]:
        """A world, and a session whose client has its own tools. `more` are arguments of the world."""
        parameters = "&".join(["model=assistant", *(f"{name}={value}" for name, value in (query or {}).items())])
        async with cascade_world(folder, *replies, **more) as world, world.client(parameters) as client:
            await client.update(tools=[own_tool(name) for name in own_tools])
            await client.until("session.updated")
            yield world, CascadedTalk(world, client)


class LiveEngine:
    """Gemini Live with one of its models."""

    def __init__(self, model: str) -> None:
        self.name = model

    @contextlib.asynccontextmanager
    async def talk(
        self,
        folder: Path,
        *replies: SpokenReply,
        own_tools: Sequence[str] = (),
        query: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AsyncIterator[tuple[SpokenWorld, Conversation]]:
        """A world, and a session whose client has its own tools. `more` are arguments of the world."""
        parameters = "&".join(f"{name}={value}" for name, value in (query or {}).items())
        setup = {"tools": [own_function(name) for name in own_tools]}
        async with (
            live_world(folder, *replies, model=self.name, **more) as world,
            world.client(parameters, setup=setup) as client,
        ):
            yield world, LiveTalk(world, client)
