"""Times of Gemini Live turns: those that a cascaded engine answers, and those that the model answers."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import LiveClient
from routedlive import PAUSE, VOICE, routed_live_world
from routedturns import DEEP

DELAY: Final = 0.05
"""Seconds that each server of the engine takes. The model itself answers at once."""
TOOL_SECONDS: Final = 1.0
TURNS: Final = 5
PHRASE: Final = "Let me think."
ANSWER: Final = SpokenReply("The crown was lost at sea. Nobody has seen it since.")
CALL: Final = SpokenReply("", (SpokenCall("demo__lookup"),))


@dataclass(frozen=True)
class LiveCase:
    """A kind of turn."""

    name: str
    heard: str
    tier: str = "auto"
    filled: bool = False

    @property
    def slow(self) -> bool:
        """Whether the cascaded engine answers."""
        return "legend" in self.heard


LIVE_CASES: Final = (
    LiveCase("Gemini Live: the model, its tier is known", "who are you", "fast"),
    LiveCase("Gemini Live: the model, its tier is in the words", "who are you"),
    LiveCase("Gemini Live: the engine, a tool of 1 s", "tell me the legend"),
    LiveCase("Gemini Live: the engine, a tool of 1 s", "tell me the legend", filled=True),
)


async def measure_live(case: LiveCase, first: list[float], answer: list[float]) -> None:
    """Add the milliseconds from the end of a turn to the first audio, and to the audio of the answer."""

    async def work(_: Any) -> dict[str, Any]:
        await asyncio.sleep(TOOL_SECONDS)
        return {"content": [{"type": "text", "text": "done"}]}

    engine = {"filler": {"phrases": [PHRASE]}} if case.filled else {}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            routed_live_world(
                Path(folder),
                *[CALL, ANSWER] * (TURNS + 1),
                spoken=[ANSWER] * (TURNS + 1),
                heard=[case.heard] * (TURNS + 1),
                engine=engine,
                delay=DELAY,
                answer=work,
                **DEEP,
            ) as world,
            world.client(f"x-fairlead-tier={case.tier}") as client,
        ):
            for number in range(TURNS + 1):
                times = await _turn(client)
                if number:  # the first turn opens connections
                    first.append(times[0])
                    answer.append(times[1])
            assert world.metrics.routed == ({"ok": TURNS + 1} if case.slow else {})


async def _turn(client: LiveClient) -> tuple[float, float]:
    client.messages.clear()
    await client.hear(VOICE)
    began = time.monotonic()
    await client.hear(PAUSE)
    while not client.content("modelTurn"):
        await client.until("serverContent", len(client.of_type("serverContent")) + 1)
    first = time.monotonic()
    while "crown" not in client.transcript():
        await client.until("serverContent", len(client.of_type("serverContent")) + 1)
    answer = time.monotonic()
    await client.turns(1)
    return (first - began) * 1000, (answer - began) * 1000
