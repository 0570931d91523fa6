"""The traces of `hack/bench tiers`: which calls an agent makes, and how long the tools take, from seeds.

A trace is 2,000 calls at 5 a second on average over the tools that the agent sees, by weight. Time is in seconds from
its begin, durations are in milliseconds, the limit of the tier is 500 ms. Everything random about a call is drawn
before the run, so that every policy meets the same calls.

    one   one of 20 tools, with 35 % of the calls, misbehaves
    four  four of 20 tools of falling popularity, with 40 % of the calls, misbehave at once
    hot   one tool takes all calls while it is listed

The other tools are log-normal with a median of 120 ms (0.2 % late).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tiers.traces.durations import Duration, LogNormal, Mix, Phases, Silence, fixed_ratio, ramp

CALLS: Final = 2000
PER_SECOND: Final = 5.0
LIMIT_MS: Final = 500.0
MAX_LATE: Final = 0.05
"""Maximum share of late calls of a tool that fits a tier judged by p95."""


@dataclass(frozen=True)
class Draw:
    """Random numbers of one call."""

    at: float
    pick: float
    """Number from 0 to 1 that selects one of the listed tools."""
    spread: float
    """Normally distributed deviation from the tool's median."""
    side: float
    """Number from 0 to 1 that selects one of two speeds."""


@dataclass(frozen=True)
class Subject:
    """One tool of a trace."""

    name: str
    duration: Duration
    declared_ms: int
    weight: float
    misbehaves: bool


@dataclass(frozen=True)
class Trace:
    """Behavior of one or more misbehaving tools."""

    name: str
    load: str
    duration: Callable[[], Duration]
    declared_ms: int = 150
    change: float | None = None
    """Time at which the tools cease to fit; None for never."""
    heal: float | None = None
    """Time at which they fit again."""

    def tools(self) -> list[Subject]:
        """Names in order of popularity, which is also their alphabetical order."""
        count, bad = {"one": (20, {0}), "four": (20, {0, 3, 7, 15}), "hot": (2, {0})}[self.load]
        return [
            Subject(f"tool{index:02}", self.duration(), self.declared_ms, self._weight(index), misbehaves=True)
            if index in bad
            else Subject(f"tool{index:02}", GOOD, 100, self._weight(index), misbehaves=False)
            for index in range(count)
        ]

    def _weight(self, index: int) -> float:
        if self.load == "four":
            return 1 / (index + 1)
        first, others = (7.0, 13 / 19) if self.load == "one" else (1e6, 1.0)
        return others if index else first

    def draws(self, seed: int, calls: int = CALLS) -> list[Draw]:
        """Draws of all calls of one run."""
        rng, at = random.Random(f"{self.name}/{seed}"), 0.0
        all_draws = []
        for _ in range(calls):
            at += rng.expovariate(PER_SECOND)
            all_draws.append(Draw(at, rng.random(), rng.gauss(0, 1), rng.random()))
        return all_draws


GOOD: Final = LogNormal(120, 0.5)
_BASE: Final = LogNormal(150, 0.3)
_SLOW: Final = LogNormal(800, 0.3)
_STUCK: Final = LogNormal(3000, 0.3)


def _shift() -> Duration:
    return Phases((0, _BASE), (100, _SLOW))


def _dead() -> Duration:
    return Phases((0, _BASE), (100, Silence()))


def _recovering() -> Duration:
    return Phases((0, _BASE), (100, Silence()), (200, _BASE))


def _slow_and_back() -> Duration:
    return Phases((0, _BASE), (100, _SLOW), (200, _BASE))


def _spike() -> Duration:
    return Phases((0, _BASE), (100, _STUCK), (120, _BASE))


def _liar() -> Duration:
    return _SLOW


def _misses() -> Duration:
    return Mix(0.7)


def _drift() -> Duration:
    return LogNormal(ramp(200, 900, 50, 350), 0.4)


def _steady(ratio: float) -> Callable[[], Duration]:
    return lambda: fixed_ratio(ratio, LIMIT_MS)


TRACES: Final = {
    trace.name: trace
    for trace in (
        *(Trace(f"steady {ratio}", "hot", _steady(ratio), 100) for ratio in (0.6, 0.8, 0.9)),
        *(Trace(f"shift, {load}", load, _shift, change=100) for load in ("one", "hot", "four")),
        *(Trace(f"dead, {load}", load, _dead, change=100) for load in ("one", "four")),
        *(Trace(f"liar, {load}", load, _liar, declared_ms=50, change=0) for load in ("one", "four")),
        *(Trace(f"recovering, {load}", load, _recovering, change=100, heal=200) for load in ("one", "four")),
        *(Trace(f"slow and back, {load}", load, _slow_and_back, change=100, heal=200) for load in ("one", "hot")),
        Trace("spike, four", "four", _spike, change=100, heal=120),
        Trace("drift, four", "four", _drift, 200, change=77),
        Trace("bimodal, four", "four", _misses, 100, change=0),
        *(Trace(f"grey {ratio}", "hot", _steady(ratio), 100) for ratio in (0.98, 1.1, 1.3, 1.6)),
    )
}
