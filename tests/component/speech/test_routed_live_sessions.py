"""Detection of turns in a routed Gemini Live session, the decision who answers, and what delays a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_speech.cascaded.fake import STT
from fairlead_speech.gemini.user_turns import UserTurn
from fairlead_speech.scripted import SpokenCall, SpokenReply
from fairlead_speech.session import SpeechBounds
from gatewayworld import entry
from liveworld import BLOCKS, NEW, OLD, LiveClient
from routedlive import BEGINS, ENDS, PAUSE, VOICE, RoutedLiveWorld, routed_live_world, speak
from routedturns import CALL, DEEP, LOOKUP
from waiting import eventually

MARKED = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
DEAF = {"realtimeInputConfig": {"activityHandling": "NO_INTERRUPTION"}}
MUTE = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
"""Tiers without words that choose them."""
STORY = SpokenReply("Long ago.")
HELLO = SpokenReply("Hello.")


class SlowHearing:
    """Transcription that holds the transcripts of a session back."""

    def __init__(self, world: RoutedLiveWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests = asyncio.Event()
        self.go_on = asyncio.Event()
        turns = world.routed_session._turns
        transcribe = turns._transcribe

        async def transcribe_later(turn: UserTurn) -> str:
            self.requests.set()
            await self.go_on.wait()
            return await transcribe(turn)

        monkeypatch.setattr(turns, "_transcribe", transcribe_later)


async def mark(client: LiveClient, name: str) -> None:
    await client.send(realtimeInput={name: {}})


async def test_turns_that_the_client_marks_are_the_turns(tmp_path: Path) -> None:
    heard = "good morning", "tell me the legend"
    async with (
        routed_live_world(tmp_path, STORY, spoken=[HELLO], heard=heard, **DEEP) as world,
        world.client(setup=MARKED) as client,
    ):
        for number in range(2):
            await client.hear(PAUSE)
            await mark(client, "activityStart")
            for piece in (VOICE, PAUSE, VOICE):
                await client.hear(piece)
            await mark(client, "activityEnd")
            await client.turns(number + 1)
        assert client.transcript() == "Hello. Long ago."
        assert b"".join(world.session.received_audio) == VOICE + PAUSE + VOICE, "the turn that it answers alone"
        assert [audio for audio, _ in world.backends.transcription_requests] == [VOICE + PAUSE + VOICE] * 2


async def test_a_turn_that_no_word_makes_slow_is_sent_to_the_model_while_it_is_spoken(tmp_path: Path) -> None:
    async with (
        routed_live_world(
            tmp_path, STORY, spoken=[HELLO], transcripts=["hi there"], heard=["and then"], tiers=MUTE, slow=[LOOKUP]
        ) as world,
        world.client() as client,
    ):
        await client.hear(VOICE)
        await eventually(lambda: b"".join(world.session.received_audio) == VOICE)
        assert (client.content("turnComplete"), world.backends.transcription_requests) == ([], [])
        await client.hear(PAUSE)
        await client.turns(1)
        assert client.transcript() == "Hello. "
        assert world.backends.transcription_requests == [], "nobody else had to hear it"
        assert b"".join(world.session.received_audio) == VOICE + ENDS
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        await speak(client)
        await client.turns(2)
        assert client.transcript() == "Hello. Long ago."
        assert world.messages == [("user", "hi there"), ("assistant", "Hello."), ("user", "and then")]


async def test_a_tier_that_the_client_names_needs_no_words(tmp_path: Path) -> None:
    async with (
        routed_live_world(tmp_path, STORY, spoken=[HELLO], heard=["and then"], **DEEP) as world,
        world.client("x-fairlead-tier=fast") as client,
    ):
        await speak(client)
        await client.turns(1)
        assert (client.transcript(), world.backends.transcription_requests) == ("Hello. ", [])


async def test_speech_before_the_engine_is_decided_on_belongs_to_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = "tell me", "the legend", "of the crown"
    async with routed_live_world(tmp_path, STORY, heard=heard, **DEEP) as world, world.client() as client:
        hearing = SlowHearing(world, monkeypatch)
        for _ in range(2):
            await speak(client)
        await client.hear(VOICE)
        await eventually(
            lambda: world.routed_session._turns.speaking and len(world.routed_session._turns._waiting) == 1
        )
        hearing.go_on.set()
        await world.backends.until(STT, 2)
        await client.hear(PAUSE)
        await client.turns(1)
        assert client.transcript() == "Long ago."
        assert world.messages == [("user", words) for words in heard]
        assert world.session.received_audio == []
        await world.wait_for_contents(*(("user", words) for words in heard), ("model", "Long ago."))
        assert world.routed_session._turns._queued_bytes == 0


async def test_speech_in_pieces_is_sent_to_the_model_as_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        routed_live_world(tmp_path, spoken=[HELLO], heard=["good", "morning"], **DEEP) as world,
        world.client() as client,
    ):
        hearing = SlowHearing(world, monkeypatch)
        for _ in range(2):
            await speak(client)
        await hearing.requests.wait()
        await eventually(lambda: len(world.routed_session._turns._waiting) == 1)
        hearing.go_on.set()
        await client.turns(1)
        assert b"".join(world.session.received_audio) == VOICE + ENDS + BEGINS + VOICE + ENDS
        marks = [name for each in world.session.of_type("realtimeInput") for name in each if name != "audio"]
        assert marks == ["activityStart", "activityEnd"]


@pytest.mark.parametrize("model", [NEW, OLD])
async def test_another_connection_of_the_session_gets_the_turns_of_the_engine(tmp_path: Path, model: str) -> None:
    heard = "good morning", "the legend", "thanks"
    spoken = HELLO, SpokenReply("You are welcome.")
    async with (
        routed_live_world(tmp_path, STORY, spoken=spoken, heard=heard, model=model, **DEEP) as world,
        world.client() as client,
    ):
        for number in range(2):
            await speak(client)
            await client.turns(number + 1)
        await world.wait_for_contents(("user", "the legend"), ("model", "Long ago."))
        await world.session.go_away(50)
        await eventually(lambda: len(world.provider.sessions) == 2)
        await world.wait_for_contents(("user", "the legend"), ("model", "Long ago."))
        assert world.session.setup["realtimeInputConfig"]["automaticActivityDetection"] == {"disabled": True}
        await speak(client)
        await client.turns(3)
        assert client.transcript() == "Hello. Long ago.You are welcome. "
        assert b"".join(world.session.received_audio) == VOICE + ENDS + BEGINS + VOICE + ENDS
        assert client.of_type("goAway") == []


async def test_turns_of_the_model_wait_for_the_end_of_the_engines_answer(tmp_path: Path) -> None:
    looking = asyncio.Event()
    go_on = asyncio.Event()

    async def slowly(_: Any) -> dict[str, Any]:
        looking.set()
        await go_on.wait()
        return {"content": [{"type": "text", "text": "sunny"}]}

    weather = entry({"name": "weather", "description": "Look", "inputSchema": {"type": "object"}}, speech="WhenIdle")
    story = SpokenReply("It is a very long story.", held=asyncio.Event())
    spoken = SpokenReply("I will see.", (SpokenCall("demo__weather", {}, "call_1"),)), SpokenReply("It is sunny.")
    async with (
        routed_live_world(
            tmp_path, story, spoken=spoken, heard=["the weather", "the legend"], listed=[weather], answer=slowly, **DEEP
        ) as world,
        world.client() as client,
    ):
        session: Any = world.routed_session._session
        await speak(client)
        await looking.wait()
        await client.turns(1)
        await speak(client)
        await eventually(lambda: bool(world.backends.spoken))
        go_on.set()
        await eventually(lambda: bool(session._held_results))
        assert world.session.results() == []
        assert story.held is not None
        story.held.set()
        await client.turns(3)
        assert client.transcript() == "I will see. It is a very long story.It is sunny. "
        assert [each["id"] for each in world.session.results()] == ["call_1"]


async def test_where_speech_ends_no_answer_the_next_turn_waits(tmp_path: Path) -> None:
    story = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with (
        routed_live_world(tmp_path, story, spoken=[HELLO], heard=["the legend", "hello"], **DEEP) as world,
        world.client(setup=DEAF) as client,
    ):
        await speak(client)
        await eventually(lambda: bool(client.content("modelTurn")))
        await speak(client)
        await eventually(lambda: len(world.routed_session._turns._waiting) == 1)
        assert story.held is not None
        story.held.set()
        await client.turns(2)
        assert client.content("interrupted") == []
        assert client.transcript() == "It is a very long story.Hello. "
        assert world.metrics.routed == {"ok": 1}


async def test_a_turn_without_an_end_is_over_where_no_more_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = ["the legend"] + ["and more"] * 9
    bounds = SpeechBounds(routed_bytes=len(VOICE) * 3)
    async with (
        routed_live_world(tmp_path, *[STORY] * 9, heard=heard, spoken=[HELLO] * 9, bounds=bounds, **DEEP) as world,
        world.client(setup=MARKED) as client,
    ):
        hearing = SlowHearing(world, monkeypatch)
        await mark(client, "activityStart")
        for _ in range(3):
            await client.hear(VOICE)
        await client.hear(VOICE)  # the queue has no room for this one
        await hearing.requests.wait()
        assert world.routed_session._turns.room == 0
        hearing.go_on.set()
        await client.turns(1)
        assert [audio for audio, _ in world.backends.transcription_requests] == [VOICE * 3]
        await client.send(fairleadSessionUpdate={"tier": "nonsense"})
        await client.until("fairleadError")


async def test_a_model_that_cannot_be_told_answers_all_turns_itself(tmp_path: Path) -> None:
    async with (
        routed_live_world(tmp_path, STORY, spoken=[HELLO], model=BLOCKS, **DEEP) as world,
        world.client() as client,
    ):
        assert "realtimeInputConfig" not in world.session.setup
        await client.ask("tell me the legend")
        await client.turns(1)
        assert (client.transcript(), world.backends.requests) == ("Hello. ", [])


async def test_a_session_that_ends_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    story = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with routed_live_world(tmp_path, story, heard=["the legend"], **DEEP) as world:
        async with world.client() as client:
            await speak(client)
            await eventually(lambda: bool(client.content("modelTurn")))
            answerer = world.routed_session._answerer
        await eventually(lambda: not world.metrics.active["gemini-live"])
        await world.backends.until_gone()
        assert not answerer.active


async def test_images_and_audio_of_other_kinds_pass(tmp_path: Path) -> None:
    async with routed_live_world(tmp_path, **DEEP) as world, world.client() as client:
        image = {"data": "AAAA", "mimeType": "image/png"}
        await client.send(realtimeInput={"video": image})
        await client.send(realtimeInput={"mediaChunks": [image, {"data": "AAAA", "mimeType": "audio/pcm"}]})
        await eventually(lambda: len(world.session.of_type("realtimeInput")) == 2)
        assert world.session.of_type("realtimeInput") == [{"video": image}, {"mediaChunks": [image]}]


async def test_a_tool_of_the_engine_is_run_by_the_sessions_policies(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"

    async def look(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "long ago"}, {"type": "image", "data": "AA==", "mimeType": "x/y"}]}

    replies = SpokenReply("", (CALL,)), STORY
    async with routed_live_world(
        tmp_path, *replies, heard=["the legend"], answer=look, audit="all", audit_file=log, **DEEP
    ) as world:
        async with world.client() as client:
            await speak(client)
            await client.turns(1)
            (shown,) = client.of_type("fairleadToolResult")
            assert (shown["callId"], shown["content"][0]["mimeType"]) == ("call_1", "x/y")
        await eventually(lambda: not world.metrics.active["gemini-live"])
    assert "lookup" in log.read_text()
    assert "legend" not in log.read_text()


async def test_a_speaker_interrupts_both_where_the_model_waits_behind_the_engine(tmp_path: Path) -> None:
    """A result of the client, about which the model speaks, arrives while the engine speaks."""
    story = SpokenReply("It is a very long story.", held=asyncio.Event())
    call = SpokenCall("theirs", {}, "call_1")
    spoken = SpokenReply("I will see.", (call,)), SpokenReply("It is sunny.", held=asyncio.Event()), HELLO
    declared = {"functionDeclarations": [{"name": "theirs", "behavior": "NON_BLOCKING"}]}
    async with (
        routed_live_world(tmp_path, story, spoken=spoken, heard=["weather", "the legend", "hello"], **DEEP) as world,
        world.client(setup={"tools": [declared]}) as client,
    ):
        await speak(client)
        await client.turns(1)
        await speak(client)
        await eventually(lambda: client.transcript().endswith("It is a very long story."))
        response = {"id": "call_1", "name": "theirs", "response": {"output": "sunny"}}
        await client.send(toolResponse={"functionResponses": [response]})
        await eventually(lambda: world.routed_session._turns.provider_waits)
        assert "sunny" not in client.transcript()
        await speak(client)
        await eventually(lambda: client.transcript().endswith("Hello. "))
        assert world.metrics.routed == {"cancelled": 1}
        await world.wait_for_contents(("user", "the legend"), ("model", "It is a very long story."))


async def test_a_connection_that_is_cut_while_the_engine_speaks_is_replaced(tmp_path: Path) -> None:
    story = SpokenReply("It is a very long story.", held=asyncio.Event())
    spoken = (HELLO, SpokenReply("You are welcome."))
    heard = ["good morning", "the legend", "thanks"]
    async with (
        routed_live_world(tmp_path, story, spoken=spoken, heard=heard, **DEEP) as world,
        world.client() as client,
    ):
        await speak(client)
        await client.turns(1)
        session: Any = world.routed_session._session
        await eventually(lambda: bool(session._turns.handle_current))
        await speak(client)
        await eventually(lambda: client.transcript().endswith("It is a very long story."))
        world.session.cut()
        await eventually(lambda: len(world.provider.sessions) == 2)
        assert story.held is not None
        story.held.set()
        await client.turns(2)
        await world.wait_for_contents(("user", "the legend"), ("model", "It is a very long story."))
        await speak(client)
        await client.turns(3)
        assert client.transcript() == "Hello. It is a very long story.You are welcome. "
