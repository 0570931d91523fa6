"""History of ratios, one JSON line for each ratio of each night, and the decision whether one has become worse.

A ratio compares two programs of one run, so it depends little on the machine; still each kind of machine has a history
of its own. The baseline of a ratio is its last `WINDOW` accepted nights. A night is worse when its ratio lies outside
their range by more than `TOLERANCE`, on the side that the goal's bound calls bad. Worse nights are not accepted, so a
slower program does not become its own baseline; `accepted` in a line says that it may.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from rig.harness import Report, number, table

WINDOW: Final = 10
"""Number of nights in a baseline."""
FEWEST: Final = 3
"""Minimum number of nights in a baseline; the first nights are accepted without a comparison."""
NIGHTS: Final = 2
"""Number of consecutive worse nights after which a ratio fails."""
TOLERANCE: Final = 0.10

Better = Literal["higher", "lower"]
Verdict = Literal["steady", "better", "worse once", "failed", "few nights"]


@dataclass(frozen=True)
class Line:
    """A ratio of one night. If a day has several runs, the last one counts."""

    date: str
    """Day in UTC, for example 2026-11-24."""
    commit: str
    machine: str
    ratio: str
    value: float
    better: Better
    accepted: bool = False
    """Whether the night begins a new baseline, regardless of the old one."""


@dataclass(frozen=True)
class Trend:
    """A ratio on one kind of machine: its last night compared with its baseline."""

    ratio: str
    machine: str
    last: Line
    baseline: tuple[float, ...]
    worse: int
    """Number of consecutive worse nights up to the last one."""
    verdict: Verdict


def lines_of(report: Report, *, date: str, commit: str, machine: dict[str, Any]) -> list[Line]:
    """Ratios of a report: those without a goal, and measured goals whose unit begins with `×`."""
    python, _, form = str(machine["python"]).partition(", ")
    where = f"{machine['cores']} cores, {machine['processor']}, Python {'.'.join(python.split('.')[:2])}"
    where = f"{where}, {form}" if form else where
    values: list[tuple[str, float, Better]] = [
        (f"{goal.name}, {goal.unit}", goal.value, "higher" if goal.at_least is not None else "lower")
        for goal in report.goals
        if goal.value is not None and goal.unit.startswith("×")
    ]
    values += [(f"{name}, ×", value, "lower") for name, value in report.without_goal.items()]
    return [
        Line(date=date, commit=commit, machine=where, ratio=f"{report.name}: {name}", value=value, better=better)
        for name, value, better in values
    ]


def encode(lines: Iterable[Line]) -> str:
    """Encode as JSON lines, each with a line end."""
    return "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in lines)


def decode(text: str) -> list[Line]:
    """Decode the lines of a history. Raises ValueError with the number of the first invalid line."""
    lines = []
    for at, line in enumerate(text.splitlines(), 1):
        try:
            lines.append(Line(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {at} is not a line of a history: {error}") from error
    return lines


@dataclass
class _Course:
    """Consecutive nights of a ratio."""

    accepted: list[float] = field(default_factory=list)
    worse: int = 0
    verdict: Verdict = "few nights"

    @property
    def baseline(self) -> list[float]:
        return self.accepted[-WINDOW:]

    def take(self, line: Line) -> None:
        """Compare the next night with the previous nights."""
        if line.accepted:
            self.accepted.clear()
        if len(self.accepted) < FEWEST:
            self.worse = 0
            self.verdict = "few nights"
            self.accepted.append(line.value)
            return
        low, high = min(self.baseline) * (1 - TOLERANCE), max(self.baseline) * (1 + TOLERANCE)
        below, above = line.value < low, line.value > high
        if below if line.better == "higher" else above:
            self.worse += 1
            self.verdict = "failed" if self.worse >= NIGHTS else "worse once"
            return
        self.worse = 0
        self.verdict = "better" if below or above else "steady"
        self.accepted.append(line.value)


def trends(history: Sequence[Line]) -> list[Trend]:
    """Verdict on each ratio of each kind of machine, in the order of their first nights."""
    nights: dict[tuple[str, str], dict[str, Line]] = {}
    for line in history:
        days = nights.setdefault((line.machine, line.ratio), {})
        before = days.get(line.date)
        if before is None or not before.accepted or line.accepted:
            days[line.date] = line
    all_trends = []
    for (machine, ratio), days in nights.items():
        course = _Course()
        baseline: tuple[float, ...] = ()
        for day in sorted(days):
            baseline = tuple(course.baseline)
            course.take(days[day])
        last = days[max(days)]
        all_trends.append(Trend(ratio, machine, last, baseline, course.worse, course.verdict))
    return all_trends


def to_markdown(all_trends: Sequence[Trend]) -> str:
    """Markdown: a table that begins with worse ratios, and a sentence about each ratio that failed."""
    order: list[Verdict] = ["failed", "worse once", "better", "steady", "few nights"]
    ordered = sorted(all_trends, key=lambda trend: order.index(trend.verdict))
    columns = ["ratio", "last night", "range before", "nights", "verdict", "machine"]
    cells = [
        [
            trend.ratio,
            number(trend.last.value),
            f"{number(min(trend.baseline))}–{number(max(trend.baseline))}" if trend.baseline else "–",
            str(len(trend.baseline)),
            trend.verdict,
            trend.machine,
        ]
        for trend in ordered
    ]
    told = [
        f"**{trend.ratio}** failed: {number(trend.last.value)} at {trend.last.commit} is outside"
        f" {number(min(trend.baseline))}–{number(max(trend.baseline))}, the range of {len(trend.baseline)} nights,"
        f" by more than {TOLERANCE:.0%}, on {trend.worse} nights in a row; {trend.last.better} is better."
        f" Where that is meant: hack/bench history FILE --accept '{trend.ratio}'."
        for trend in ordered
        if trend.verdict == "failed"
    ]
    return "\n\n".join([table(columns, cells), *told]) + "\n"
