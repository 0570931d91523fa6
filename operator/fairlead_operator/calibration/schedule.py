"""Schedules the probes of one server's tools and keeps their results. Pure; owned by the server's task in `prober`.

A *round* probes every tool a few times, on connect and then once per interval. Between rounds, a tool that a tier hides
is probed every ten seconds, so that it returns soon after it has become fast again. After a probe within the tier's
limit, the next probes of the tool follow at intervals of two seconds. A tool that has been hidden for long is probed
less often, down to once per interval. A probe is postponed if the tool's probes have used up their share of the time
(`budget`).
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
"""Seconds between two probes of a hidden tool."""
HIDDEN_TIME_DIVISOR: Final = 60.0
"""For a tool that has been hidden for long, the pause between probes is its hidden time divided by this number."""
CONFIRM_S: Final = 2.0
"""Seconds between two probes of a hidden tool while the probes are within the tier's limit."""
MAX_CONFIRMS: Final = 30
"""Maximum number of consecutive confirming probes. If the tool is still hidden after them, its speed is not the
reason.
"""
MAX_NAMED: Final = 3
"""Maximum number of tools that a message names."""
ROUND_TRIPS: Final = 20
"""Number of round trips of which the median is taken."""
_NEVER: Final = "spec.calibration allows no probes (probe: Never)"
_NOTHING: Final[Mapping[str, str]] = {
    "Declared": "no tool is probed, because none has probe.arguments in spec.tools",
    "ReadOnly": "no tool is probed: none has probe.arguments in spec.tools, and none is trusted as read-only",
}
"""Message about a server without probes, by policy."""
_NO_PERSON: Final = (
    "no tool is probed, because calls need the token of a user (spec.auth); with a credential in "
    "spec.discovery.auth, probes are called with that"
)
MAX_USELESS: Final = 2
"""Number of consecutive unsuccessful probes after which a tool's remaining probes of the round are skipped."""


@dataclass(frozen=True)
class ProbeOutcome:
    """Outcome of one probe. If `outcome` is None, the probe says nothing about the tool, and `words` quote the
    answer.
    """

    outcome: AttemptOutcome | None
    duration_ms: float = 0.0
    words: str = ""


@dataclass
class _PendingProbes:
    """The remaining probes of one tool in the round."""

    left: int
    useless: int = 0
    """Number of unsuccessful probes since the last successful one."""
    answer: ProbeOutcome | None = None
    """The last outcome that is a measurement of the tool; without any, the last outcome."""

    def take(self, answer: ProbeOutcome) -> ProbeOutcome:
        """Count a probe; return the outcome to keep for the round."""
        self.left -= 1
        self.useless = self.useless + 1 if answer.words else 0
        if self.answer is None or self.answer.outcome is None or answer.outcome is not None:
            self.answer = answer
        return self.answer


@dataclass
class _HiddenTool:
    """Schedule of one hidden tool."""

    since: float
    """Time at which the tool was first seen as hidden."""
    due: float
    """Time of the next probe."""
    confirms: int = 0
    """Number of probes within the tier's limit since the last probe over it."""


