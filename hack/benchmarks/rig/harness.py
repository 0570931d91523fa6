"""Harness of every benchmark: samples over interleaved rounds, goals, and the report as Markdown and as JSON.

A benchmark is a module `SUBJECT/bench_NAME.py` with `run(settings) -> Report`; the first line of its docstring is its
description. Nothing here starts a process.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from progress import counted

T = TypeVar("T")


class Unmeasurable(Exception):
    """The benchmark cannot be run here, or its answers were wrong; the message is one sentence for a person."""


@dataclass(frozen=True)
class Settings:
    """How thoroughly to measure."""

    rounds: int
    quick: bool = False
    realtime: bool = False
    """Whether every part runs with real-time priority, so that other work on the machine cannot delay its wake-up."""
    peers: bool = False
    """Whether to measure other products too, if the benchmark supports some. They are installed at the first use."""
    long: bool = False
    """Whether to include measurements that take minutes."""
    svg: Path | None = None
    """File for the chart, if the benchmark draws one."""
    plots: bool = False
    """Whether to draw the benchmark's plots into the documentation."""
    only: tuple[str, ...] = ()
    """Parts to measure; empty for all."""
    seeds: int = 0
    """Seeds of a benchmark that draws its work at random; 0: as many as it has by itself."""
    first_seed: int = 0
    keep: Callable[[Report], None] = lambda report: None
    """Callback that stores intermediate results; a long benchmark calls it repeatedly."""

    def wants(self, part: str) -> bool:
        """Whether a part is to be measured. `only` selects a part by its name or by the text before a `/` in the
        name.
        """
        return not self.only or any(part == word or part.startswith(f"{word}/") for word in self.only)

    def missed(self, group: str, reached: Iterable[str]) -> list[str]:
        """Entries of `only` for a part of `group` that match none of the parts in `reached`."""
        parts = {*reached}
        return [word for word in self.only if word.startswith(f"{group}/") and word not in parts]

    def check_parts(self, parts: Iterable[str]) -> None:
        """Raise Unmeasurable if `only` names an unknown part."""
        parts = [*parts]
        for word in self.only:
            if not any(part == word or part.startswith(f"{word}/") or word.startswith(f"{part}/") for part in parts):
                raise Unmeasurable(f"--only {word}: there is no such part; parts: {', '.join(parts) or 'none'}")


@dataclass(frozen=True)
class Sample:
    """One figure over the rounds: the median and the range."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        """Sample of values by round. Raises ValueError if there are none."""
        ordered = sorted(values)
        if not ordered:
            raise ValueError("a sample needs a value")
        return cls(statistics.median(ordered), ordered[0], ordered[-1])

    def __str__(self) -> str:
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"

    def to_json(self) -> dict[str, float]:
        """`{"median", "low", "high"}`."""
        return {"median": self.median, "low": self.low, "high": self.high}


def number(value: float) -> str:
    """Format a number with at least three significant digits and a thousands separator: 0.613, 12.3, 1,234."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"


@dataclass(frozen=True)
class Goal:
    """A bound on one figure. If the figure could not be measured, `value` and `met` are None."""

    name: str
    value: float | None
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def goal(self) -> str:
        """The bound as text, such as `>= 0.6`."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"

    @property
    def met(self) -> bool | None:
        """Whether the value is within the bound."""
        if self.value is None:
            return None
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def to_json(self) -> dict[str, Any]:
        """`{"name", "value", "unit", "goal", "met"}`."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "goal": self.goal, "met": self.met}


Cell = str | int | float | Sample | None


@dataclass
class Report:
    """Result of a benchmark. The keys of the first row are the columns; their names include the units."""

    name: str
    rows: list[dict[str, Cell]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Messages about failed measurements."""
    without_goal: dict[str, float] = field(default_factory=dict)
    """Ratios by name that have no goal and that a history keeps; lower is better."""

    @property
    def all_met(self) -> bool:
        """Whether there are goals, and all of them were measured and met."""
        return bool(self.goals) and all(goal.met for goal in self.goals)

    def to_json(self, machine: dict[str, Any], commit: str) -> dict[str, Any]:
        """The document that `--json` writes."""
        rows = [{k: v.to_json() if isinstance(v, Sample) else v for k, v in row.items()} for row in self.rows]
        return {
            "name": self.name,
            "machine": machine,
            "commit": commit,
            "rows": rows,
            "goals": [goal.to_json() for goal in self.goals],
            "notes": self.notes,
            "failures": self.failures,
        }

    def to_markdown(self, machine: dict[str, Any], commit: str) -> str:
        """Markdown: a heading with the machine, the table, the goals and the notes."""
        where = ", ".join(f"{key} {value}" for key, value in machine.items())
        blocks = [f"## {self.name}", f"commit {commit}; {where}"]
        if self.rows:
            columns = list(self.rows[0])
            blocks.append(table(columns, [[_shown(row.get(column)) for column in columns] for row in self.rows]))
        if self.goals:
            verdict = {True: "yes", False: "**no**", None: "not measured"}
            cells = [[g.name, _shown(g.value), g.unit, g.goal, verdict[g.met]] for g in self.goals]
            blocks.append(table(["goal", "value", "unit", "bound", "met"], cells))
        blocks.extend(f"- {note}" for note in self.notes)
        blocks.extend(f"- **not measured:** {failure}" for failure in self.failures)
        return "\n\n".join(blocks) + "\n"


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    return number(cell) if isinstance(cell, int | float) else str(cell)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. Pipes in cells are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def interleaved(targets: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Yield (round, target). Each round contains every target once and begins with the next target. Shows progress on a
    terminal.

    A drift of the machine then affects all targets alike, and no target always follows the same one.
    """
    order = [(r, targets[(r + i) % len(targets)]) for r in range(rounds) for i in range(len(targets))]
    return counted(f"{rounds} rounds of {len(targets)}", order, Console(stderr=True))


def in_rounds(rounds: int) -> Iterator[int]:
    """Yield the numbers of the rounds, for a benchmark with one target. Shows progress on a terminal."""
    return counted("rounds", range(rounds), Console(stderr=True))


def ratios(mine: dict[int, float], other: dict[int, float]) -> Sample | None:
    """`mine / other` round by round, from values by round; None where no round has both."""
    values = [value / other[r] for r, value in mine.items() if other.get(r)]
    return Sample.of(values) if values else None
