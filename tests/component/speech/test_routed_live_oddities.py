"""Unusual behavior of clients and providers in routed Gemini Live sessions: no session hangs or is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_speech.gemini.user_turns import UserTurn
from fairlead_speech.scripted import SpokenCall, SpokenReply
from fairlead_speech.session import SpeechBounds
from liveworld import LiveClient, own_function
from routedlive import VOICE, RoutedLiveWorld, routed_live_world, speak
from routedturns import DEEP
from waiting import eventually

DEAF = {"realtimeInputConfig": {"activityHandling": "NO_INTERRUPTION"}}
MARKED = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
DEAF_MARKED = {"realtimeInputConfig": {**MARKED["realtimeInputConfig"], "activityHandling": "NO_INTERRUPTION"}}
MUTE = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
"""Tiers without words that choose them."""
STORY = SpokenReply("Long ago.")
HELLO = SpokenReply("Hello.")
CLIENT_CALL = SpokenReply("", (SpokenCall("theirs", {}, "call_theirs"),))
TOOLS = {"tools": [own_function()]}
RESULT = {"id": "call_theirs", "name": "theirs", "response": {"output": "ok"}}


def held_reply() -> SpokenReply:
    return SpokenReply("It is a very long story.", held=asyncio.Event())


def hold_words(world: RoutedLiveWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold transcripts back. Returns an event that is set when one is requested, and an event that releases them."""
    requested = asyncio.Event()
    go_on = asyncio.Event()
    transcribe = world.routed_session._turns._transcribe

    async def transcribe_later(turn: UserTurn) -> str:
        requested.set()
        await go_on.wait()
        return await transcribe(turn)

    monkeypatch.setattr(world.routed_session._turns, "_transcribe", transcribe_later)
    return requested, go_on


@contextlib.asynccontextmanager
async def written_behind_speech(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, bounds: SpeechBounds | None = None
) -> AsyncIterator[tuple[RoutedLiveWorld, LiveClient]]:
    """A session whose client sent the text "the legend" before the decision about its speech."""
    async with (
        routed_live_world(tmp_path, CLIENT_CALL, STORY, heard=["the legend"], bounds=bounds, **DEEP) as world,
        world.client(setup=TOOLS) as client,
    ):
        requested, go_on = hold_words(world, monkeypatch)
        await speak(client)
        await requested.wait()
        await client.ask(words)
        await eventually(lambda: len(world.routed_session._turns._waiting) == 1)
        go_on.set()
        yield world, client


async def mark(client: LiveClient, name: str) -> None:
    await client.send(realtimeInput={name: {}})


async def test_text_behind_more_speech_than_is_answered_at_once_stops_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "the legend of the crown"
    bounds = SpeechBounds(routed_turns=1)
    async with written_behind_speech(tmp_path, monkeypatch, words, bounds) as (world, client):
        await client.until("toolCallCancellation")
        await client.turns(2)
        assert client.transcript() == "Long ago."
        assert world.metrics.routed == {"cancelled": 1, "ok": 1}


async def test_text_written_before_speech_is_decided_on_belongs_to_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway does not read from the client while it waits, so the client could not answer a call of the engine."""
    async with written_behind_speech(tmp_path, monkeypatch, "of the crown") as (world, client):
        await client.until("toolCall")
        await client.send(toolResponse={"functionResponses": [RESULT]})
        await client.turns(1)
        assert client.transcript() == "Long ago."
        await world.wait_for_contents(("user", "the legend"), ("user", "of the crown"), ("model", "Long ago."))


async def test_no_more_empty_turns_wait_than_others(tmp_path: Path) -> None:
    story = held_reply()
    most = SpeechBounds().routed_turns
    async with (
        routed_live_world(tmp_path, story, **DEEP) as world,
        world.client(setup=DEAF_MARKED) as client,
    ):
        await client.ask("the legend")
        await eventually(lambda: bool(client.content("modelTurn")))
        turns = world.routed_session._turns
        for _ in range(3 * most):
            await mark(client, "activityStart")
            await mark(client, "activityEnd")
        await eventually(lambda: len(turns._waiting) >= most)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(turns._waiting) == most
        assert story.held is not None
        story.held.set()
        await client.turns(2)


async def test_an_engine_does_not_wait_for_a_client_that_is_blocked(tmp_path: Path) -> None:
    """The gateway would not read the client's answers."""
    bounds = SpeechBounds(routed_turns=1)
    async with (
        routed_live_world(tmp_path, CLIENT_CALL, spoken=[HELLO] * 3, heard=["hi"] * 3, bounds=bounds, **DEEP) as world,
        world.client(setup={**TOOLS, **DEAF}) as client,
    ):
        await client.ask("the legend")
        await client.until("toolCall")
        for _ in range(3):
            await speak(client)
        await client.until("toolCallCancellation")
        await client.turns(2)
        assert client.transcript().startswith("Hello. ")
        assert world.metrics.routed == {"cancelled": 1}


async def test_a_result_that_comes_after_the_end_of_its_call_is_not_sent_to_the_model(tmp_path: Path) -> None:
    """A provider closes a session whose client answers a call that the provider did not make."""
    async with (
        routed_live_world(tmp_path, CLIENT_CALL, STORY, spoken=[HELLO], heard=["stop"], **DEEP) as world,
        world.client(setup=TOOLS) as client,
    ):
        await client.ask("the legend")
        await client.until("toolCall")
        await speak(client)
        await client.until("toolCallCancellation")
        await client.send(toolResponse={"functionResponses": [RESULT]})
        await client.turns(2)
        await client.ask("the legend again")
        await client.turns(3)
        assert client.transcript() == "Hello. Long ago."
        assert world.session.results() == []


