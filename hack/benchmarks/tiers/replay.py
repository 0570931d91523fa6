"""A trace in virtual time: one agent, one gateway, and the operator's own `ToolRecord` for each tool.

Nothing waits and nothing is served: what is measured is the rule as it ships, over many seeds. The channel is that of
`gateways.pull` and `reports.outbox`: a report at once when a call ends late or is found running past the limit, though
not within a tenth of a second of the last one, otherwise every second. `Channel(urgent=False)` asks once a second
whatever happens, as the simulation did that the rule was chosen by.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final

from fairlead_api.documents.rules import Tier
from fairlead_operator.calibration.budget import ProbeBudget
from fairlead_operator.calibration.schedule import CONFIRM_S, WATCH_S
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.tool_record import Declaration, ToolRecord
from tiers.traces import LIMIT_MS, MAX_LATE, Draw, Subject, Trace

FAST: Final = "fast"
MAX_DURATION_MS: Final = 2000


@dataclass(frozen=True)
class Policy:
    """Policy that decides whether the agent sees a tool."""

    name: str
    quantile: str | None = None
    """Quantile by which tools are judged; None if measurements do not count."""
    declared: bool = True
    """Whether a declared duration counts."""
    probed: bool = True
    """Whether tools declare `probe.arguments`; otherwise a hidden tool is shown again only by trials."""
    tier: str = FAST
    """Tier of the agent."""

    @property
    def limit_ms(self) -> float:
        """Maximum duration of a call that is in time, in milliseconds."""
        return next(tier.max_latency_ms or 0.0 for tier in self.tiers() if tier.name == self.tier)

    def tiers(self) -> tuple[Tier, ...]:
        """The shipped tiers, with the policy's quantile for `fast`."""
        return (
            Tier(name=FAST, max_latency_ms=int(LIMIT_MS), quantile=self.quantile or "p95", default=True),
            Tier(name="standard", max_latency_ms=1500),
            Tier(name="deep", max_latency_ms=4000),
        )


NO_TIERS: Final = Policy("no tiers", declared=False)
DECLARED: Final = Policy("declared only")
P50: Final = Policy("measured, p50", "p50")
P95: Final = Policy("measured, p95", "p95")
TRIALS: Final = Policy("measured, p95, no probes", "p95", probed=False)
SLOWER: Final = tuple(
    Policy(name, quantile, tier=tier)
    for tier in ("standard", "deep")
    for name, quantile in ((f"no tiers, agent in {tier}", None), (f"measured, p95, agent in {tier}", "p95"))
)
"""An agent in a slower tier, on the same calls."""


@dataclass(frozen=True)
class Channel:
    """Delays of reports and lists, in seconds."""

    urgent: bool = True
    every: float = 1.0
    notice: float = 0.025
    """Average delay until a late call is noticed."""
    apart: float = 0.1
    publish: float = 0.1
    """Delay from a decision until the gateways' lists change."""


AS_SHIPPED: Final = Channel()
ONCE_A_SECOND: Final = Channel(urgent=False, publish=0.2)


@dataclass
class Outcomes:
    """Results of one run. Times in seconds; None if the event did not happen."""

    calls: int = 0
    late: int = 0
    late_while_bad: int = 0
    """Late calls of the misbehaving tools between the change and the recovery."""
    subjects: int = 0
    moves: int = 0
    wrong_hides: int = 0
    demote: list[float] = field(default_factory=list)
    """Per misbehaving tool."""
    recover: list[float] = field(default_factory=list)
    timeline: list[tuple[float, float, bool]] = field(default_factory=list)
    """For each call of a misbehaving tool: its time, its milliseconds, whether it was late."""
    hidden: list[tuple[float, str, bool]] = field(default_factory=list)
    """Times at which a misbehaving tool was hidden (True) or shown again."""

    @property
    def in_time(self) -> float:
        """Share of all calls that were answered within the limit."""
        return 1 - self.late / self.calls

    @property
    def late_per_shift(self) -> float:
        """Late calls of one misbehaving tool per shift."""
        return self.late_while_bad / self.subjects


@dataclass
class _Attempt:
    number: int
    tool: int
    begun: float
    ms: float
    answered: bool
    probe: bool

    def sample(self, now: float) -> Sample:
        """As the gateway tells of it at `now`."""
        end = self.begun + self.ms / 1000
        if end > now:
            return Sample(str(self.number), now, (now - self.begun) * 1000, AttemptOutcome.RUNNING, self.probe)
        return Sample(
            str(self.number), end, self.ms, AttemptOutcome.OK if self.answered else AttemptOutcome.BAD, self.probe
        )


