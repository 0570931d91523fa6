"""When a tool becomes degraded and recovers, and when it counts as a tool with two speeds."""

from __future__ import annotations

import math
import random

import pytest

from fairlead_operator.latency.bimodal import is_bimodal
from fairlead_operator.latency.reliability import HealthScore


@pytest.mark.parametrize(
    ("calls", "score", "degraded"),
    [
        ("BBB", 25, False),
        ("BBBB", 0, True),
        ("BBBBGGGG", 20, True),
        ("BBBBGGGGG", 25, False),
        ("BBBB" * 50 + "GGGGG", 25, False),
    ],
)
def test_four_bad_calls_degrade_a_tool_and_five_good_ones_heal_it(calls: str, score: int, degraded: bool) -> None:
    health = HealthScore()
    for call in calls:
        health.observe(bad=call == "B")
        health.decide(0.0, probed=True)
    assert (health.score, health.degraded) == (score, degraded)


def test_a_tool_that_nothing_reaches_is_tried_again_by_itself() -> None:
    health = HealthScore()
    for _ in range(4):
        health.observe(bad=True)
    health.decide(0.0, probed=False)
    assert not health.decide(29.0, probed=False)
    assert health.decide(30.0, probed=False)
    health.observe(bad=True)
    assert not health.decide(31.0, probed=False)


def mixture(seed: int, share_fast: float, fast: float, slow: float, sigma: float) -> list[float]:
    dice = random.Random(seed)
    return sorted(
        (fast if dice.random() < share_fast else slow) * math.exp(sigma * dice.gauss(0, 1)) for _ in range(100)
    )


def threshold(share_fast: float, fast: float, slow: float, sigma: float) -> int:
    return sum(is_bimodal(mixture(seed, share_fast, fast, slow, sigma)) for seed in range(200))


def test_two_heaps_are_found_and_one_heap_is_not_taken_for_two() -> None:
    assert threshold(0.7, 50, 900, 0.15) == 200
    assert threshold(0.9, 50, 900, 0.15) >= 190
    assert threshold(1.0, 120, 120, 0.5) == 0
    assert threshold(1.0, 120, 120, 1.0) == 0


def test_thirty_samples_are_needed_for_a_bimodal_tool() -> None:
    assert not is_bimodal([50.0] * 15 + [900.0] * 14)
