"""Latency record of one tool in one environment, and the tiers that show the tool. Pure.

`observe` receives the samples in the order in which they ended; `decide` runs once per round.
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
from fairlead_operator.latency.tier_moves import MoveReasons, describe_move
from fairlead_operator.latency.window import Window
from fairlead_operator.latency.wording import cause_of, has_no_sample, why_degraded, why_hidden, why_shown

MAX_RUNNING: Final = 1000
"""Maximum number of running attempts per tool. Beyond it, the oldest is dropped: the report of its end was probably
lost.
"""
BIMODALITY_CHECK_SAMPLES: Final = 10
"""Number of samples between two checks whether the durations are bimodal."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared latency and limits of a tool, which apply before it is measured."""

    estimated_ms: int | None = None
    """Declared duration of a call."""
    max_ms: int | None = None
    """Declared maximum duration; a longer call counts against the tool's health."""
    min_tier: str | None = None
    """The fastest tier that may show the tool, from the McpServer."""
    authored_min_tier: str | None = None
    """The fastest tier that may show the tool, from the tool's definition."""
    probed: bool = False
    """Whether the tool is probed while tiers hide it; otherwise it returns by trial."""
    untrusted: bool = False
    """Whether the estimate comes from a server whose annotations are not trusted."""

    def fits(self, tier: Tier) -> bool:
        """Whether a tier shows the tool before it is measured."""
        return tier.admits_unmeasured(self.estimated_ms, untrusted=self.untrusted)