class ProbeSchedule:
    """Schedule of the probes of one server. `interval` and `now` parameters are seconds of the same clock; `account` is
    the budget that says when each tool may be probed again.
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
        self._hidden: dict[str, _HiddenTool] = {}
        self._answers: dict[str, ProbeOutcome] = {}
        self._round_trips: list[float] = []

    # What is due.

    def due_in(self, hidden: Mapping[str, float], now: float) -> float:
        """Seconds until a probe is due; 0 or less if one is due now.

        `hidden` are the tools that a tier hides, each with the milliseconds within which a probe has to succeed.
        """
        watched = hidden.keys() & self.measured
        for tool in self._hidden.keys() - watched:
            del self._hidden[tool]
        for tool in watched:
            self._hidden.setdefault(tool, _HiddenTool(now, now + WATCH_S))
        times = [self._due(tool) for tool in self._hidden]
        times += [self._account.free_at(tool) for tool in self._pending] or [self._round_due]
        return min(times, default=math.inf) - now

    def _due(self, tool: str) -> float:
        return max(self._hidden[tool].due, self._account.free_at(tool))

    def in_round(self, now: float) -> PlannedProbe | None:
        """The probe that is due now in a round, or None; begins the next round when it is due.

        Tools are probed in turn, so that a slow tool does not delay the others.
        """
        if not self._pending and self._round_due <= now:
            self._pending = {tool: _PendingProbes(self._samples) for tool in self._probes}
        free = (tool for tool in self._pending if self._account.free_at(tool) <= now)
        tool = next(free, None)
        return None if tool is None else self._probes[tool]

    def next_hidden(self, now: float) -> PlannedProbe | None:
        """The probe of a hidden tool that is due now, or None."""
        due = [(self._due(tool), tool) for tool in self._hidden]
        due = [each for each in due if each[0] <= now]
        return self._probes[min(due)[1]] if due else None

    # Results.

    def take_answer(self, probe: PlannedProbe, answer: ProbeOutcome, now: float, *, last: bool = False) -> None:
        """Record the outcome of a probe in a round. `last`: skip the tool's remaining probes of this round."""
        pending = self._pending.pop(probe.tool)
        latest = pending.take(answer)
        goes_on = pending.left > 0 and pending.useless < MAX_USELESS and not last
        if latest.outcome is not None or not goes_on:
            self._answers[probe.tool] = latest
        if goes_on:
            self._pending[probe.tool] = pending  # after the other tools
        elif not self._pending:
            self._round_due = now + self._interval

    def take_hidden_answer(self, probe: PlannedProbe, answer: ProbeOutcome, limit_ms: float, now: float) -> None:
        """Record the outcome of a hidden tool's probe, which is within the tier's limit if it took at most
        `limit_ms`.
        """
        self._answers[probe.tool] = answer
        hidden_tool = self._hidden[probe.tool]
        in_time = answer.outcome is AttemptOutcome.OK and answer.duration_ms <= limit_ms
        hidden_tool.confirms = hidden_tool.confirms + 1 if in_time else 0
        patient = max(WATCH_S, min((now - hidden_tool.since) / HIDDEN_TIME_DIVISOR, self._interval))
        hidden_tool.due = now + (CONFIRM_S if 0 < hidden_tool.confirms <= MAX_CONFIRMS else patient)

    def take_round_trip(self, milliseconds: float) -> None:
        """Record the duration of a round trip without a tool call."""
        self._round_trips = [*self._round_trips[1 - ROUND_TRIPS :], milliseconds]

    @property
    def round_trip_ms(self) -> float | None:
        """Median of the last round trips without a tool call, in milliseconds; None before the first."""
        times = sorted(self._round_trips)
        return round(times[len(times) // 2], 1) if times else None

    @property
    def measured(self) -> frozenset[str]:
        """Tools whose last probe was a measurement, and which are therefore probed while tiers hide them."""
        return frozenset(tool for tool, answer in self._answers.items() if answer.outcome is not None)

    def verdict(self) -> ConditionVerdict | None:
        """Verdict for the condition Calibrated; None until each tool was probed. Its message stays the same from round
        to round, so that a round does not cause a write of the status.
        """
        plan = self.plan
        refused = f"; no arguments can be generated for {_some(plan.refused)}" if plan.refused else ""
        if plan.policy == "Never":
            return ConditionVerdict(False, Cause.CALIBRATION_DISABLED, _NEVER)
        if plan.has_no_person:
            return ConditionVerdict(False, Cause.NOTHING_TO_PROBE, _NO_PERSON)
        if not plan.probes:
            return ConditionVerdict(False, Cause.NOTHING_TO_PROBE, f"{_NOTHING[plan.policy]}{refused}")
        if self._answers.keys() < self._probes.keys():
            return None
        failed = [tool for tool in self._probes if tool not in self.measured]
        if failed:
            words = self._answers[failed[0]].words
            return ConditionVerdict(False, Cause.PROBES_FAILED, f"no result from {_some(failed)}: {words}{refused}")
        count = f"{len(plan.probes)} tool" + "s" * (len(plan.probes) != 1)
        return ConditionVerdict(True, Cause.CALIBRATED, f"{count} probed{refused}")


def _some(tools: Iterable[str]) -> str:
    """Up to `MAX_NAMED` names of tools, and the number of further tools."""
    names = sorted(tools)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
