"""Every door of the gateway in one table, beside the plain call and nginx.

The plain call is a `tools/call` at `/mcp` of a client of the legacy era that declares nothing; nginx is a hop to the
same server. What a call costs is the processor time of the process trees that are measured, divided by the calls of the
same window; ratios are taken within a round, and every round has every door once: 64 connections, then one. A door that
cannot be measured says why, and costs the others nothing. A request to a model is one call, with all that it has done.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from typing import Final

from doors.peers import PEERS
from doors.rows import DOORS, NGINX, PLAIN, Door, HttpLoad
from doors.targets import Targets
from gateway.workloads import SATURATED
from rig.harness import Cell, Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios, table
from rig.loadtools import Outcome
from rig.processes import Stage, become_realtime

ROUNDS: Final = 5
PARTS: Final = (*DOORS, *PEERS)
ALL: Final = {**DOORS, **PEERS}
MEASURED: Final = {
    "calls/s": ("calls/s", 1),
    "p50 µs, 1 connection": ("p50 µs, 1 connection", 1),
    f"p99 µs, {SATURATED}": (f"p99 ms, {SATURATED}", 1_000),
    "kB, idle connection": ("kB, idle connection", 1),
}
"""Columns of the documentation after the ratio and its goal, and by what their figures are divided."""
Outcomes = dict[str, dict[int, dict[int, Outcome]]]
"""Outcomes by door, connections and round."""
Memory = dict[str, float | None]
"""Bytes of an idle connection, by door; None where it is not the gateway's."""


def window(settings: Settings) -> tuple[float, float]:
    """Seconds of measurement and of warm-up."""
    return (1.0, 0.2) if settings.quick else (2.5, 0.7)


def measure_all(settings: Settings, outcomes: Outcomes, memory: Memory, failures: dict[str, str]) -> None:
    """Measure the doors into `outcomes` and `memory`; `failures` gets the reasons of those that cannot be measured."""
    doors = ALL if settings.peers else DOORS
    wanted = {name: door for name, door in doors.items() if name in (PLAIN, NGINX) or settings.wants(name)}
    with Stage() as stage:
        targets = Targets(stage)
        for number, name in interleaved(list(wanted), settings.rounds):
            if name in failures:
                continue
            try:
                for connections in (SATURATED, 1):
                    outcome = wanted[name].measure(targets, connections, window(settings))
                    outcomes[name][connections][number] = outcome
                measure = wanted[name].measure
                if name not in memory and isinstance(measure, HttpLoad):
                    memory[name] = measure.idle_memory()
            except Exception as error:  # noqa: BLE001  # the edge of a door; it is reported
                if not isinstance(error, Unmeasurable):
                    traceback.print_exc()
                failures[name] = " ".join(str(error).split())[-600:] or type(error).__name__
            settings.keep(report_of(outcomes, memory, failures, settings))


def figures(rounds: dict[int, Outcome], figure: str) -> dict[int, float]:
    """One figure by round."""
    return {number: getattr(outcome, figure) for number, outcome in rounds.items()}


def cpu_ratio(outcomes: Outcomes, name: str, other: str) -> Sample | None:
    """Processor time of a call, as a ratio to that of another door."""
    return ratios(figures(outcomes[name][SATURATED], "cpu"), figures(outcomes[other][SATURATED], "cpu"))


def row(outcomes: Outcomes, memory: Memory, name: str, door: Door) -> dict[str, Cell]:
    """One line of the table."""
    busy, alone, each = outcomes[name][SATURATED], outcomes[name][1], memory.get(name)

    def sample(rounds: dict[int, Outcome], figure: str) -> Sample | None:
        return Sample.of(figures(rounds, figure).values()) if rounds else None

    return {
        "door": name,
        "request": door.description,
        "CPU × plain call": cpu_ratio(outcomes, name, PLAIN),
        "CPU µs": sample(busy, "cpu"),
        "calls/s": sample(busy, "calls_per_second"),
        "p50 µs, 1 connection": sample(alone, "p50"),
        f"p99 µs, {SATURATED}": sample(busy, "p99"),
        "kB, idle connection": None if each is None else each / 1e3,
        "foreign cores": sample(busy, "foreign"),
    }


def goals(outcomes: Outcomes, settings: Settings) -> list[Goal]:
    """Goals of the doors that `--only` selects."""
    selected = []
    for name, door in DOORS.items():
        if door.at_most is not None and settings.wants(name):
            ratio = cpu_ratio(outcomes, name, door.beside)
            title = f"CPU of {name}, of {door.beside}"
            selected.append(Goal(title, ratio.median if ratio else None, "×", at_most=door.at_most))
    return selected


def page_rows(outcomes: Outcomes, memory: Memory) -> str:
    """Table of the documentation: the costs of all doors, beside their goals."""
    lines = []
    for name, door in ALL.items():
        ratio = cpu_ratio(outcomes, name, PLAIN)
        if ratio is not None:
            beside = "" if door.beside == PLAIN else f" × `{door.beside}`"
            goal = "" if door.at_most is None else f"≤ {door.at_most:g}{beside}"
            cells = row(outcomes, memory, name, door)
            measured = [rounded(cells[column], unit) for column, (_, unit) in MEASURED.items()]
            lines.append([f"`{name}`", door.description, written(ratio.median), goal, *measured])
    titles = [title for title, _ in MEASURED.values()]
    return table(["door", "request", "CPU, plain call = 1", "goal", *titles], lines)


def rounded(cell: Cell, unit: int) -> str:
    """A figure in another unit as the documentation has it: its median, with two digits at least."""
    value = cell.median if isinstance(cell, Sample) else cell
    if not isinstance(value, int | float):
        return ""
    return f"{value / unit:,.{0 if value >= 10 * unit else 1}f}"


def written(ratio: float) -> str:
    """A ratio as the documentation has it: two decimals below 10, none above."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:,.0f}"


def report_of(outcomes: Outcomes, memory: Memory, failures: dict[str, str], settings: Settings) -> Report:
    """Report of the results so far."""
    report = Report("doors")
    report.rows = [row(outcomes, memory, name, door) for name, door in ALL.items() if outcomes[name][SATURATED]]
    report.goals = goals(outcomes, settings)
    for name, door in DOORS.items():
        if door.at_most is None and (ratio := cpu_ratio(outcomes, name, PLAIN)):
            report.without_goal[f"CPU of {name}, of {PLAIN}"] = ratio.median
    report.failures = [f"{name}: {why}" for name, why in failures.items()]
    if settings.quick:
        report.notes.append("--quick: not for quoting")
    report.notes.append(f"rows of docs/performance/doors.md:\n\n{page_rows(outcomes, memory)}\n")
    return report


def run(settings: Settings) -> Report:
    """Measure. What cannot be measured is among the report's failures."""
    if settings.realtime:
        become_realtime()
    outcomes: Outcomes = defaultdict(lambda: defaultdict(dict))
    memory: Memory = {}
    failures: dict[str, str] = {}
    measure_all(settings, outcomes, memory, failures)
    return report_of(outcomes, memory, failures, settings)
