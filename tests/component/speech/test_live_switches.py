"""Gemini Live sessions that continue over another connection: no message is lost or repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_speech.gemini.fake import LiveScriptSession
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import LOUD, NEW, OLD, QUIET, LiveClient, LiveWorld, live_world
from waiting import eventually

FAST = Tier(name="fast", max_latency_ms=500, default=True)
DEEP = Tier(name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",)))
TIERS = (FAST, DEEP)
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
ALL = ["demo__add", "demo__fail", "demo__lookup"]
QUICK = ALL[:2]
HELLO = SpokenReply("Hello there.")
ENGINE = "gemini-live"


def numbered_frames(count: int) -> list[bytes]:
    """Quiet audio frames of 20 ms each. The last sample of a frame is its number."""
    return [QUIET[:-2] + number.to_bytes(2, "big") for number in range(256, 256 + count)]


def held_handle(world: LiveWorld) -> bool:
    """Whether the gateway has a valid resumption handle."""
    session: Any = world.bridge._session
    return bool(session._turns.handle_current)


async def greet(world: LiveWorld, client: LiveClient) -> None:
    """Play one turn, and wait until the gateway has a handle."""
    await client.ask("Hello")
    await client.turns(1)
    await eventually(lambda: held_handle(world))


async def test_no_sample_is_lost_and_none_comes_twice(tmp_path: Path) -> None:
    frames = numbered_frames(90)
    async with (
        live_world(tmp_path, HELLO, SpokenReply("Yes."), model=OLD, tiers=TIERS, slow=[LOOKUP]) as world,
        world.client() as client,
    ):
        await client.hear(LOUD)
        await greet(world, client)
        for chunk in frames[:30]:  # after the handle, over the old connection
            await client.hear(chunk)
        await eventually(lambda: len(world.session.received_audio) == 31)
        world.provider.admits.clear()
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        await eventually(lambda: len(world.provider.sessions) == 2)
        for chunk in frames[30:60]:  # while there is no connection
            await client.hear(chunk)
        first, second = world.provider.sessions
        assert first.close_code == 1000, "closed before the other one was opened"
        world.provider.admits.set()
        for chunk in frames[60:]:
            await client.hear(chunk)
        await client.ask("Are you there?")
        await client.turns(2)
        assert second.tool_names == ALL
        assert second.setup["sessionResumption"]["handle"] in world.provider.handles
        assert b"".join(second.received_audio) == b"".join([LOUD, *frames]), "57,600 samples, in their order"
        assert client.transcript() == "Hello there. Yes. "
        assert len(client.audio()) == 3 * 1920, "three words, each said once"
        assert len(client.of_type("setupComplete")) == 1
        assert world.metrics.resumptions == {(ENGINE, "ok"): 1}
        assert not world.metrics.tier_waits


async def test_audio_that_never_pauses_stays_in_order_and_is_whole_behind_the_handle(tmp_path: Path) -> None:
    """Frames that were in transit when the provider created its handle may be missing: the provider does not say which
    frames the handle covers."""
    async with live_world(tmp_path, HELLO, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        frames = [chunk[-20:] for chunk in numbered_frames(20_000)]
        over = asyncio.Event()
        sent = 0
        behind = 20_000

        async def stream() -> None:
            nonlocal sent
            while not over.is_set():
                if sent < behind + 300 and (sent >= behind - 1 or sent - len(world.session.received_audio) < 20):
                    await client.hear(frames[sent])
                    sent += 1
                await asyncio.sleep(0)

        streaming = asyncio.create_task(stream())
        await client.ask("Hello")
        await eventually(lambda: held_handle(world))
        behind = sent + 1
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        await eventually(lambda: world.session.tool_names == ALL)
        over.set()
        await streaming
        first, second = world.provider.sessions
        await eventually(lambda: second.received_audio[-1] == frames[sent - 1])
        numbers = [int.from_bytes(chunk[-2:], "big") - 256 for chunk in second.received_audio]
        assert numbers == sorted(set(numbers)), "none twice, in their order"
        assert [number for number in numbers if number >= behind] == [*range(behind, sent)], "none of these is lost"
        assert first.received_audio


async def test_the_tools_of_a_tier_wait_for_the_end_of_a_turn(tmp_path: Path) -> None:
    held = asyncio.Event()
    replies = HELLO, SpokenReply("Once upon a time", held=held)
    async with live_world(tmp_path, *replies, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await greet(world, client)
        await client.ask("Tell me a tale")
        await client.until("serverContent", 8)
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        await client.send(fairleadSessionUpdate={"tier": "none such"})
        await client.until("fairleadError")
        assert len(world.provider.sessions) == 1
        held.set()
        await client.turns(2)
        await eventually(lambda: world.session.tool_names == ALL)
        assert client.transcript() == "Hello there. Once upon a time "


async def test_a_model_that_takes_other_tools_keeps_its_connection(tmp_path: Path) -> None:
    async with live_world(tmp_path, model=NEW, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        await eventually(lambda: world.session.tool_names == ALL)
        await client.send(fairleadSessionUpdate={"tier": "fast"})
        await eventually(lambda: world.session.tool_names == QUICK)
        assert len(world.provider.sessions) == 1


async def test_a_tier_that_has_to_wait_says_so(tmp_path: Path) -> None:
    call = SpokenCall("demo__lookup", {}, "call_1")
    replies = SpokenReply("", (call,)), SpokenReply("Well.")
    async with live_world(tmp_path, *replies, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world:
        world.provider.issues_handles = False
        async with world.client("x-fairlead-tier=deep") as client:
            await client.send(fairleadSessionUpdate={"tier": "fast"})
            (told,) = await client.until("fairleadTier")
            assert told == {"tier": "fast", "waits": "no_handle"}
            assert world.metrics.tier_waits == {(ENGINE, "no_handle"): 1}
            assert world.session.tool_names == ALL, "the model has the tools of before"
            await client.ask("The legend, please")
            await client.turns(1)
            assert "Unknown tool" in world.session.results()[0]["response"]["error"], "and may call none of them"
            world.provider.issues_handles = True
            await client.ask("And now?")
            await client.turns(2)
            await eventually(lambda: world.session.tool_names == QUICK)
            assert len(world.provider.sessions) == 2


async def test_a_tier_waits_where_more_was_said_since_the_handle_than_is_kept(tmp_path: Path) -> None:
    async with (
        live_world(tmp_path, HELLO, HELLO, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world,
        world.client() as client,
    ):
        await greet(world, client)
        for _ in range(4):
            await client.hear(bytes(64_000))
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        (told,) = await client.until("fairleadTier")
        assert told["waits"] == "too_much"
        await client.ask("Hello again")
        await client.turns(2)
        await eventually(lambda: world.session.tool_names == ALL)
        assert sum(map(len, world.session.received_audio)) == 4 * 64_000


async def test_a_connection_that_goes_away_is_replaced_without_the_clients_notice(tmp_path: Path) -> None:
    async with live_world(tmp_path, HELLO, HELLO, model=NEW) as world, world.client() as client:
        await greet(world, client)
        await world.session.go_away(50)
        await eventually(lambda: len(world.provider.sessions) == 2)
        await client.ask("Are you still there?")
        await client.turns(2)
        assert client.transcript() == "Hello there. Hello there. "
        assert not client.of_type("goAway")


async def test_a_client_that_resumes_by_itself_gets_go_away(tmp_path: Path) -> None:
    key = "one for all replicas"
    async with (
        live_world(tmp_path, HELLO, session_key=key) as world,
        world.client(setup={"sessionResumption": {}}) as client,
    ):
        await client.ask("Hello")
        await client.turns(1)
        await world.session.go_away(50)
        assert await client.until("goAway") == [{"timeLeft": "50s"}]
        _, update = await client.until("sessionResumptionUpdate", 2)
    async with (
        live_world(tmp_path, HELLO, session_key=key) as other,
        other.client(setup={"sessionResumption": {"handle": update["newHandle"]}}, ready=False) as client,
    ):
        assert await client.end() == (1007, "unknown session handle"), "it is the provider that knows handles"


async def test_a_client_gets_go_away_where_the_connection_cannot_be_replaced(tmp_path: Path) -> None:
    async with live_world(tmp_path) as world:
        world.provider.issues_handles = False
        async with world.client() as client:
            await world.session.go_away(3)
            assert await client.until("goAway") == [{"timeLeft": "3s"}]
            await world.session.close(1011, "deadline exceeded")
            assert await client.end() == (1011, "deadline exceeded")


async def test_a_connection_that_is_cut_between_two_turns_is_replaced(tmp_path: Path) -> None:
    async with live_world(tmp_path, HELLO, HELLO, model=NEW) as world, world.client() as client:
        await greet(world, client)
        await client.hear(QUIET)
        await eventually(lambda: world.session.received_audio == [QUIET])
        world.session.cut()
        await eventually(lambda: len(world.provider.sessions) == 2)
        await client.ask("Are you still there?")
        await client.turns(2)
        assert world.session.received_audio == [QUIET]


async def test_a_connection_that_is_cut_in_an_answer_ends_the_session(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with live_world(tmp_path, HELLO, SpokenReply("Once upon", held=held)) as world, world.client() as client:
        await greet(world, client)
        await client.ask("Tell me a tale")
        await client.until("serverContent", 7)
        world.session.cut()
        assert (await client.end())[0] == 1011, "going on, the model would say it twice, or never"


async def test_a_handle_that_is_refused_ends_the_session_with_the_providers_reason(tmp_path: Path) -> None:
    async with live_world(tmp_path, HELLO, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await greet(world, client)
        world.provider.handles.clear()
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        assert await client.end() == (1007, "unknown session handle")
        assert world.metrics.resumptions == {(ENGINE, "failed"): 1}


@pytest.mark.parametrize("answer", ['{"setupComplete":{},"setupComplete":{}}', '{"x":NaN}', "hello"])
async def test_an_unreadable_answer_of_the_next_connection_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    async def unreadable(session: LiveScriptSession, **message: object) -> None:
        await session._socket.send_str(answer)

    async with live_world(tmp_path, HELLO, model=OLD, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await greet(world, client)
        monkeypatch.setattr(LiveScriptSession, "send", unreadable)
        await client.send(fairleadSessionUpdate={"tier": "deep"})
        code, reason = await client.end()
        assert (code, "refused the provider's answer to the setup" in reason) == (1011, True)
        await eventually(lambda: world.session.closed)


async def test_a_model_that_refuses_context_updates_is_resumed_from_then_on(tmp_path: Path) -> None:
    """The model's name says version 4, but the server supports `contextUpdate` only for 3.8."""
    async with live_world(tmp_path, HELLO, HELLO, model="gemini-4-live", tiers=TIERS, slow=[LOOKUP]) as world:
        for _ in range(2):
            async with world.client() as client:
                await greet(world, client)
                await client.send(fairleadSessionUpdate={"tier": "deep"})
                await eventually(lambda: world.session.tool_names == ALL)
        updated = [bool(each.of_type("contextUpdate")) for each in world.provider.sessions]
        assert updated == [True, False, False, False], "the second session asks no more"
