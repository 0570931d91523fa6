"""Formats the line in state documents that says why a tier shows or hides a tool. Pure.

The order of the fields is fixed, so that users can read the line and programs can split it at spaces:

    over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time
    over_budget estimated=800ms tier=500ms by=declared back=10-in-time
    degraded score=0 failures=4/4 tier=standard back=5-good
    fits p95=540ms tier=500ms late=8/100 hides-at=15 points=6/30
    below_min_tier min_tier=standard tier=500ms by=mcpserver
"""

from __future__ import annotations

import math

from fairlead_api.documents.state import Quantiles
from fairlead_operator.latency.reliability import HEALTHY_SCORE, HealthScore
from fairlead_operator.latency.score import TierScore
from fairlead_operator.latency.window import Window


def why_hidden(
    score: TierScore,
    window: Window,
    figures: Quantiles | None,
    *,
    declared_ms: int | None,
    trials: bool,
    now: float,
) -> str:
    """Why the tier hides the tool, and what brings it back. `figures` are the published quantiles of `window`."""
    tier = f"tier={_ms(score.limit_ms)}"
    if score.cause == "unmeasured":
        return f"unmeasured {tier} back={score.samples_needed(window)}-in-time"
    if score.cause == "declared":
        return f"over_budget estimated={declared_ms}ms {tier} by=declared back={score.samples_needed(window)}-in-time"
    return_rule = (
        f"trial-in-{max(0, math.ceil(score.gate.trial_in(now)))}s"
        if trials
        else f"{score.samples_needed(window)}-in-time"
    )
    quantile_text = f"{_quantile(score, figures)} " if figures is not None else ""
    late = f"late={score.count_late(window)}/{len(window)}"
    return f"over_budget {quantile_text}{tier} {late} by={score.cause} back={return_rule}"


def why_shown(score: TierScore, window: Window, figures: Quantiles | None, *, declared_ms: int | None) -> str:
    """Why the tier shows the tool, and how close the tool is to being hidden. `figures` are the published quantiles of
    `window`.
    """
    tier = f"tier={_ms(score.limit_ms)}"
    points = f"points={score.points}/{score.detector.cap}"
    if figures is None:
        estimate = "unmeasured" if declared_ms is None else f"estimated={declared_ms}ms"
        return f"fits {estimate} {tier} {points}"
    hides_at = score.detector.late_calls_to_hide(max(len(window), score.min_samples))
    late_text = f"late={score.count_late(window)}/{len(window)} hides-at={hides_at}"
    return f"fits {_quantile(score, figures)} {tier} {late_text} {points}"


def why_degraded(health: HealthScore, tier: str) -> str:
    """Why a degraded tool left its fastest tier, and the fastest tier that still shows it."""
    good_calls = max(1, math.ceil((HEALTHY_SCORE - health.score) / 5))
    failures = f"{health.bad_calls}/{health.all_calls}"
    return f"degraded score={health.score} failures={failures} tier={tier} back={good_calls}-good"


def has_no_sample(reason: str) -> bool:
    """Whether a published line is of a tool that had figures and an empty window, as at the beginning of a trial."""
    return " late=0/0 " in reason


def cause_of(reason: str) -> str:
    """Parse the cause out of a published line about a hidden tool: the cause of its score, or `degraded`."""
    word, *fields = reason.split()
    if word == "degraded":
        return word
    values = {key: value for key, _, value in (field.partition("=") for field in fields)}
    return "unmeasured" if word == "unmeasured" else values.get("by", "recent")


def _quantile(score: TierScore, figures: Quantiles) -> str:
    """The published quantile by which the tier decides, such as `p95=812ms`."""
    quantile = score.detector.quantile
    return f"{quantile}={_ms(getattr(figures, f'{quantile}_ms'))}"


def _ms(value: float) -> str:
    return f"{value:.0f}ms"
