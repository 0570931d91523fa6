"""A scripted session of a game over every speech engine, with all tool servers: tiers, hidden tools and times of calls.

The example with a voice agent is run by `fairlead up`; providers are scripted, and the servers for the web and for
pictures ask endpoints here that take as long as such endpoints do. What the user says is paced quickly, 40 ms a word;
all other times are real. `--svg docs/pictures/play.svg` draws what happened.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Final

from playcast import engines
from playscript import STEPS
from playworld import play_world
from rig.harness import Cell, Goal, Report, Settings, Unmeasurable
from speech.play_picture import draw
from spokenplay import PlayTrace, check, play

ROUNDS: Final = 1
MOST_SECONDS: Final = 360


def run(settings: Settings) -> Report:
    """Play the session. Raises Unmeasurable if a session differs from the script."""
    with tempfile.TemporaryDirectory() as folder:
        traces = asyncio.run(_played(Path(folder)))
    try:
        for trace in traces:
            check(trace, STEPS)
    except AssertionError as error:
        raise Unmeasurable(f"a session differs from the script: {error}") from error
    if settings.svg is not None:
        settings.svg.write_text(draw(traces))
    report = Report("play", rows=[_row(trace) for trace in traces])
    report.goals = [Goal("the longest session", max(trace.ended for trace in traces), "s", at_most=MOST_SECONDS)]
    return report


async def _played(folder: Path) -> list[PlayTrace]:
    played = engines()
    async with play_world(folder, played) as world:
        return [await play(engine, world) for engine in played]


def _row(trace: PlayTrace) -> dict[str, Cell]:
    times = [(call.ended - call.began) * 1000 for call in trace.calls if call.outcome == "answered"]
    return {
        "engine": trace.engine,
        "session s": round(trace.ended, 1),
        "tiers": " → ".join(trace.tiers),
        "calls": len(trace.calls),
        "call p50 ms": round(statistics.median(times), 1),
        "slowest call ms": round(max(times)),
        "longest wait for tools ms": round(max(trace.waited.values(), default=0.0) * 1000),
    }
