"""A move of a tool between tiers as one sentence for people: events, the terminal of `fairlead up`. Pure.

    ask_supplier left the fast tier: 3 of its last 3 calls took over 500 ms (p95 1,004 ms)
    ask_supplier returned to the fast tier: its last 5 calls took at most 500 ms (p95 212 ms)

Programs read the line of `wording`, which state documents publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead_api.floors import Floor
from fairlead_operator.latency.health import HealthScore
from fairlead_operator.latency.score import TierScore
from fairlead_operator.latency.window import Window


def sentence(
    name: str,
    before: Sequence[str],
    after: Sequence[str],
    scores: Mapping[str, TierScore],
    window: Window,
    health: HealthScore,
    *,
    declared_ms: int | None,
    floor: Floor | None = None,
) -> str:
    """Tell that `name` is in the tiers `after`, no longer in those `before`, and by which calls.

    `scores` by name of the tier; a tier without a limit has none.
    """
    lost = [tier for tier in before if tier not in after]
    gained = [tier for tier in after if tier not in before]
    clauses = []
    if lost:
        whys = [_why_lost(scores.get(tier), window, health, declared_ms, floor) for tier in lost]
        clauses.append(f"{name} left {_told(lost, whys)}")
    if gained:
        # A slower tier shows what a faster one does, so the fastest one says why.
        why = _why_gained(scores.get(gained[0]), window, health, declared_ms)
        clauses.append(f"{name} returned to {_tiers(gained)}{why}")
    return "; ".join(clauses) or f"{name} is in {_tiers(after)}"


def _told(tiers: Sequence[str], whys: Sequence[str]) -> str:
    """Tiers with why; one reason of all of them is told once."""
    if len(set(whys)) == 1:
        return _tiers(tiers) + (f": {whys[0]}" if whys[0] else "")
    return ", and ".join(_tiers([tier]) + (f": {why}" if why else "") for tier, why in zip(tiers, whys, strict=True))


def _tiers(names: Sequence[str]) -> str:
    if len(names) < 2:
        return f"the {names[0]} tier" if names else "no tier"
    return f"the {', '.join(names[:-1])} and {names[-1]} tiers"


def _why_lost(
    score: TierScore | None, window: Window, health: HealthScore, declared_ms: int | None, floor: Floor | None
) -> str:
    if score is None:
        return ""
    if floor is not None and floor.hides(score.rule):
        return f"its lowest tier is {floor.tier}" + ("" if floor.tier_exists else ", which does not exist")
    if score.gate.shown:
        return f"{health.bad} of its last {_calls(health.seen)} failed" if health.degraded else ""
    if score.cause == "declared" and declared_ms is not None:
        return f"it declares {declared_ms:,} ms, and the tier allows {score.limit_ms:,.0f} ms"
    if score.cause == "unmeasured" or not len(window):
        return "it is not measured yet"
    return _measured(score, window)


def _why_gained(score: TierScore | None, window: Window, health: HealthScore, declared_ms: int | None) -> str:
    if score is None:
        return ""
    if score.gate.trial:
        return f" for a trial of {_calls(score.gate.trial)}: one over {_over(score)} takes it out again"
    if health.gate.trial:
        return f" for a trial of {_calls(health.gate.trial)}: one that fails takes it out again"
    if len(window):
        return f": {_measured(score, window)}"
    if declared_ms is not None:
        return f": it declares {declared_ms:,} ms, and the tier allows {score.limit_ms:,.0f} ms"
    return ": it is not measured yet, and the tier shows such tools"


def _measured(score: TierScore, window: Window) -> str:
    late, seen = score.late(window), len(window)
    figure = window.quantile(1 - score.detector.share)
    digits = 1 if f"{figure:.0f}" == f"{score.late_from_ms:.0f}" else 0  # so that 500.4 ms is over 500 ms to the eye
    quantile = f"({score.detector.quantile} {figure:,.{digits}f} ms)"
    if seen == 1:
        return f"its last call took {'over' if late else 'at most'} {_over(score)} {quantile}"
    if not late:
        return f"its last {_calls(seen)} took at most {_over(score)} {quantile}"
    return f"{late} of its last {_calls(seen)} took over {_over(score)} {quantile}"


def _over(score: TierScore) -> str:
    """The time from which a call counts as late: the tier's limit and its hysteresis."""
    return f"{score.late_from_ms:,.0f} ms"


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
