"""Tier floors in the operator's decisions: measured latency can only raise a floor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

FAST, STANDARD, DEEP = (
    Tier(name=name, max_latency_ms=ms) for name, ms in (("fast", 500), ("standard", 1500), ("deep", 4000))
)
TIERS = (FAST, STANDARD, DEEP)


def calls(record: ToolRecord, count: int, milliseconds: float, at: float) -> None:
    for number in range(count):
        record.observe(Sample(f"{at} {number}", at, milliseconds, AttemptOutcome.OK, probe=True))
    record.decide(at)


def tiers_of(record: ToolRecord) -> list[str]:
    return list(record.tiers)


def test_a_fast_tool_stays_at_its_floor_rises_when_it_is_slow_and_comes_back_to_the_floor() -> None:
    record = ToolRecord(TIERS, Declaration(min_tier="standard", probed=True), now=0.0)
    calls(record, 20, 5.0, 1.0)
    assert tiers_of(record) == ["standard", "deep"]
    calls(record, 20, 2000.0, 2.0)
    assert tiers_of(record) == ["deep"]
    calls(record, 40, 5.0, 100.0)
    assert tiers_of(record) == ["standard", "deep"]
    state = record.state("t", "cluster", 100.0)
    assert state.hidden == {"fast": "below_min_tier min_tier=standard tier=500ms by=mcpserver"}


def test_a_failing_tool_leaves_its_floor_for_a_slower_tier() -> None:
    record = ToolRecord(TIERS, Declaration(min_tier="standard"), now=0.0)
    for number in range(8):
        record.observe(Sample(f"{number}", 1.0, 5.0, AttemptOutcome.BAD))
    assert record.decide(1.0) == ("deep",)


@pytest.mark.parametrize(
    ("declared", "tiers"),
    [
        (Declaration(min_tier="deep", authored_min_tier="fast"), ("deep",)),
        (Declaration(authored_min_tier="standard"), ("standard", "deep")),
        (Declaration(min_tier="nowhere"), ("deep",)),
        (Declaration(authored_min_tier="nowhere"), ("fast", "standard", "deep")),
    ],
)
def test_the_slower_floor_counts_and_an_unknown_tier_is_the_slowest(
    declared: Declaration, tiers: tuple[str, ...]
) -> None:
    assert ToolRecord(TIERS, declared, now=0.0).tiers == tiers


def test_a_floor_that_is_set_or_taken_back_moves_the_tool_and_says_why() -> None:
    record = ToolRecord(TIERS, Declaration(), now=0.0)
    before = record.tiers
    record.declare(replace(record.declaration, min_tier="deep"), 1.0)
    assert record.decide(1.0) == ("deep",)
    assert record.describe_move("image", before) == "image left the fast and standard tiers: its lowest tier is deep"
    record.declare(replace(record.declaration, min_tier=None), 2.0)
    assert record.decide(2.0) == before


def test_an_operator_that_starts_again_keeps_window_and_score_behind_a_floor() -> None:
    record = ToolRecord(TIERS, Declaration(min_tier="standard"), now=0.0)
    calls(record, 20, 5.0, 1.0)
    again = ToolRecord(TIERS, record.declaration, now=0.0, published=record.state("t", "cluster", 1.0))
    assert again.tiers == ("standard", "deep")
    again.declare(replace(again.declaration, min_tier=None), 2.0)
    assert again.decide(2.0) == ("fast", "standard", "deep")
