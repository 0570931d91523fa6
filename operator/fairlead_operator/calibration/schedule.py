"""Schedules the probes of one server's tools and keeps their results. Pure; owned by the server's task in `prober`.

A *round* probes every tool a few times, on connect and then once per interval. Between rounds, a tool that a tier hides
is probed every ten seconds, so that it returns soon after it has become fast again. After a probe within the tier's
limit, the tool's next probes follow at intervals of two seconds. The longer a tool is hidden, the less often it is
probed, down to once per interval. A probe is postponed if the tool's probes have used up their share of the time
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
_PROBES_FORBIDDEN: Final = "spec.calibration allows no probes (probe: Never)"
_NO_PROBES: Final[Mapping[str, str]] = {
    "Declared": "no tool is probed, because none has probe.arguments in spec.tools",
    "ReadOnly": "no tool is probed: none has probe.arguments in spec.tools, and none is trusted as read-only",
}
"""Message about a server without probes, by policy."""
_NEEDS_USER: Final = (
    "no tool is probed, because calls need the token or key of a user (spec.auth): to probe tools with a separate "
    "credential, name one in spec.discovery.auth, such as bearer or header"
)
MAX_FAILURES: Final = 2
"""Number of consecutive unsuccessful probes after which a tool's remaining probes of the round are skipped."""


@dataclass(frozen=True)
class ProbeOutcome:
    """Outcome of one probe."""

    attempt_outcome: AttemptOutcome | None
    """None if the probe is not a measurement of the tool."""
    duration_ms: float = 0.0
    problem: str = ""
    """The error or the refusal of the tool; empty after a success."""


@dataclass
class _PendingProbes:
    """The remaining probes of one tool in the round."""

    probes_left: int
    failures: int = 0
    """Number of unsuccessful probes since the last successful one."""
    outcome: ProbeOutcome | None = None
    """The last outcome that is a measurement of the tool, or else the last outcome."""

    def take(self, outcome: ProbeOutcome) -> ProbeOutcome:
        """Count a probe; return the tool's outcome for the round so far."""
        self.probes_left -= 1
        self.failures = self.failures + 1 if outcome.problem else 0
        if self.outcome is None or self.outcome.attempt_outcome is None or outcome.attempt_outcome is not None:
            self.outcome = outcome
        return self.outcome


@dataclass
class _HiddenTool:
    """Schedule of one hidden tool."""

    since: float
    """Time since which the tool is known to be hidden."""
    due: float
    """Time of the next probe."""
    confirms: int = 0
    """Number of probes within the tier's limit since the last slower probe."""