class ToolRecord:
    """Latency record of one tool in one environment."""

    __slots__ = (
        "_floors",
        "_running_attempts",
        "_samples",
        "_scores",
        "_unlimited_tiers",
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
        """`published` is the tool's state before a restart, from which window, scores and decisions are restored."""
        # before the first call of a trial, the published figures are older than the trial: they would end it at once
        figures = published.quantiles if published and not any(map(has_no_sample, published.fits.values())) else None
        self.declaration = declaration
        self.window = Window.from_figures(figures) if figures else Window()
        self.measured_at = published.measured_at if published else ""
        """Time of the last successful call, in RFC 3339; empty if unknown."""
        health = published.health if published else Health()
        self.health = HealthScore(score=health.score, degraded=health.state == DEGRADED, now=now)
        self.bimodal = published.bimodal if published else False
        self.tiers: tuple[str, ...] = ()
        """Names of the tiers that show the tool by the last decision, fastest first."""
        points = published.points if published else {}
        hidden = published.hidden if published else {}
        self._scores = [self._score(tier, now, points, hidden) for tier in _tiers_with_limit(tiers)]
        self._unlimited_tiers = _tiers_without_limit(tiers)
        self._floors = _floors(tuple(tiers))
        self._running_attempts: dict[str, tuple[int, set[str]]] = {}
        """Running attempts by ID: the number of their entry in the window, and the tiers that counted them as late."""
        self._samples = 0
        """Number of samples since the last check whether the durations are bimodal."""
        self.decide(now)

    def use_tiers(self, tiers: Sequence[Tier], now: float) -> None:
        """Decide by other tiers from now on. The window and the scores of tiers with an unchanged definition are kept.

        A tier that existed before keeps showing or hiding the tool until the next decision, so that the difference is
        reported as a move. Whether a new tier shows the tool is decided now.
        """
        tiers_before, existing_tiers = self.tiers, {*(score.tier for score in self._scores), *self._unlimited_tiers}
        scores = {(score.tier, score.definition): score for score in self._scores}
        limited = _tiers_with_limit(tiers)
        self._scores = [scores.get((tier.name, definition(tier))) or self._score(tier, now, {}, {}) for tier in limited]
        self._unlimited_tiers = _tiers_without_limit(tiers)
        self._floors = _floors(tuple(tiers))
        unchanged_tiers = {score.tier for score in self._scores if (score.tier, score.definition) in scores}
        for _, late_tiers in self._running_attempts.values():
            late_tiers &= unchanged_tiers
        decision = self.decide(now)
        names = (*(score.tier for score in self._scores), *self._unlimited_tiers)
        self.tiers = tuple(name for name in names if name in (tiers_before if name in existing_tiers else decision))

    def declare(self, declaration: Declaration, now: float) -> None:
        """Use a changed declaration. It affects only tiers that no measurement decides yet."""
        self.declaration = replace(declaration, probed=self.declaration.probed)
        self._scores = [
            score
            if score.returns_with_time or len(self.window) >= score.min_samples
            else self._score(score.rule, now, {}, {})
            for score in self._scores
        ]

    def observe(self, sample: Sample) -> None:
        """Add one sample. A running attempt may be reported repeatedly; its end is reported last."""
        if sample.probe:
            self.set_probed(True)
        entry, late_tiers = self._running_attempts.pop(sample.attempt, (None, set[str]()))
        is_unreadable = sample.outcome is AttemptOutcome.UNREADABLE
        late_scores = [score for score in self._scores if sample.duration_ms > score.late_from_ms and not is_unreadable]
        if late_scores or sample.outcome is AttemptOutcome.OK:
            entry = self._store_duration(entry, sample.duration_ms, successful=sample.outcome is AttemptOutcome.OK)
        if sample.outcome is AttemptOutcome.OK:
            self.measured_at = max(self.measured_at, rfc3339(sample.at))
        for score in late_scores:
            if score.tier not in late_tiers:
                score.observe(late=True)
                late_tiers.add(score.tier)
        if sample.outcome is AttemptOutcome.RUNNING:
            if entry is not None:
                self._store_running(sample.attempt, entry, late_tiers)
            return
        if sample.outcome is AttemptOutcome.OK:
            self._observe_success(sample, late_tiers)
        if sample.outcome is not AttemptOutcome.NEUTRAL:
            counts_as_bad = is_unreadable or sample.outcome is AttemptOutcome.BAD or self._exceeds_maximum(sample)
            self.health.observe(bad=counts_as_bad)

    def decide(self, now: float) -> tuple[str, ...]:
        """Names of the tiers that show the tool from now on, fastest first."""
        shown_tiers: list[str] = []
        floor, is_fast_enough = self.floor, False
        for score in self._scores:
            is_fast_enough |= score.decide(now, self.window, trials=self._returns_by_trial)
            # a tool that a tier shows is shown by every slower tier as well
            if is_fast_enough and not (floor is not None and floor.hides(score.rule)):
                shown_tiers.append(score.tier)
        shown_tiers += self._unlimited_tiers
        is_healthy = self.health.decide(now, probed=self.declaration.probed)
        self.tiers = tuple(shown_tiers if is_healthy or len(shown_tiers) < 2 else shown_tiers[1:])
        return self.tiers

    def state(self, name: str, environment: str, now: float, published: ToolState | None = None) -> ToolState:
        """State of the tool for publication: its figures, the last decision, and for each tier the reason.

        `published` is the state that was published last.
        """
        estimated_ms, floor, figures = self.declaration.estimated_ms, self.floor, self._figures(published)
        hidden, fits = {}, {}
        for score in self._scores:
            if score.tier in self.tiers:
                fits[score.tier] = why_shown(score, self.window, figures, declared_ms=estimated_ms)
            elif floor is not None and floor.hides(score.rule):
                hidden[score.tier] = floor.reason(score.rule)
            elif score.gate.shown and self.health.degraded:
                hidden[score.tier] = why_degraded(self.health, self.tiers[0])
            else:
                hidden[score.tier] = why_hidden(
                    score, self.window, figures, declared_ms=estimated_ms, trials=self._returns_by_trial, now=now
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
        """The quantiles to publish: those already published if the tiers are the same and no quantile changed by more
        than a tenth. A document that is written because of another tool then shows no changes of this tool.

        A trial begins with an empty window; the earlier figures stay until the trial has figures.
        """
        if published is not None and not len(self.window):
            return published.quantiles
        current_quantiles = self.window.quantiles()
        published_quantiles = published.quantiles if published is not None and published.tiers == self.tiers else None
        if published_quantiles is None or current_quantiles is None or quantiles_differ(published, current_quantiles):
            return current_quantiles
        return msgspec.structs.replace(published_quantiles, samples=current_quantiles.samples)

    def describe_move(self, name: str, old_tiers: Sequence[str]) -> str:
        """Message to users about the last decision: how the tiers differ from `old_tiers`, and why."""
        scores = {score.tier: score for score in self._scores}
        reasons = MoveReasons(scores, self.window, self.health, self.declaration.estimated_ms, self.floor)
        return describe_move(name, old_tiers, self.tiers, reasons)

    def hidden_limit_ms(self) -> float | None:
        """Milliseconds within which a probe has to succeed to bring back the hidden tool; None for a shown tool.

        0 for a tool with bimodal durations: a fast probe may be answered from a cache, so only late probes count.
        """
        hiding_limits_ms = [score.late_from_ms for score in self._scores if not score.gate.shown]
        if not hiding_limits_ms:
            return float("inf") if self.health.degraded else None
        return 0.0 if self.bimodal else max(hiding_limits_ms)

    @property
    def floor(self) -> Floor | None:
        """The fastest tier that may show the tool; None if any tier may."""
        return self._floors.of(self.declaration)

    @property
    def changes_with_time(self) -> bool:
        """Whether the passage of time alone may change the decision."""
        return self.health.degraded or any(score.returns_with_time for score in self._scores)

    def set_probed(self, probed: bool) -> None:
        """Set whether the tool is probed while tiers hide it."""
        if self.declaration.probed is not probed:
            self.declaration = replace(self.declaration, probed=probed)

    @property
    def _returns_by_trial(self) -> bool:
        """Whether a hidden tool returns by trial instead of by probes.

        Probes have fixed arguments, which a cache may answer, so for bimodal durations their success proves nothing.
        """
        return self.bimodal or not self.declaration.probed

    def _score(self, tier: Tier, now: float, points: Mapping[str, int], hidden: Mapping[str, str]) -> TierScore:
        """Initial score of the tool in a tier: as published (`points` and `hidden` reasons by tier), or else from the
        window, or else from the declaration, or else by the tier's `unmeasured`.
        """
        cause = cause_of(hidden[tier.name]) if tier.name in hidden else None
        # without a successful call, the published figures are empty, although late calls have hidden the tool
        is_measured = len(self.window) > 0 or cause in MEASURED
        if tier.name in points and is_measured and cause not in ("declared", "unmeasured"):
            score = TierScore(tier, points=points[tier.name], bimodal=self.bimodal)
            if cause is not None and cause in MEASURED:
                score.hide_initially(now, cause)
            return score
        if len(self.window) >= tier.min_samples:
            return TierScore(tier, points=0, bimodal=self.bimodal)
        score = TierScore(tier, points=points.get(tier.name), bimodal=self.bimodal)
        if not self.declaration.fits(tier):
            score.hide_initially(now, "declared" if tier.excludes(self.declaration.estimated_ms) else "unmeasured")
        return score

    def _store_duration(self, entry: int | None, duration_ms: float, *, successful: bool) -> int:
        """Add a duration to the window, or update the entry of its running attempt; return the entry's number."""
        self._samples += 1
        if entry is None:
            return self.window.add(duration_ms, successful=successful)
        self.window.lengthen(entry, duration_ms, successful=successful)
        return entry

    def _store_running(self, attempt: str, entry: int, late_tiers: set[str]) -> None:
        self._running_attempts[attempt] = (entry, late_tiers)
        if len(self._running_attempts) > MAX_RUNNING:
            del self._running_attempts[next(iter(self._running_attempts))]

    def _observe_success(self, sample: Sample, late_tiers: set[str]) -> None:
        for score in self._scores:
            if score.tier not in late_tiers:
                score.observe(late=False, counts_for_return=not (sample.probe and self.bimodal))
        if self._samples >= BIMODALITY_CHECK_SAMPLES:
            self._samples = 0
            self.bimodal = is_bimodal(self.window.durations())
            for score in self._scores:
                score.use_bimodality(bimodal=self.bimodal)

    def _exceeds_maximum(self, sample: Sample) -> bool:
        return self.declaration.max_ms is not None and sample.duration_ms > self.declaration.max_ms

    def _health(self) -> Health:
        if not self.health.degraded:
            return Health(score=self.health.score)
        reason = why_degraded(self.health, self.tiers[0] if self.tiers else "none")
        return Health(score=self.health.score, state=DEGRADED, reason=reason)


def _tiers_with_limit(tiers: Sequence[Tier]) -> list[Tier]:
    """The tiers with a latency limit, fastest first."""
    return sorted((tier for tier in tiers if tier.max_latency_ms), key=lambda tier: (tier.max_latency_ms, tier.name))


@lru_cache(maxsize=8)
def _floors(tiers: tuple[Tier, ...]) -> Floors:
    """The floors of these tiers, shared by all tools."""
    return Floors(tiers)


def _tiers_without_limit(tiers: Sequence[Tier]) -> tuple[str, ...]:
    """Names of the tiers without a latency limit."""
    return tuple(sorted(tier.name for tier in tiers if not tier.max_latency_ms))
