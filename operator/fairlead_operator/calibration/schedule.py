"""When each tool of one server is probed, and what came of it. Pure; owned by the server's task in `prober`.

A *round* probes every tool a few times, on connect and then once per interval. In between, a tool that a tier hides is
probed every ten seconds, so that it returns soon after it has become fast again: once a probe was in time, the next
ones follow two seconds apart. A tool that has been hidden for long is probed less often, down to once per interval.
All of that is put off while probes had their share of the tool's time (`budget`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.calibration.budget import ProbeBudget
from fairlead_operator.calibration.plan import PlannedProbe, ProbePlan
from fairlead_operator.latency.samples import AttemptOutcome
from fairlead_operator.ports import ConditionVerdict

WATCH_S: Final = 10.0
"""Between two probes of a hidden tool."""
PATIENT: Final = 60.0
"""Divisor for a tool that has been hidden long: the pause is its time hidden, divided by this."""
CONFIRM_S: Final = 2.0
"""Between probes while they are in time."""
MOST_CONFIRMS: Final = 30
"""Confirming probes in a row; a tool that is not back by then is held back for another reason."""
NAMED: Final = 3
"""Tools that a message names."""
ROUND_TRIPS: Final = 20
_NEVER: Final = "spec.calibration allows no probes (probe: Never)"
_NOTHING: Final[Mapping[str, str]] = {
    "Declared": "no tool is probed, because none has probe.arguments in spec.tools",
    "ReadOnly": "no tool is probed: none has probe.arguments in spec.tools, and none is trusted as read-only",
}
"""By policy."""
HOPELESS: Final = 2
"""Probes of a tool in a row without a figure, after which the rest of its round is left out."""


@dataclass(frozen=True)
class ProbeOutcome:
    """Outcome of one probe. `outcome` None: it says nothing about the tool, and `words` quote the answer."""

    outcome: AttemptOutcome | None
    duration_ms: float = 0.0
    words: str = ""


@dataclass
class _PendingProbes:
    """A tool that has probes left in the round."""

    left: int
    useless: int = 0
    answer: ProbeOutcome | None = None
    """The last one that says something of the tool, else the last one."""

    def take(self, answer: ProbeOutcome) -> ProbeOutcome:
        """Count one more."""
        self.left -= 1
        self.useless = self.useless + 1 if answer.words else 0
        if self.answer is None or self.answer.outcome is None or answer.outcome is not None:
            self.answer = answer
        return self.answer


@dataclass
class _Watch:
    """A tool that is hidden."""

    since: float
    due: float
    confirms: int = 0


class ProbeSchedule:
    """Schedule of the probes of one server. `now` parameters are seconds of any one clock, as is `interval`; `account`
    says when each tool may be probed again.
    """

    def __init__(
        self, plan: ProbePlan, interval: float, now: float, *, samples: int = 1, account: ProbeBudget | None = None
    ) -> None:
        self.plan = plan
        self._interval = interval
        self._samples = samples
        self._account = account or ProbeBudget()
        self._round_due = now
        self._pending: dict[str, _PendingProbes] = {}
        self._probes = {probe.tool: probe for probe in plan.probes}
        self._watched: dict[str, _Watch] = {}
        self._answers: dict[str, ProbeOutcome] = {}
        self._round_trips: list[float] = []

    # What is due.

    def due_in(self, hidden: Mapping[str, float], now: float) -> float:
        """Seconds until something is due, 0 or less: now. `hidden`: tool to the milliseconds within which a probe
        speaks for it, for every tool that a tier hides.
        """
        watched = hidden.keys() & self.measured
        for tool in self._watched.keys() - watched:
            del self._watched[tool]
        for tool in watched:
            self._watched.setdefault(tool, _Watch(now, now + WATCH_S))
        times = [self._due(tool) for tool in self._watched]
        times += [self._account.free_at(tool) for tool in self._pending] or [self._round_due]
        return min(times, default=math.inf) - now

    def _due(self, tool: str) -> float:
        return max(self._watched[tool].due, self._account.free_at(tool))

    def in_round(self, now: float) -> PlannedProbe | None:
        """The tool that is to be probed now in a round; begins the round that is due. The tools take turns, so that a
        slow one keeps none waiting.
        """
        if not self._pending and self._round_due <= now:
            self._pending = {tool: _PendingProbes(self._samples) for tool in self._probes}
        free = (tool for tool in self._pending if self._account.free_at(tool) <= now)
        tool = next(free, None)
        return None if tool is None else self._probes[tool]

    def next_hidden(self, now: float) -> PlannedProbe | None:
        """The hidden tool that is to be probed now."""
        due = [(self._due(tool), tool) for tool in self._watched]
        due = [each for each in due if each[0] <= now]
        return self._probes[min(due)[1]] if due else None

    # What came of it.

    def take_answer(self, probe: PlannedProbe, answer: ProbeOutcome, now: float, *, last: bool = False) -> None:
        """Take what a probe in a round came to. `last`: no more of the tool in this round."""
        pending = self._pending.pop(probe.tool)
        is_done = pending.take(answer)
        goes_on = pending.left > 0 and pending.useless < HOPELESS and not last
        if is_done.outcome is not None or not goes_on:
            self._answers[probe.tool] = is_done
        if goes_on:
            self._pending[probe.tool] = pending  # behind the others
        elif not self._pending:
            self._round_due = now + self._interval

    def take_hidden_answer(self, probe: PlannedProbe, answer: ProbeOutcome, limit_ms: float, now: float) -> None:
        """Take the answer to the probe of a hidden tool, which was in time within `limit_ms`."""
        self._answers[probe.tool] = answer
        watch = self._watched[probe.tool]
        in_time = answer.outcome is AttemptOutcome.OK and answer.duration_ms <= limit_ms
        watch.confirms = watch.confirms + 1 if in_time else 0
        patient = max(WATCH_S, min((now - watch.since) / PATIENT, self._interval))
        watch.due = now + (CONFIRM_S if 0 < watch.confirms <= MOST_CONFIRMS else patient)

    def take_round_trip(self, milliseconds: float) -> None:
        """Take the duration of a baseline round trip."""
        self._round_trips = [*self._round_trips[1 - ROUND_TRIPS :], milliseconds]

    @property
    def round_trip_ms(self) -> float | None:
        """Median of the last baseline round trips; None before the first."""
        times = sorted(self._round_trips)
        return round(times[len(times) // 2], 1) if times else None

    @property
    def measured(self) -> frozenset[str]:
        """Tools whose probes say something of them, so that they are watched while they are hidden."""
        return frozenset(tool for tool, answer in self._answers.items() if answer.outcome is not None)

    def verdict(self) -> ConditionVerdict | None:
        """The condition; None until each tool was probed. Its words stay the same from round to round."""
        plan = self.plan
        left = f"; no arguments can be made for {_some(plan.refused)}" if plan.refused else ""
        if plan.policy == "Never":
            return ConditionVerdict(False, Cause.CALIBRATION_DISABLED, _NEVER)
        if not plan.probes:
            return ConditionVerdict(False, Cause.NOTHING_TO_PROBE, f"{_NOTHING[plan.policy]}{left}")
        if self._answers.keys() < self._probes.keys():
            return None
        failed = [tool for tool in self._probes if tool not in self.measured]
        if failed:
            words = self._answers[failed[0]].words
            return ConditionVerdict(False, Cause.PROBES_FAILED, f"no result from {_some(failed)}: {words}{left}")
        count = f"{len(plan.probes)} tool" + "s" * (len(plan.probes) != 1)
        return ConditionVerdict(True, Cause.CALIBRATED, f"{count} probed{left}")


def _some(tools: Iterable[str]) -> str:
    names = sorted(tools)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
