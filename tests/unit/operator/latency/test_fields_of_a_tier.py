"""Each field of a LatencyTier changes the decision about the same calls."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.difference import should_publish
from fairlead_operator.latency.samples import AttemptOutcome, Sample, rfc3339
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

NUMBERS = count()


def is_listed(durations: list[float], **tier: Any) -> bool:
    """Whether a tool is in a tier of 500 ms after calls with these durations in milliseconds."""
    record = ToolRecord([Tier(name="fast", max_latency_ms=500, **tier)], Declaration(), now=0.0)
    for duration in durations:
        record.observe(Sample(str(next(NUMBERS)), 0.0, duration, AttemptOutcome.OK))
        record.decide(0.0)
    return "fast" in record.tiers


@pytest.mark.parametrize(("quantile", "stays"), [("p50", True), ("p95", False), ("p99", False)])
def test_the_quantile_says_how_many_calls_may_be_late(quantile: str, stays: bool) -> None:
    assert is_listed([450.0, 450.0, 560.0] * 10, quantile=quantile) is stays


def test_hysteresis_widens_the_limit_for_a_tool_that_is_in() -> None:
    assert not is_listed([590.0] * 10)
    assert is_listed([590.0] * 10, hysteresis=0.2)
    assert not is_listed([610.0] * 10, hysteresis=0.2)


def test_fewer_samples_than_wanted_do_not_judge_a_declaration() -> None:
    def tiers(samples: int, **tier: Any) -> tuple[str, ...]:
        record = ToolRecord([Tier(name="fast", max_latency_ms=500, **tier)], Declaration(estimated_ms=800), now=0.0)
        for _ in range(samples):
            record.observe(Sample(str(next(NUMBERS)), 0.0, 120.0, AttemptOutcome.OK))
            record.decide(0.0)
        return record.tiers

    assert (tiers(9), tiers(10)) == ((), ("fast",))
    assert (tiers(19, min_samples=20), tiers(20, min_samples=20)) == ((), ("fast",))


def test_figures_say_when_the_last_call_behind_them_was_and_a_later_hour_is_worth_a_document() -> None:
    record = ToolRecord((), Declaration(), now=0.0)
    assert record.state("a", "laptop", 0.0).measured_at == ""
    for at in (1_769_850_000.0, 1_769_849_000.0):
        record.observe(Sample(str(next(NUMBERS)), at, 120.0, AttemptOutcome.OK))
    record.observe(Sample(str(next(NUMBERS)), 1_769_859_000.0, 5.0, AttemptOutcome.BAD))
    published = record.state("a", "laptop", 0.0)
    assert published.measured_at == "2026-01-31T09:00:00Z", "a failed call is not a figure"
    figures = record.window.quantiles()
    assert not should_publish(published, figures, "2026-01-31T09:59:59Z")
    assert should_publish(published, figures, "2026-01-31T10:00:00Z")
    assert ToolRecord((), Declaration(), now=0.0, published=published).measured_at == published.measured_at
    assert rfc3339(1e300) == "9999-12-31T23:59:59Z"