class ProbeSchedule:
    """Schedule of the probes of one server. `interval` and `now` parameters are seconds of the same clock."""

    def __init__(
        self, plan: ProbePlan, interval: float, now: float, *, samples: int = 1, budget: ProbeBudget | None = None
    ) -> None:
        """`samples` is the number of probes per tool and round. `budget` says when each tool may be probed again."""
        self.plan = plan
        self._interval = interval
        self._samples = samples
        self._budget = budget or ProbeBudget()
        self._round_due = now
        self._pending: dict[str, _PendingProbes] = {}
        self._probes = {probe.tool: probe for probe in plan.probes}
        self._hidden_tools: dict[str, _HiddenTool] = {}
        self._outcomes: dict[str, ProbeOutcome] = {}
        self._round_trips: list[float] = []

    # Due probes.

    def due_in(self, hidden: Mapping[str, float], now: float) -> float:
        """Seconds until a probe is due; 0 or less if one is due now.

        `hidden` are the tools that a tier hides, each with the milliseconds within which a probe has to succeed.
        """
        watched = hidden.keys() & self.measured_tools
        for tool in self._hidden_tools.keys() - watched:
            del self._hidden_tools[tool]
        for tool in watched:
            self._hidden_tools.setdefault(tool, _HiddenTool(now, now + WATCH_S))
        times = [self._due_at(tool) for tool in self._hidden_tools]
        times += [self._budget.free_at(tool) for tool in self._pending] or [self._round_due]
        return min(times, default=math.inf) - now

    def _due_at(self, tool: str) -> float:
        return max(self._hidden_tools[tool].due, self._budget.free_at(tool))

    def next_in_round(self, now: float) -> PlannedProbe | None:
        """The probe of the current round that is due now, or None. Begins a round when one is due.

        Tools are probed in turn, so that a slow tool does not delay the others.
        """
        if not self._pending and self._round_due <= now:
            self._pending = {tool: _PendingProbes(self._samples) for tool in self._probes}
        free = (tool for tool in self._pending if self._budget.free_at(tool) <= now)
        tool = next(free, None)
        return None if tool is None else self._probes[tool]

    def next_hidden(self, now: float) -> PlannedProbe | None:
        """The probe of a hidden tool that is due now, or None."""
        due_times = [(self._due_at(tool), tool) for tool in self._hidden_tools]
        past_due_times = [(due_at, tool) for due_at, tool in due_times if due_at <= now]
        return self._probes[min(past_due_times)[1]] if past_due_times else None

    # Results.

    def take_outcome(self, probe: PlannedProbe, outcome: ProbeOutcome, now: float, *, skip_rest: bool = False) -> None:
        """Record the outcome of a probe in a round. `skip_rest`: skip the tool's remaining probes of this round."""
        pending = self._pending.pop(probe.tool)
        latest = pending.take(outcome)
        continues = pending.probes_left > 0 and pending.failures < MAX_FAILURES and not skip_rest
        if latest.attempt_outcome is not None or not continues:
            self._outcomes[probe.tool] = latest
        if continues:
            self._pending[probe.tool] = pending  # after the other tools
        elif not self._pending:
            self._round_due = now + self._interval

    def take_hidden_outcome(self, probe: PlannedProbe, outcome: ProbeOutcome, limit_ms: float, now: float) -> None:
        """Record the outcome of a hidden tool's probe. `limit_ms` is the limit of the tier that hides the tool."""
        self._outcomes[probe.tool] = outcome
        hidden_tool = self._hidden_tools[probe.tool]
        in_time = outcome.attempt_outcome is AttemptOutcome.OK and outcome.duration_ms <= limit_ms
        hidden_tool.confirms = hidden_tool.confirms + 1 if in_time else 0
        is_confirming = 0 < hidden_tool.confirms <= MAX_CONFIRMS
        long_pause = max(WATCH_S, min((now - hidden_tool.since) / HIDDEN_TIME_DIVISOR, self._interval))
        hidden_tool.due = now + (CONFIRM_S if is_confirming else long_pause)

    def take_round_trip(self, milliseconds: float) -> None:
        """Record the duration of a round trip without a tool call."""
        self._round_trips = [*self._round_trips[1 - ROUND_TRIPS :], milliseconds]

    @property
    def round_trip_ms(self) -> float | None:
        """Median of the last round trips without a tool call, in milliseconds; None before the first."""
        times = sorted(self._round_trips)
        return round(times[len(times) // 2], 1) if times else None

    @property
    def measured_tools(self) -> frozenset[str]:
        """Tools whose last probe was a measurement. Only these are probed while tiers hide them."""
        return frozenset(tool for tool, outcome in self._outcomes.items() if outcome.attempt_outcome is not None)

    def verdict(self) -> ConditionVerdict | None:
        """Verdict for the condition Calibrated; None until each tool was probed. Its message contains no figures, so
        that a round does not cause a write of the status.
        """
        plan = self.plan
        without_arguments = (
            f"; no arguments can be generated for {_enumerate(plan.tools_without_arguments)}"
            if plan.tools_without_arguments
            else ""
        )
        if plan.policy == "Never":
            return ConditionVerdict(False, Cause.CALIBRATION_DISABLED, _PROBES_FORBIDDEN)
        if plan.lacks_user_token:
            return ConditionVerdict(False, Cause.NOTHING_TO_PROBE, _NEEDS_USER)
        if not plan.probes:
            return ConditionVerdict(False, Cause.NOTHING_TO_PROBE, f"{_NO_PROBES[plan.policy]}{without_arguments}")
        if self._outcomes.keys() < self._probes.keys():
            return None
        unmeasured_tools = [tool for tool in self._probes if tool not in self.measured_tools]
        if unmeasured_tools:
            problem = self._outcomes[unmeasured_tools[0]].problem
            message = f"no result from {_enumerate(unmeasured_tools)}: {problem}{without_arguments}"
            return ConditionVerdict(False, Cause.PROBES_FAILED, message)
        count = f"{len(plan.probes)} tool" + "s" * (len(plan.probes) != 1)
        return ConditionVerdict(True, Cause.CALIBRATED, f"{count} probed{without_arguments}")


def _enumerate(tools: Iterable[str]) -> str:
    """Up to `MAX_NAMED` names of tools, and the number of further tools."""
    names = sorted(tools)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
