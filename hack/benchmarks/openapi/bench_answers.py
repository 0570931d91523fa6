"""Large answers of HTTP APIs: how long the event loop keeps others waiting, and how long their calls take.

Each answer is asked for over MCP, from a gateway in a process of its own. The longest stop is CPU time of that process
between two turns of a timer (`gap_recorder`), so that other work of the machine makes no difference.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rig.harness import Goal, Report, Sample, Settings, in_rounds

if TYPE_CHECKING:
    from gapworld import Attack, GapWorld

SUPPORT: Final = Path(__file__).resolve().parents[3] / "tests" / "support"
KIB: Final = 1 << 10
SIZES: Final = (1 * KIB, 256 * KIB, 2_048 * KIB, 8_000 * KIB)
"""Sizes of answers in bytes: a small one, the largest that is converted in the event loop, and larger ones."""
ERA: Final = "2026-07-28"


class _Body(NamedTuple):
    media_type: str
    opening: bytes
    unit: bytes
    closing: bytes


BODIES: Final = {
    "records": _Body("application/json", b"[", b'{"id": 12345, "name": "some name", "ok": true},\n', b"{}]"),
    "numbers": _Body("application/json", b"[", b"1,", b"1]"),
    "quotes": _Body("text/plain", b"", b'"', b""),
    "binary": _Body("application/zip", b"", b"\x00\xff", b""),
}


def run(settings: Settings) -> Report:
    """Measure."""
    sys.path.insert(0, str(SUPPORT))
    report = Report("answers", notes=["each call asks for one answer, with nothing beside it; the tool has no schema"])
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder), settings, report))
    return report


async def _measure(folder: Path, settings: Settings, report: Report) -> None:
    from gapworld import gap_world

    longest = 0.0
    async with gap_world(folder) as world:
        for name, body in BODIES.items():
            for size in SIZES:
                stop, call = await _figures(world, _attack(body, size), settings.rounds)
                longest = max(longest, stop.low)
                report.rows.append({"answer": name, "KiB": size // KIB, "longest stop ms": stop, "call ms": call})
                settings.keep(report)
    report.goals.append(Goal("longest stop, the best of the rounds", longest, "ms", at_most=30))


def _attack(body: _Body, size: int) -> Attack:
    from gapworld import Attack, Filled
    from gatewayworld import calling

    filled = Filled(body.opening, body.unit, body.closing, size)
    return Attack("", calling("api__plain", era=ERA), answer=filled, kind=body.media_type, most_ms=0.0)


async def _figures(world: GapWorld, attack: Attack, rounds: int) -> tuple[Sample, Sample]:
    """Longest stop of the loop and time of a call, both in ms, over `rounds` rounds."""
    stops, calls = [], []
    for _ in in_rounds(rounds):
        stops.append(await world.longest_gap_ms(attack))
        world.behind.attack = attack
        begin = time.monotonic()
        await world.make(attack)
        calls.append((time.monotonic() - begin) * 1000)
        world.behind.attack = None
    return Sample.of(stops), Sample.of(calls)
