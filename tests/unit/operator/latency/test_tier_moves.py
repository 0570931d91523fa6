"""Messages about a tool that changes tiers: tier, number of calls and latency, with the numbers of the tool's
record."""

from __future__ import annotations

from itertools import count

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

FAST = Tier(name="fast", max_latency_ms=500)
STANDARD = Tier(name="standard", max_latency_ms=1500)
DEEP = Tier(name="deep", max_latency_ms=4000)
ATTEMPTS = count()


class Teller:
    """A tool's record, with the message about each of its moves."""

    def __init__(self, *tiers: Tier, points: int = 0, **declared: object) -> None:
        self.record = ToolRecord(tiers, Declaration(**{"probed": True, **declared}), now=0.0)  # type: ignore[arg-type]  # a table of any members
        self.record._scores[0]._restart(points)

    def after(self, *durations_ms: float, at: float = 0.0, outcome: AttemptOutcome = AttemptOutcome.OK) -> str | None:
        """Add calls. Returns the message about the last move that they cause."""
        told = None
        for duration in durations_ms:
            self.record.observe(Sample(str(next(ATTEMPTS)), at, duration, outcome))
            told = self.decide(at) or told
        return told

    def decide(self, at: float) -> str | None:
        before = self.record.tiers
        return self.record.describe_move("ask_supplier", before) if self.record.decide(at) != before else None


def test_a_tool_that_leaves_a_tier_is_told_with_its_late_calls_and_its_p95() -> None:
    told = Teller(FAST, STANDARD, DEEP, points=12).after(1001, 1002, 1004)
    assert told == "ask_supplier left the fast tier: 3 of its last 3 calls took over 500 ms (p95 1,004 ms)"


def test_calls_in_time_are_counted_among_the_last_ones() -> None:
    told = Teller(FAST, DEEP).after(*[700.0, 100.0] * 5)
    assert told == "ask_supplier left the fast tier: 5 of its last 10 calls took over 500 ms (p95 700 ms)"


def test_a_tool_that_leaves_two_tiers_is_told_of_once() -> None:
    told = Teller(FAST, STANDARD, DEEP).after(*[2000.0] * 5)
    assert told is not None
    assert told.startswith("ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 2,000 ms)")
    both = Teller(FAST, STANDARD, DEEP)
    both.record._scores[1]._restart(0)
    both.record.observe(Sample("x", 0.0, 100.0, AttemptOutcome.OK))
    assert both.after(*[2000.0] * 5) == (
        "ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 2,000 ms), "
        "and the standard tier: 5 of its last 5 calls took over 1,500 ms (p95 2,000 ms)"
    )


def test_a_tool_that_comes_back_is_told_with_the_calls_that_brought_it_back() -> None:
    teller = Teller(FAST, DEEP)
    teller.after(*[800.0] * 5)
    assert teller.after(3, 4, 5, 6, 12) == (
        "ask_supplier returned to the fast tier: its last 5 calls took at most 500 ms (p95 12 ms)"
    )


def test_a_trial_says_how_long_it_is_and_what_ends_it() -> None:
    teller = Teller(FAST, DEEP, probed=False)
    teller.after(*[800.0] * 5)
    assert teller.decide(30.0) == (
        "ask_supplier returned to the fast tier for a trial of 5 calls: a call over 500 ms takes it out again"
    )
    assert teller.after(900, at=31.0) == "ask_supplier left the fast tier: its last call took over 500 ms (p95 900 ms)"


def test_hysteresis_is_part_of_the_time_that_is_told() -> None:
    told = Teller(Tier(name="fast", max_latency_ms=500, hysteresis=0.1), DEEP).after(*[600.0] * 5)
    assert told == "ask_supplier left the fast tier: 5 of its last 5 calls took over 550 ms (p95 600 ms)"


def test_a_quantile_just_over_the_limit_does_not_read_like_the_limit() -> None:
    told = Teller(FAST, DEEP).after(*[500.4] * 5)
    assert told == "ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 500.4 ms)"


def test_a_tool_that_fails_is_told_with_its_failures_and_one_that_recovers_with_its_trial() -> None:
    teller = Teller(FAST, DEEP, probed=False)
    assert teller.after(*[20.0] * 4, outcome=AttemptOutcome.BAD) == (
        "ask_supplier left the fast tier: 4 of its last 4 calls failed"
    )
    assert teller.decide(60.0) == (
        "ask_supplier returned to the fast tier for a trial of 3 calls: a failed call takes it out again"
    )
