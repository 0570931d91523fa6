"""What the fields of a LatencyTier change: the same calls, another decision."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.tool import Declaration, ToolRecord

NUMBERS = count()


def listed(durations: list[float], **tier: Any) -> bool:
    """Whether a tool is in a tier of 500 ms after calls that took so long, in milliseconds."""
    record = ToolRecord([Tier(name="fast", max_latency_ms=500, **tier)], Declaration(), now=0.0)
    for duration in durations:
        record.observe(Sample(str(next(NUMBERS)), 0.0, duration, AttemptOutcome.OK))
        record.decide(0.0)
    return "fast" in record.tiers


@pytest.mark.parametrize(("quantile", "stays"), [("p50", True), ("p95", False), ("p99", False)])
def test_the_quantile_says_how_many_calls_may_be_late(quantile: str, stays: bool) -> None:
    assert listed([450.0, 450.0, 560.0] * 10, quantile=quantile) is stays


def test_hysteresis_widens_the_limit_for_a_tool_that_is_in() -> None:
    assert not listed([590.0] * 10)
    assert listed([590.0] * 10, hysteresis=0.2)
    assert not listed([610.0] * 10, hysteresis=0.2)


def test_fewer_samples_than_wanted_do_not_judge_a_declaration() -> None:
    def tiers(samples: int, **tier: Any) -> tuple[str, ...]:
        record = ToolRecord([Tier(name="fast", max_latency_ms=500, **tier)], Declaration(estimated_ms=800), now=0.0)
        for _ in range(samples):
            record.observe(Sample(str(next(NUMBERS)), 0.0, 120.0, AttemptOutcome.OK))
            record.decide(0.0)
        return record.tiers

    assert (tiers(9), tiers(10)) == ((), ("fast",))
    assert (tiers(19, min_samples=20), tiers(20, min_samples=20)) == ((), ("fast",))