async def test_a_call_that_is_answered_twice_counts_once(tmp_path: Path) -> None:
    async with (
        routed_live_world(tmp_path, CLIENT_CALL, STORY, **DEEP) as world,
        world.client(setup=TOOLS) as client,
    ):
        await client.ask("the legend")
        await client.until("toolCall")
        await client.send(toolResponse={"functionResponses": [RESULT, RESULT]})
        await client.turns(1)
        assert (client.transcript(), len(world.backends.requests)) == ("Long ago.", 2)
        assert world.session.results() == []


async def test_a_connection_is_not_replaced_in_the_middle_of_a_turn_that_is_streamed_to_the_model(
    tmp_path: Path,
) -> None:
    """A new connection would not know that the turn has begun."""
    async with (
        routed_live_world(tmp_path, spoken=[held_reply(), HELLO], transcripts=["hi", "stop"], tiers=MUTE) as world,
        world.client() as client,
    ):
        turns: Any = world.routed_session._session
        await speak(client)
        await eventually(lambda: bool(client.content("modelTurn")))
        await world.session.go_away(50)
        await client.hear(VOICE)
        await client.turns(1)
        await eventually(lambda: bool(turns._turns.handle_current))
        await client.hear(bytes(19_200))
        await client.turns(2)
        assert client.transcript().endswith("Hello. ")
        await eventually(lambda: len(world.provider.sessions) == 2)


async def test_a_turn_of_the_model_does_not_end_the_answer_of_the_engine(tmp_path: Path) -> None:
    """While the engine speaks, the model has a turn without words. Its end is sent to the client after the engine's
    answer."""
    story = held_reply()
    calls = [SpokenCall("theirs", {}, f"call_{number}") for number in range(2)]
    spoken = SpokenReply("I will see.", (calls[0],)), SpokenReply("", (calls[1],)), SpokenReply("It is sunny.")
    declared = {"functionDeclarations": [{"name": "theirs", "behavior": "NON_BLOCKING"}]}
    async with (
        routed_live_world(tmp_path, story, spoken=spoken, heard=["weather", "the legend"], **DEEP) as world,
        world.client(setup={"tools": [declared]}) as client,
    ):
        await speak(client)
        await client.turns(1)
        await speak(client)
        await eventually(lambda: client.transcript().endswith("It is a very long story."))
        await client.send(toolResponse={"functionResponses": [{**RESULT, "id": "call_0"}]})
        await client.until("toolCall", 2)
        await client.send(toolResponse={"functionResponses": [{**RESULT, "id": "call_1"}]})
        await eventually(lambda: len(world.session.results()) == 2 and world.routed_session._turns.provider_waits)
        assert len(client.content("turnComplete")) == 1
        assert story.held is not None
        story.held.set()
        await client.turns(4)
        assert client.transcript() == "I will see. It is a very long story.It is sunny. "


async def test_late_parts_of_an_interrupted_answer_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These parts would stop the playback of the engine's answer at the client."""
    story = held_reply()
    async with (
        routed_live_world(tmp_path, story, spoken=[held_reply()], heard=["hi", "the legend"], **DEEP) as world,
        world.client() as client,
    ):
        stop = asyncio.Event()
        provider = world.session
        interrupt = provider.interrupt

        async def late(*, calls: bool) -> None:
            if client.content("modelTurn"):
                await stop.wait()
            await interrupt(calls=calls)

        monkeypatch.setattr(provider, "interrupt", late)
        await speak(client)
        await eventually(lambda: bool(client.content("modelTurn")))
        await speak(client)
        await eventually(lambda: client.transcript().endswith("It is a very long story."))
        assert len(client.content("interrupted")) == 1
        stop.set()
        await eventually(lambda: not world.routed_session._session.answering)
        assert story.held is not None
        story.held.set()
        await client.turns(2)
        assert len(client.content("interrupted")) == 1
        await world.wait_for_contents(("user", "the legend"), ("model", "It is a very long story."))


async def test_a_turn_that_cannot_be_put_to_the_engine_is_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error() -> Any:
        raise ValueError("no such schema")

    async with (
        routed_live_world(tmp_path, STORY, spoken=[HELLO], heard=["the legend", "legend"], **DEEP) as world,
        world.client() as client,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(world.routed_session._setup, "for_engine", raise_error)
            await speak(client)
            await client.turns(1)
        await speak(client)
        await client.turns(2)
        assert client.transcript() == "Hello. Long ago."
        assert world.routed_session._turns._queued_bytes == 0


async def test_marks_of_a_client_that_has_its_turns_found_are_none(tmp_path: Path) -> None:
    async with (
        routed_live_world(tmp_path, spoken=[HELLO], transcripts=["hi"], tiers=MUTE) as world,
        world.client() as client,
    ):
        for name in ("activityStart", "activityEnd", "activityStart"):
            await mark(client, name)
        await speak(client)
        await client.turns(1)
        assert client.transcript() == "Hello. "
        marks = [name for each in world.session.of_type("realtimeInput") for name in each if name != "audio"]
        assert marks == ["activityStart", "activityEnd"]
