"""Random operations on a real API server, by seed: documents afterwards against those of a fresh operator.

Operations are those of `tests/support/random_operations.py`: all that is declared is created, edited and deleted,
documents and workloads too, while the API server is away or killed, watches expire, leaders end and the Lease's clock
is late. In the part `lost-events` the events get lost on the way to Kopf; in `without-lists` there are no
periodic lists besides: what is lost stays lost, which shows that a difference would be seen. Each seed is a line on
standard error as soon as it is over, and the command that repeats it where it failed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controlplane import ControlPlane, NoControlPlane, find_assets
from document_pictures import differences
from fairlead_operator.settings import Settings as OperatorSettings
from random_operations import CHAOS, chaos, compare
from rig.harness import Cell, Goal, Report, Settings, Unmeasurable

SEEDS: Final = 100
OPERATIONS: Final = 200
KILLED_EVERY: Final = 5
"""Seeds per seed in which the API server's process is killed."""
NEVER: Final = 3600.0
LOST: Final = 1.0
"""Share of lost events of declared objects. If all are lost, Kopf sees objects only in the list at the start of each
connection."""


@dataclass(frozen=True)
class Part:
    """Configuration of the operators for some of the seeds, in percent, and the expected result."""

    share: float
    goal: dict[str, float]
    settings: OperatorSettings = CHAOS
    lost: float = 0.0


NO_DIFFERENCE: Final = {"at_most": 0.0}
PARTS: Final = {
    "lists": Part(1.0, NO_DIFFERENCE),
    "lost-events": Part(0.1, NO_DIFFERENCE, lost=LOST),
    "without-lists": Part(0.05, {"at_least": 1.0}, CHAOS.replace(list_seconds=NEVER), LOST),
}
FIRST_LINES: Final = 20
"""Maximum number of printed differences per seed."""
Row = dict[str, Cell]


class RecentLines(logging.Handler):
    """Last lines of the operators' log, for a seed that fails. Outages cause thousands of warnings."""

    def __init__(self, count: int = 60) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=count)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


async def measure(plane: ControlPlane, folder: Path, seed: int, operations: int, part: str) -> Row:
    """Run one seed on a control plane without other declared objects. Raises AssertionError if it does not finish."""
    directory = folder / f"{part}-{seed}"
    directory.mkdir()
    start = time.monotonic()
    how = PARTS[part]
    async with chaos(plane, directory, seed, how.settings, lost=how.lost) as run:
        comparison, wanted = await compare(run, operations, kills=0 if seed % KILLED_EVERY else 1)
        lines = differences(comparison, wanted)
    for line in lines[:FIRST_LINES]:
        _say(f"seed {seed}, {part}: {line}")
    return {
        "seed": seed,
        "part": part,
        "operations": operations,
        "declared": run.done["declare"],
        "by hand": run.done["meddle"],
        "outages": run.done["outage"] + run.done["kill_apiserver"],
        "expiries": run.done["expire"],
        "leaders": run.done["leaders"],
        "leaders killed": run.done["leaders killed"],
        "differences": len(lines),
        "first difference": lines[0][:200] if lines else "",
        "seconds": time.monotonic() - start,
    }


async def measured(settings: Settings, report: Report, measure: Callable[[int, int, str], Awaitable[Row]]) -> None:
    """Add a row for each seed. All run in one event loop, because a restarted API server ends with the thread that
    started it.
    """
    count = settings.seeds or (3 if settings.quick else SEEDS)
    seeds = range(settings.first_seed, settings.first_seed + count)
    operations = 60 if settings.quick else OPERATIONS
    logging.getLogger().addHandler(recent := RecentLines())
    runs = [
        (name, seed)
        for name, part in PARTS.items()
        if settings.wants(name)
        for seed in seeds[: math.ceil(count * part.share)]
    ]
    for number, (part, seed) in enumerate(runs, 1):
        try:
            row = await measure(seed, operations, part)
        except (AssertionError, OSError, ExceptionGroup) as error:
            outcome = f"{type(error).__name__}: {error}"
        else:
            report.rows.append(row)
            outcome = f"{row['differences']} differences"
            _say(f"{number}/{len(runs)} seed {seed}, {part}: {outcome}, {row['seconds']:.0f} s")
            if PARTS[part].goal is not NO_DIFFERENCE or not row["differences"]:
                outcome = ""
        if outcome:
            report.failures.append(failure(part, seed, outcome, quick=settings.quick))
            _say("\n".join([*recent.lines, report.failures[-1]]))
        settings.keep(report)


def failure(part: str, seed: int, outcome: str, *, quick: bool) -> str:
    """Sentence about a failed seed, with the command that repeats it."""
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
    for name, part in PARTS.items():
        rows = [row for row in report.rows if row["part"] == name]
        if rows:
            differing = sum(row["differences"] != 0 for row in rows)
            report.goals.append(
                Goal(f"of {len(rows)} seeds, {name}: with a difference", differing, "seeds", **part.goal)
            )
    return report


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
