"""Call ids and item ids come from providers, so two sessions may have equal ids. Each session keeps its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import live_world
from speechworld import speech_world
from spokenengines import SpokenWorld
from waiting import eventually

LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}


def replies() -> list[SpokenReply]:
    """Scripts of two sessions with calls of equal ids, and the replies after their results."""
    calls = [SpokenReply("", (SpokenCall("demo__lookup", {"of": of}, "call_1"),)) for of in ("ann", "bob")]
    return [*calls, SpokenReply("Done."), SpokenReply("Done.")]


async def wait_for_calls(world: SpokenWorld, number: int) -> None:
    await eventually(lambda: len(world.called) == number)


class Answers:
    """A tool that answers after both sessions have called it, each with the secret of the person in its arguments."""

    def __init__(self) -> None:
        self._both = asyncio.Event()
        self._calls = 0

    async def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        if self._calls == 2:
            self._both.set()
        await self._both.wait()
        return {"content": [{"type": "text", "text": f"secret of {params['arguments']['of']}"}]}


async def test_realtime_sessions_with_calls_of_one_id_get_results_of_their_own(tmp_path: Path) -> None:
    async with (
        speech_world(tmp_path, *replies(), tools=[LOOKUP], answer=Answers()) as world,
        world.client() as ann,
        world.client() as bob,
    ):
        for number, client in enumerate((ann, bob), 1):
            await client.send("response.create")
            await wait_for_calls(world, number)
        for client in (ann, bob):
            await client.until("response.done", 2)
        told = [
            [each["item"]["output"] for each in session.of_type("conversation.item.create")]
            for session in world.provider.sessions
        ]
    assert told == [["secret of ann"], ["secret of bob"]]


async def test_live_sessions_with_calls_of_one_id_get_results_of_their_own(tmp_path: Path) -> None:
    async with (
        live_world(tmp_path, *replies(), tools=[LOOKUP], answer=Answers()) as world,
        world.client() as ann,
        world.client() as bob,
    ):
        for number, client in enumerate((ann, bob), 1):
            await client.ask("Look it up")
            await wait_for_calls(world, number)
        for client in (ann, bob):
            await client.turns(1)
        told = [[each["response"]["output"] for each in session.results()] for session in world.provider.sessions]
    assert told == [["secret of ann"], ["secret of bob"]]
