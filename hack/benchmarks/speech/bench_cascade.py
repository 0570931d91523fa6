"""The cascaded engine: time from the end of a turn to the first audio and to the answer, with and without a filler;
also of turns of Gemini Live that it answers, or that the model is given once they are turned into text.

Speech to text, model and text to speech take 50 ms each (scripted servers), a tool takes one second. Gateway, servers
and client share one process: what is measured is the order of things, beside which the gateway's own time is small.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cascadeworld import LOUD as SPEECH
from cascadeworld import QUIET, CascadeWorld, cascade_world
from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_speech.scripted import SpokenCall, SpokenReply
from rig.harness import Goal, Report, Sample, Settings, in_rounds
from rig.processes import become_realtime
from speech.routed_live import LIVE_CASES, measure_live
from speechworld import RealtimeClient

DELAY: Final = 0.05
"""Seconds that each server takes to answer."""
TOOL_SECONDS: Final = 1.0
MOST_MS: Final = 300.0
ROUNDS: Final = 5
TURNS: Final = 5
"""Turns of each case per round."""
FILLER: Final = {"phrases": ["Let me think."]}
TIERS: Final = (
    Tier(name="fast", max_latency_ms=500, default=True),
    Tier(name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",))),
)
LOOKUP: Final = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
ANSWER: Final = SpokenReply("The crown was lost at sea. Nobody has seen it since.")


@dataclass(frozen=True)
class Case:
    """A kind of turn."""

    name: str
    heard: str
    tool: str = ""
    """Tool that the model calls first; empty for none."""

    @property
    def replies(self) -> list[SpokenReply]:
        """Answers of the model for one turn."""
        return [SpokenReply("", (SpokenCall(self.tool),)), ANSWER] if self.tool else [ANSWER]


CASES: Final = (
    Case("no tool", "who are you"),
    Case("a tool of 1 s", "what do you sell", "demo__sell"),
    Case("a slow tier, and a tool of 1 s", "tell me the legend", "demo__lookup"),
)


@dataclass
class Times:
    """Milliseconds from the end of each turn."""

    first: list[float] = field(default_factory=list)
    answer: list[float] = field(default_factory=list)


def run(settings: Settings) -> Report:
    """Measure."""
    if settings.realtime:
        become_realtime()
    times_by_case: dict[tuple[str, bool], Times] = {}
    for _ in in_rounds(1 if settings.quick else settings.rounds):
        for case in CASES:
            for filled in (False, True):
                times = times_by_case.setdefault((case.name, filled), Times())
                asyncio.run(_measured(case, times, filled=filled))
        for live in LIVE_CASES:
            times = times_by_case.setdefault((live.name, live.filled), Times())
            asyncio.run(measure_live(live, times.first, times.answer))
    return report(times_by_case)


def report(times_by_case: dict[tuple[str, bool], Times]) -> Report:
    """The table, and whether audio begins in time if a tool is called."""
    made = Report("cascade")
    for (name, filled), times in times_by_case.items():
        made.rows.append(
            {
                "turn": name,
                "filler": "yes" if filled else "no",
                "first audio ms": Sample.of(times.first),
                "answer ms": Sample.of(times.answer),
            }
        )
    slowest = max(
        max(times.first) for (name, filled), times in times_by_case.items() if filled and name != CASES[0].name
    )
    made.goals = [Goal("first audio with a filler, the slowest turn", slowest, "ms", at_most=MOST_MS)]
    return made


async def _measured(case: Case, times: Times, *, filled: bool) -> None:
    async def work(_: Any) -> dict[str, Any]:
        await asyncio.sleep(TOOL_SECONDS)
        return {"content": [{"type": "text", "text": "done"}]}

    engine = {"filler": FILLER} if filled else {}
    sells = {**LOOKUP, "name": "sell"}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            cascade_world(
                Path(folder),
                *case.replies * (TURNS + 1),
                heard=[case.heard] * (TURNS + 1),
                engine=engine,
                delay=DELAY,
                tiers=TIERS,
                tools=[sells],
                slow=[LOOKUP],
                answer=work,
            ) as world,
            world.client() as client,
        ):
            for number in range(TURNS + 1):
                first, answer = await _turn(world, client, case)
                if number:  # the first turn opens connections
                    times.first.append(first)
                    times.answer.append(answer)


async def _turn(world: CascadeWorld, client: RealtimeClient, case: Case) -> tuple[float, float]:
    """Milliseconds until the first audio, and until the audio of the answer."""
    client.events.clear()
    await client.send("input_audio_buffer.append", audio=SPEECH)
    began = time.monotonic()
    await client.send("input_audio_buffer.append", audio=QUIET)
    await client.until("response.output_audio.delta")
    first = time.monotonic()
    while not (spoken := _sentences(client)):
        count = len(client.of_type("response.output_audio_transcript.delta"))
        await client.until("response.output_audio_transcript.delta", count + 1)
    answer = time.monotonic()
    assert spoken[0].startswith("The crown"), spoken
    await client.until("response.done", 2 if case.tool else 1)
    assert not client.of_type("error"), client.of_type("error")
    assert world.session.state.conversation.last
    return (first - began) * 1000, (answer - began) * 1000


def _sentences(client: RealtimeClient) -> list[str]:
    """Sentences of the answer that were spoken."""
    deltas = [each["delta"] for each in client.of_type("response.output_audio_transcript.delta")]
    return [each for each in deltas if each.strip() not in FILLER["phrases"]]
