"""Latency record of one tool in one environment, and the tiers that show it. Pure.

`observe` takes each sample, in the order of their ends; `decide` runs once per round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import DEGRADED, Health, Quantiles, ToolState
from fairlead_api.floors import Floor, Floors
from fairlead_operator.latency.bimodal import is_bimodal
from fairlead_operator.latency.difference import quantiles_differ
from fairlead_operator.latency.reliability import HealthScore
from fairlead_operator.latency.samples import AttemptOutcome, Sample, rfc3339
from fairlead_operator.latency.score import MEASURED, TierScore, definition
from fairlead_operator.latency.tier_moves import MoveReasons, sentence
from fairlead_operator.latency.window import Window
from fairlead_operator.latency.wording import cause_of, why_degraded, why_hidden, why_shown

MOST_RUNNING: Final = 1000
"""Running attempts remembered per tool; beyond that the oldest are taken for lost."""
LOOK_FOR_HEAPS_EVERY: Final = 10
"""Samples between two looks for a second heap."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared latency of a tool, from before it is measured."""

    estimated_ms: int | None = None
    max_ms: int | None = None
    """A call that takes longer counts against health."""
    min_tier: str | None = None
    """The fastest tier that may show it, by the McpServer."""
    authored_min_tier: str | None = None
    """By its definition."""
    probed: bool = False
    """Whether probes reach it while it is hidden; otherwise it comes back on trial."""
    untrusted: bool = False
    """Whether the estimate is the word of an author who is not trusted."""

    def fits(self, tier: Tier) -> bool:
        """Whether a tier shows it before anything is measured."""
        return tier.admits_unmeasured(self.estimated_ms, untrusted=self.untrusted)


