"""Random operations on a real API server, by seed: documents afterwards against those of a fresh operator.

Operations are those of `tests/support/random_operations.py`: all that is declared is created, edited and deleted,
documents and workloads too, while the API server is away or killed, watches expire, leaders end and the Lease's clock
is late. The part `without-lists` has no periodic lists: what Kopf loses then stays lost, which shows that a difference
would be seen. Each seed is a line on standard error as soon as it is over, and the command that repeats it where it
failed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controlplane import ControlPlane, NoControlPlane, find_assets
from random_operations import CHAOS, chaos, compared, differences
from rig.harness import Cell, Goal, Report, Settings, Unmeasurable

SEEDS: Final = 100
OPERATIONS: Final = 200
KILLED_EVERY: Final = 5
"""One seed in so many kills the API server's process."""
WITHOUT_LISTS: Final = 5
"""Seeds that also run without periodic lists."""
NEVER: Final = 3600.0
PARTS: Final = ("lists", "without-lists")
FIRST_LINES: Final = 20
"""Differences that are printed of one seed."""
Row = dict[str, Cell]


class RecentLines(logging.Handler):
    """The last lines that operators logged, for a seed that fails; thousands of warnings are what outages lead to."""

    def __init__(self, count: int = 60) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=count)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


async def measure(plane: ControlPlane, folder: Path, seed: int, operations: int, part: str) -> Row:
    """One seed on a plane that nothing else is declared on. Raises AssertionError where it does not get to its end."""
    place = folder / f"{part}-{seed}"
    place.mkdir()
    start = time.monotonic()
    settings = CHAOS if part == "lists" else replace(CHAOS, list_seconds=NEVER)
    async with chaos(plane, place, seed, settings) as it:
        found, wanted = await compared(it, operations, kills=0 if seed % KILLED_EVERY else 1)
        lines = differences(found, wanted)
    for line in lines[:FIRST_LINES]:
        _say(f"seed {seed}, {part}: {line}")
    return {
        "seed": seed,
        "part": part,
        "operations": operations,
        "declared": it.done["declare"],
        "by hand": it.done["meddle"],
        "outages": it.done["outage"] + it.done["kill_apiserver"],
        "expiries": it.done["expire"],
        "leaders": it.done["leaders"],
        "leaders killed": it.done["leaders killed"],
        "differences": len(lines),
        "first difference": lines[0][:200] if lines else "",
        "seconds": time.monotonic() - start,
    }


async def measured(settings: Settings, report: Report, measure: Callable[[int, int, str], Awaitable[Row]]) -> None:
    """Add a row for each seed. In one event loop: an API server ends with the thread that started it again."""
    count = settings.seeds or (3 if settings.quick else SEEDS)
    seeds = range(settings.first_seed, settings.first_seed + count)
    operations = 60 if settings.quick else OPERATIONS
    logging.getLogger().addHandler(recent := RecentLines())
    runs = [(part, seed) for part in PARTS if settings.wants(part) for seed in seeds[: _most(part, count)]]
    for number, (part, seed) in enumerate(runs, 1):
        try:
            row = await measure(seed, operations, part)
        except (AssertionError, OSError, ExceptionGroup) as error:
            outcome = f"{type(error).__name__}: {error}"
        else:
            report.rows.append(row)
            outcome = f"{row['differences']} differences"
            _say(f"{number}/{len(runs)} seed {seed}, {part}: {outcome}, {row['seconds']:.0f} s")
            if part == "without-lists" or not row["differences"]:
                outcome = ""
        if outcome:
            report.failures.append(failure(part, seed, outcome, quick=settings.quick))
            _say("\n".join([*recent.lines, report.failures[-1]]))
        settings.keep(report)


def failure(part: str, seed: int, outcome: str, *, quick: bool) -> str:
    """Sentence about a seed that failed, with the command that repeats it."""
    again = f"hack/bench chaos --only {part} --seeds 1 --from {seed}{' --quick' * quick}"
    return f"seed {seed}, {part}: {outcome}; again: {again}"


def run(settings: Settings) -> Report:
    """Run all seeds, one after the other, on one control plane."""
    report = Report("chaos")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plane").mkdir()
        try:
            with ControlPlane(folder / "plane", find_assets()) as plane:
                plane.install_crds()
                asyncio.run(measured(settings, report, partial(measure, plane, folder)))
        except NoControlPlane as error:
            raise Unmeasurable(str(error)) from error
    for part, bound in zip(PARTS, ({"at_most": 0.0}, {"at_least": 1.0}), strict=True):
        rows = [row for row in report.rows if row["part"] == part]
        if rows:
            differing = sum(row["differences"] != 0 for row in rows)
            report.goals.append(Goal(f"of {len(rows)} seeds, {part}: with a difference", differing, "seeds", **bound))
    return report


def _most(part: str, count: int) -> int:
    return count if part == "lists" else WITHOUT_LISTS


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