class Replay:
    """One run of one trace under one policy."""

    def __init__(self, trace: Trace, seed: int, policy: Policy, channel: Channel = AS_SHIPPED) -> None:
        self._trace = trace
        self._policy = policy
        self._limit_ms = policy.limit_ms
        self._channel = channel
        self._draws = trace.draws(seed)
        self._rng = random.Random(f"probes of {trace.name}/{seed}")
        self._tools = trace.tools()
        self._records = [self._record(tool) for tool in self._tools]
        self._shown = [self._listed(index) for index in range(len(self._tools))]
        self._visible: list[tuple[float, tuple[bool, ...]]] = [(-1.0, tuple(self._shown))]
        self._ended: list[tuple[float, int, _Attempt]] = []
        self._running: dict[int, _Attempt] = {}
        self._next_probe = [0.0] * len(self._tools)
        self._account = ProbeBudget()
        self._weights: dict[tuple[bool, ...], tuple[list[int], list[float]]] = {}
        self._tick = channel.every * self._rng.random()
        self._last_tick = -1.0
        self._number = 0
        self._open = {index for index, tool in enumerate(self._tools) if tool.misbehaves}
        self._ill = set[int]()
        self._restless = set[int]()
        self.out = Outcomes(calls=len(self._draws), subjects=len(self._open))

    def run(self) -> Outcomes:
        """Run all calls of the trace."""
        for draw in self._draws:
            while self._tick <= draw.at:
                self._report(self._tick)
            self._call(draw)
        return self.out

    def _record(self, tool: Subject) -> ToolRecord:
        declaration = Declaration(tool.declared_ms, MAX_DURATION_MS, probed=self._policy.probed)
        return ToolRecord(self._policy.tiers(), declaration, now=0.0)

    def _listed(self, index: int) -> bool:
        if not self._policy.declared:
            return True
        if self._policy.quantile is None:
            return self._tools[index].declared_ms <= self._policy.limit_ms
        return self._policy.tier in self._records[index].tiers

    def _call(self, draw: Draw) -> None:
        places, sums = self._offer(draw.at)
        index = places[min(len(places) - 1, bisect_right(sums, draw.pick * sums[-1]))]
        tool = self._tools[index]
        ms, answered = tool.duration.draw(draw.at, draw.spread, draw.side)
        late = ms > self._limit_ms
        self.out.late += late
        if tool.misbehaves:
            self.out.timeline.append((draw.at, ms, late))
            self.out.late_while_bad += late and self._bad(draw.at)
        self._begin(index, draw.at, ms, answered=answered, probe=False)

    def _bad(self, at: float) -> bool:
        change, heal = self._trace.change, self._trace.heal
        return change is not None and change <= at and (heal is None or at < heal)

    def _offer(self, at: float) -> tuple[list[int], list[float]]:
        """The tools that the agent sees, with cumulative weights; all tools if none is listed."""
        while len(self._visible) > 1 and self._visible[1][0] <= at:
            self._visible.pop(0)
        shown = self._visible[0][1]
        if shown not in self._weights:
            places = [index for index, listed in enumerate(shown) if listed] or list(range(len(shown)))
            self._weights[shown] = places, list(accumulate(self._tools[index].weight for index in places))
        return self._weights[shown]

    def _begin(self, index: int, at: float, ms: float, *, answered: bool, probe: bool) -> None:
        self._number += 1
        attempt = _Attempt(self._number, index, at, ms, answered, probe)
        self._running[attempt.number] = attempt
        heappush(self._ended, (at + ms / 1000, attempt.number, attempt))
        if ms > LIMIT_MS and self._channel.urgent:
            self._hurry(at + LIMIT_MS / 1000 + self._channel.notice)

    def _hurry(self, at: float) -> None:
        self._tick = min(self._tick, max(at, self._last_tick + self._channel.apart))

    def _report(self, now: float) -> None:
        """Deliver the gateway's report, let the operator decide, and update the lists."""
        self._last_tick = now
        self._tick = now + self._channel.every
        attempts = []
        while self._ended and self._ended[0][0] <= now:
            attempt = heappop(self._ended)[2]
            del self._running[attempt.number]
            attempts.append(attempt)
        attempts += [each for each in self._running.values() if (now - each.begun) * 1000 > LIMIT_MS]
        self._judge(attempts, now)
        if self._channel.urgent:
            for attempt in self._running.values():
                known_at = attempt.begun + LIMIT_MS / 1000 + self._channel.notice
                if attempt.ms > LIMIT_MS:
                    self._hurry(known_at if known_at > now else attempt.begun + attempt.ms / 1000)

    def _judge(self, attempts: Iterable[_Attempt], now: float) -> None:
        stirred = set(self._restless)
        for attempt in sorted(attempts, key=lambda each: min(each.begun + each.ms / 1000, now)):
            stirred.add(attempt.tool)
            self._records[attempt.tool].observe(attempt.sample(now))
            if attempt.probe and attempt.ms <= (self._records[attempt.tool].hidden_limit_ms() or 0.0):
                self._next_probe[attempt.tool] = max(now + CONFIRM_S, self._account.free_at(str(attempt.tool)))
        before = list(self._shown)
        for index in sorted(stirred):  # like the ledger
            record = self._records[index]
            record.decide(now)
            (self._restless.add if record.changes_with_time else self._restless.discard)(index)
            self._shown[index] = self._listed(index)
            if self._shown[index] != before[index]:
                self._moved(index, now)
            elif self._policy.probed and now >= self._next_probe[index] and record.hidden_limit_ms() is not None:
                self._probe(index, now)
        if self._shown != before:
            self._visible.append((now + self._channel.publish, tuple(self._shown)))

    def _moved(self, index: int, now: float) -> None:
        tool, seen, trace = self._tools[index], now + self._channel.publish, self._trace
        hidden = not self._shown[index]
        if hidden:
            self._next_probe[index] = now + WATCH_S
            self.out.wrong_hides += tool.duration.late(now, self._limit_ms) <= MAX_LATE
        if not tool.misbehaves:
            return
        self.out.moves += 1
        self.out.hidden.append((seen, tool.name, hidden))
        if hidden and index in self._open and trace.change is not None and now >= trace.change:
            self._open.discard(index)
            self._ill.add(index)
            self.out.demote.append(seen - trace.change)
        elif not hidden and index in self._ill and trace.heal is not None and now >= trace.heal:
            self._ill.discard(index)
            self.out.recover.append(seen - trace.heal)

    def _probe(self, index: int, now: float) -> None:
        ms, answered = self._tools[index].duration.draw(now, self._rng.gauss(0, 1), self._rng.random())
        self._account.spend(str(index), now, ms / 1000)
        self._next_probe[index] = max(now + WATCH_S, self._account.free_at(str(index)))
        self._begin(index, now, ms, answered=answered, probe=True)