class ToolRecord:
    """One tool in one environment."""

    __slots__ = (
        "_floors",
        "_running",
        "_samples",
        "_scores",
        "_unlimited",
        "bimodal",
        "declaration",
        "health",
        "measured_at",
        "tiers",
        "window",
    )

    def __init__(
        self, tiers: Sequence[Tier], declaration: Declaration, *, now: float, published: ToolState | None = None
    ) -> None:
        """`published`: its state before a restart, from which window, scores and decisions go on."""
        figures = published.quantiles if published else None
        self.declaration = declaration
        self.window = Window.from_figures(figures) if figures else Window()
        self.measured_at = published.measured_at if published else ""
        """RFC 3339, of the last call in the window; empty where it is not known."""
        health = published.health if published else Health()
        self.health = HealthScore(score=health.score, degraded=health.state == DEGRADED, now=now)
        self.bimodal = published.bimodal if published else False
        self.tiers: tuple[str, ...] = ()
        """Names of the tiers that show it since the last decision, fastest first."""
        points = published.points if published else {}
        hidden = published.hidden if published else {}
        self._scores = [self._score(tier, now, points, hidden) for tier in _tiers_with_limit(tiers)]
        self._unlimited = _tiers_without_limit(tiers)
        self._floors = _floors(tuple(tiers))
        self._running: dict[str, tuple[int, set[str]]] = {}
        self._samples = 0
        self.decide(now)

    def judge_by(self, tiers: Sequence[Tier], now: float) -> None:
        """Other tiers hold from the next decision on: the window stays, and so do scores of tiers that decide as
        before. What the others show of the tool is a move if they existed.
        """
        shown, existed = self.tiers, {*(score.tier for score in self._scores), *self._unlimited}
        scores = {(score.tier, score.definition): score for score in self._scores}
        limited = _tiers_with_limit(tiers)
        self._scores = [scores.get((tier.name, definition(tier))) or self._score(tier, now, {}, {}) for tier in limited]
        self._unlimited = _tiers_without_limit(tiers)
        self._floors = _floors(tuple(tiers))
        remaining = {score.tier for score in self._scores if (score.tier, score.definition) in scores}
        for _, counted in self._running.values():
            counted &= remaining
        decided = self.decide(now)
        names = (*(score.tier for score in self._scores), *self._unlimited)
        self.tiers = tuple(name for name in names if name in (shown if name in existed else decided))

    def declare(self, declaration: Declaration, now: float) -> None:
        """Something else is said of it; that counts where nothing that was measured decides."""
        self.declaration = replace(declaration, probed=self.declaration.probed)
        self._scores = [
            score if score.waits or len(self.window) >= score.min_samples else self._score(score.rule, now, {}, {})
            for score in self._scores
        ]

    def observe(self, sample: Sample) -> None:
        """Take one sample; a running attempt may be given again and again, and its end last."""
        if sample.probe:
            self.reached_by_probes(True)
        entry, counted = self._running.pop(sample.attempt, (None, set[str]()))
        unreadable = sample.outcome is AttemptOutcome.UNREADABLE
        late = [score for score in self._scores if sample.duration_ms > score.late_from_ms and not unreadable]
        if late or sample.outcome is AttemptOutcome.OK:
            entry = self._remember(entry, sample.duration_ms)
            self.measured_at = max(self.measured_at, rfc3339(sample.at))
        for score in late:
            if score.tier not in counted:
                score.observe(late=True)
                counted.add(score.tier)
        if sample.outcome is AttemptOutcome.RUNNING:
            if entry is not None:
                self._still_running(sample.attempt, entry, counted)
            return
        if sample.outcome is AttemptOutcome.OK:
            self._in_time(sample, counted)
        if sample.outcome is not AttemptOutcome.NEUTRAL:
            bad = unreadable or sample.outcome is AttemptOutcome.BAD or self._past_its_maximum(sample)
            self.health.observe(bad=bad)

    def decide(self, now: float) -> tuple[str, ...]:
        """Names of the tiers that show the tool from now on, fastest first."""
        fits: list[str] = []
        floor, fast_enough = self.floor, False
        for score in self._scores:
            fast_enough |= score.decide(now, self.window, trials=self._on_trial)
            # what a fast tier shows, every slower one shows
            if fast_enough and not (floor is not None and floor.hides(score.rule)):
                fits.append(score.tier)
        fits += self._unlimited
        healthy = self.health.decide(now, watched=self.declaration.probed)
        self.tiers = tuple(fits if healthy or len(fits) < 2 else fits[1:])
        return self.tiers

    def state(self, name: str, environment: str, now: float, published: ToolState | None = None) -> ToolState:
        """State of the tool to publish after `published`: its figures, the last decision, and a reason for each tier
        by these figures.
        """
        declared, floor, figures = self.declaration.estimated_ms, self.floor, self._figures(published)
        hidden, fits = {}, {}
        for score in self._scores:
            if score.tier in self.tiers:
                fits[score.tier] = why_shown(score, self.window, figures, declared_ms=declared)
            elif floor is not None and floor.hides(score.rule):
                hidden[score.tier] = floor.reason(score.rule)
            elif score.gate.shown and self.health.degraded:
                hidden[score.tier] = why_degraded(self.health, self.tiers[0])
            else:
                hidden[score.tier] = why_hidden(
                    score, self.window, figures, declared_ms=declared, trials=self._on_trial, now=now
                )
        return ToolState(
            name=name,
            environment=environment,
            quantiles=figures,
            measured_at=self.measured_at,
            bimodal=self.bimodal,
            health=self._health(),
            tiers=self.tiers,
            hidden=hidden,
            fits=fits,
            points={score.tier: score.points for score in self._scores},
        )

    def _figures(self, published: ToolState | None) -> Quantiles | None:
        """The quantiles, as published while none of them has moved by more than a tenth and the tiers are the same: a
        document that is written for another tool's sake changes nothing that readers show of this one.
        """
        now = self.window.quantiles()
        before = published.quantiles if published is not None and published.tiers == self.tiers else None
        if before is None or now is None or quantiles_differ(published, now):
            return now
        return msgspec.structs.replace(before, samples=now.samples)

    def describe_move(self, name: str, before: Sequence[str]) -> str:
        """The last decision as a sentence for people: how its tiers differ from those `before`, and why."""
        scores = {score.tier: score for score in self._scores}
        reasons = MoveReasons(scores, self.window, self.health, self.declaration.estimated_ms, self.floor)
        return sentence(name, before, self.tiers, reasons)

    def hidden_limit_ms(self) -> float | None:
        """Milliseconds within which a probe speaks for bringing it back; None where nothing hides it. 0 for a tool with
        two speeds: its probes may meet a cache, so that only late ones say something.
        """
        hiding = [score.late_from_ms for score in self._scores if not score.gate.shown]
        if not hiding:
            return float("inf") if self.health.degraded else None
        return 0.0 if self.bimodal else max(hiding)

    @property
    def floor(self) -> Floor | None:
        """The fastest tier that may show it; None: any."""
        return self._floors.of(self.declaration)

    @property
    def restless(self) -> bool:
        """Whether time alone may change what is decided of it."""
        return self.health.degraded or any(score.waits for score in self._scores)

    def reached_by_probes(self, reached: bool) -> None:
        """Whether probes reach it from now on while it is hidden."""
        if self.declaration.probed is not reached:
            self.declaration = replace(self.declaration, probed=reached)

    @property
    def _on_trial(self) -> bool:
        """Probes with fixed arguments may meet a cache: of a tool with two speeds they prove nothing."""
        return self.bimodal or not self.declaration.probed

    def _score(self, tier: Tier, now: float, points: Mapping[str, int], hidden: Mapping[str, str]) -> TierScore:
        """In a tier: as it was published (`points` and reasons by tier), else by what was measured, else by what is
        declared, else by the tier's `unmeasured`.
        """
        cause = cause_of(hidden[tier.name]) if tier.name in hidden else None
        if tier.name in points and len(self.window) and cause not in ("declared", "unmeasured"):
            score = TierScore(tier, points=points[tier.name], bimodal=self.bimodal)
            if cause is not None and cause in MEASURED:
                score.begin_hidden(now, cause)
            return score
        if len(self.window) >= tier.min_samples:
            return TierScore(tier, points=0, bimodal=self.bimodal)
        score = TierScore(tier, points=points.get(tier.name), bimodal=self.bimodal)
        if not self.declaration.fits(tier):
            score.begin_hidden(now, "declared" if tier.excludes(self.declaration.estimated_ms) else "unmeasured")
        return score

    def _remember(self, entry: int | None, duration_ms: float) -> int:
        self._samples += 1
        if entry is None:
            return self.window.add(duration_ms)
        self.window.lengthen(entry, duration_ms)
        return entry

    def _still_running(self, attempt: str, entry: int, counted: set[str]) -> None:
        self._running[attempt] = (entry, counted)
        if len(self._running) > MOST_RUNNING:
            del self._running[next(iter(self._running))]

    def _in_time(self, sample: Sample, counted: set[str]) -> None:
        for score in self._scores:
            if score.tier not in counted:
                score.observe(late=False, proves=not (sample.probe and self.bimodal))
        if self._samples >= LOOK_FOR_HEAPS_EVERY:
            self._samples = 0
            self.bimodal = is_bimodal(self.window.durations())
            for score in self._scores:
                score.judge(bimodal=self.bimodal)

    def _past_its_maximum(self, sample: Sample) -> bool:
        return self.declaration.max_ms is not None and sample.duration_ms > self.declaration.max_ms

    def _health(self) -> Health:
        if not self.health.degraded:
            return Health(score=self.health.score)
        reason = why_degraded(self.health, self.tiers[0] if self.tiers else "none")
        return Health(score=self.health.score, state=DEGRADED, reason=reason)


def _tiers_with_limit(tiers: Sequence[Tier]) -> list[Tier]:
    """Those with a limit, the fastest first."""
    return sorted((tier for tier in tiers if tier.max_latency_ms), key=lambda tier: (tier.max_latency_ms, tier.name))


@lru_cache(maxsize=8)
def _floors(tiers: tuple[Tier, ...]) -> Floors:
    """One for all tools that are judged by these tiers."""
    return Floors(tiers)


def _tiers_without_limit(tiers: Sequence[Tier]) -> tuple[str, ...]:
    """Names of those without one."""
    return tuple(sorted(tier.name for tier in tiers if not tier.max_latency_ms))
