"""Describes a move of a tool between tiers in one sentence, for events and the terminal of `fairlead up`. Pure.

    ask_supplier left the fast tier: 3 of its last 3 calls took over 500 ms (p95 1,004 ms)
    ask_supplier returned to the fast tier: its last 5 calls took at most 500 ms (p95 212 ms)

State documents publish the machine-readable line of `wording` instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead_api.floors import Floor
from fairlead_operator.latency.reliability import HealthScore
from fairlead_operator.latency.score import TierScore
from fairlead_operator.latency.window import Window


@dataclass(frozen=True)
class MoveReasons:
    """Measurements and declarations on which the last decision about a tool was based."""

    scores: Mapping[str, TierScore]
    """Score by name of the tier; tiers without a latency limit have none."""
    window: Window
    health: HealthScore
    declared_ms: int | None
    """The declared duration of a call in milliseconds."""
    floor: Floor | None = None
    """The fastest tier that may show the tool; None if any tier may."""

    def why_lost(self, tier: str) -> str:
        """Why the tool has left a tier; empty if unknown."""
        score = self.scores.get(tier)
        if score is None:
            return ""
        if self.floor is not None and self.floor.hides(score.rule):
            return f"its lowest tier is {self.floor.tier}" + (
                "" if self.floor.tier_exists else ", which does not exist"
            )
        if score.gate.shown:
            return (
                f"{self.health.bad_calls} of its last {_calls(self.health.all_calls)} failed"
                if self.health.degraded
                else ""
            )
        if score.cause == "declared" and self.declared_ms is not None:
            return f"it declares {self.declared_ms:,} ms, and the tier allows {score.limit_ms:,.0f} ms"
        if score.cause == "unmeasured" or not len(self.window):
            return "it is not measured yet"
        return _measurement(score, self.window)

    def why_gained(self, tier: str) -> str:
        """Why the tool has entered a tier, as the rest of a sentence; empty if unknown."""
        score = self.scores.get(tier)
        if score is None:
            return ""
        if score.gate.trial:
            return f" for a trial of {_calls(score.gate.trial)}: a call over {_late_limit(score)} takes it out again"
        if self.health.gate.trial:
            return f" for a trial of {_calls(self.health.gate.trial)}: a failed call takes it out again"
        if len(self.window):
            return f": {_measurement(score, self.window)}"
        if self.declared_ms is not None:
            return f": it declares {self.declared_ms:,} ms, and the tier allows {score.limit_ms:,.0f} ms"
        return ": it is not measured yet, and the tier shows such tools"


def describe_move(name: str, old_tiers: Sequence[str], new_tiers: Sequence[str], reasons: MoveReasons) -> str:
    """Describe the move of the tool `name` from `old_tiers` to `new_tiers`, with its reasons."""
    lost_tiers = [tier for tier in old_tiers if tier not in new_tiers]
    gained_tiers = [tier for tier in new_tiers if tier not in old_tiers]
    clauses = []
    if lost_tiers:
        clauses.append(f"{name} left {_with_reasons(lost_tiers, [reasons.why_lost(tier) for tier in lost_tiers])}")
    if gained_tiers:
        # A slower tier shows all tools of a faster one, so the reason of the fastest tier suffices.
        clauses.append(f"{name} returned to {_tiers(gained_tiers)}{reasons.why_gained(gained_tiers[0])}")
    return "; ".join(clauses) or f"{name} is in {_tiers(new_tiers)}"


def _with_reasons(tiers: Sequence[str], reasons: Sequence[str]) -> str:
    """Tiers with the reasons why the tool left them; a common reason is mentioned once."""
    if len(set(reasons)) == 1:
        return _tiers(tiers) + (f": {reasons[0]}" if reasons[0] else "")
    clauses = [_tiers([tier]) + (f": {reason}" if reason else "") for tier, reason in zip(tiers, reasons, strict=True)]
    return ", and ".join(clauses)


def _tiers(names: Sequence[str]) -> str:
    if len(names) < 2:
        return f"the {names[0]} tier" if names else "no tier"
    return f"the {', '.join(names[:-1])} and {names[-1]} tiers"


def _measurement(score: TierScore, window: Window) -> str:
    """Clause about the calls in the window: how many were late, and the tier's quantile of their durations."""
    late_count, count = score.count_late(window), len(window)
    figure = window.quantile(1 - score.detector.share)
    digits = 1 if f"{figure:.0f}" == f"{score.late_from_ms:.0f}" else 0  # 500.4 ms has to read as over 500 ms
    quantile = f"({score.detector.quantile} {figure:,.{digits}f} ms)"
    if count == 1:
        return f"its last call took {'over' if late_count else 'at most'} {_late_limit(score)} {quantile}"
    if not late_count:
        return f"its last {_calls(count)} took at most {_late_limit(score)} {quantile}"
    return f"{late_count} of its last {_calls(count)} took over {_late_limit(score)} {quantile}"


def _late_limit(score: TierScore) -> str:
    """Duration above which a call counts as late: the tier's limit plus its hysteresis."""
    return f"{score.late_from_ms:,.0f} ms"


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
