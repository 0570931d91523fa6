"""Tiers of a speech session: chosen by spoken words, by written words, and by a request of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_speech.realtime.session import RealtimeSession
from fairlead_speech.scripted import SpokenCall, SpokenReply
from speechworld import SpeechWorld, speech_world
from waiting import eventually

FAST = Tier(name="fast", max_latency_ms=500, default=True)
DEEP = Tier(
    name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",), commands=("think carefully",))
)
TIERS = (FAST, DEEP)
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
ALL = ["demo__add", "demo__fail", "demo__lookup"]
QUICK = ALL[:2]
TRANSCRIBED = {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}


async def look(_: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "long ago"}]}


def offered_names(world: SpeechWorld) -> Collection[str]:
    """Names of the tools that the gateway offers in the running session, whether or not the provider already has
    them."""
    session = world.bridge._session
    assert isinstance(session, RealtimeSession)
    return session._context.toolbox.offer.names


async def has(world: SpeechWorld, names: list[str]) -> None:
    await eventually(lambda: world.session.tool_names == names)


async def test_transcripts_change_the_tier(tmp_path: Path) -> None:
    heard = ("tell me the legend of the crown", "thanks")
    async with (
        speech_world(tmp_path, tiers=TIERS, slow=[LOOKUP], heard=heard, answer=look) as world,
        world.client() as client,
    ):
        await has(world, QUICK)
        await client.update(audio=TRANSCRIBED)
        await client.until("session.updated")
        await client.speak()
        await has(world, ALL)
        await client.until("response.done")
        await client.speak()
        await has(world, QUICK)
        assert len(client.of_type("session.updated")) == 1, "the client does not hear of the gateway's updates"


async def test_written_text_changes_the_tier(tmp_path: Path) -> None:
    async with speech_world(tmp_path, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        content = [{"type": "input_text", "text": "Think carefully: who wears the crown?"}]
        await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await has(world, ALL)


async def test_a_client_names_the_tier(tmp_path: Path) -> None:
    async with speech_world(tmp_path, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await client.send("fairlead.session.update", tier="deep")
        await has(world, ALL)
        await client.send("fairlead.session.update", tier="auto")
        await client.send("fairlead.session.update", tier="none such", event_id="mine")
        (refused,) = await client.until("error")
        assert refused["error"]["event_id"] == "mine"
        assert "fast, deep" in refused["error"]["message"]
        assert not world.session.of_type("fairlead.session.update"), "the provider does not hear of it"


async def test_a_tier_of_the_query_stays(tmp_path: Path) -> None:
    query = "model=gpt-realtime&x-fairlead-tier=deep"
    async with speech_world(tmp_path, tiers=TIERS, slow=[LOOKUP]) as world, world.client(query) as client:
        await has(world, ALL)
        assert world.session.query == {"model": "gpt-realtime"}
        assert client.types()[0] == "session.created"


async def test_a_call_of_a_tool_that_was_taken_away_is_refused(tmp_path: Path) -> None:
    replies = SpokenReply("", (SpokenCall("demo__lookup", {}, "call_late"),)), SpokenReply("No.")
    async with (
        speech_world(tmp_path, *replies, tiers=TIERS, slow=[LOOKUP], answer=look) as world,
        world.client("model=gpt-realtime&x-fairlead-tier=deep") as client,
    ):
        await has(world, ALL)
        await client.send("fairlead.session.update", tier="fast")
        await has(world, QUICK)
        await client.send("response.create")
        await client.until("response.done", 2)
        (output,) = world.session.of_type("conversation.item.create")
        assert "Unknown tool" in output["item"]["output"]
        assert world.called == []


async def test_an_update_waits_for_the_end_of_a_response_and_comes_before_its_results(tmp_path: Path) -> None:
    rest = asyncio.Event()
    calls = (SpokenCall("demo__add", {"a": 1, "b": 1}, "call_1"),)
    replies = SpokenReply("One moment.", calls, held=rest), SpokenReply("Two.")
    heard = ("the legend please",)
    async with (
        speech_world(tmp_path, *replies, tiers=TIERS, slow=[LOOKUP], heard=heard) as world,
        world.client() as client,
    ):
        await client.update(audio=TRANSCRIBED)
        await client.until("session.updated")
        await client.speak()
        await eventually(lambda: "demo__lookup" in offered_names(world))
        assert world.session.tool_names == QUICK, "in the middle of a response"
        rest.set()
        await client.until("response.done", 2)
        kinds = [event["type"] for event in world.session.received]
        assert kinds[-3:] == ["session.update", "conversation.item.create", "response.create"]
