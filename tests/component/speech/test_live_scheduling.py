"""When a Gemini Live model speaks about a result: by the McpServer's setting, or by the usual duration of calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_speech.scripted import SpokenCall, SpokenReply
from gatewayworld import entry
from liveworld import BLOCKS, NEW, OLD, live_world
from waiting import eventually

LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
CALL = SpokenCall("demo__lookup", {}, "call_1")
SLOW = DeclaredLatency(estimated_duration_ms=3000)


@pytest.mark.parametrize(
    ("setting", "scheduling", "transcript"),
    [
        (None, "WHEN_IDLE", "Let me see what there is. Found. "),
        ("WhenIdle", "WHEN_IDLE", "Let me see what there is. Found. "),
        ("Interrupt", "INTERRUPT", "Let Found. "),
        ("Silent", "SILENT", "Let me see what there is. "),
    ],
)
async def test_a_model_continues_during_a_call_and_speaks_its_result_as_configured(
    tmp_path: Path, setting: str | None, scheduling: str, transcript: str
) -> None:
    release = asyncio.Event()
    held = asyncio.Event()

    async def look(_: Any) -> dict[str, Any]:
        await release.wait()
        return {"content": [{"type": "text", "text": "a crown"}]}

    slow = entry(LOOKUP, latency=SLOW, speech=setting)
    first = SpokenReply("", (CALL,)), SpokenReply("Let me see what there is.", held=held)
    replies = *first, SpokenReply("Found.")
    async with live_world(tmp_path, *replies, listed=[slow], answer=look) as world, world.client() as client:
        assert world.session.functions["demo__lookup"]["behavior"] == "NON_BLOCKING"
        assert world.session.functions["demo__add"]["behavior"] == "BLOCKING"
        await client.ask("Look it up")
        await client.turns(1)
        await client.ask("Go on meanwhile")
        await eventually(lambda: client.transcript() == "Let ")
        release.set()
        await world.session.until("toolResponse")
        (result,) = world.session.results()
        assert (result["response"], result["scheduling"]) == ({"output": "a crown"}, scheduling)
        held.set()
        await eventually(lambda: client.transcript() == transcript)
        assert len(world.called) == 1


@pytest.mark.parametrize(
    ("model", "setting", "behavior"),
    [(NEW, "Wait", "BLOCKING"), (OLD, None, "NON_BLOCKING"), (BLOCKS, "Silent", None)],
)
async def test_the_mode_of_a_call_is_one_that_the_model_has(
    tmp_path: Path, model: str, setting: str | None, behavior: str | None
) -> None:
    slow = entry(LOOKUP, latency=SLOW, speech=setting)
    async with live_world(tmp_path, model=model, listed=[slow]) as world, world.client():
        assert world.session.functions["demo__lookup"].get("behavior") == behavior


async def test_a_result_of_nothing_says_that_the_tool_succeeded(tmp_path: Path) -> None:
    async def nothing(_: Any) -> dict[str, Any]:
        return {"content": []}

    replies = SpokenReply("", (CALL,)), SpokenReply("Done.")
    async with live_world(tmp_path, *replies, tools=[LOOKUP], answer=nothing) as world, world.client() as client:
        await client.ask("Do it")
        await client.turns(1)
        assert world.session.results()[0]["response"] == {"output": "the tool succeeded and returned nothing"}
