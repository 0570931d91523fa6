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


class ToolWithMessages:
    """A tool's record, with the message about each of its moves."""

    def __init__(self, *tiers: Tier, first_tier_points: int = 0, **declared: object) -> None:
        """`first_tier_points`: score of the tool in the first tier, as after earlier calls; a score of 30 hides it."""
        self.record = ToolRecord(tiers, Declaration(**{"probed": True, **declared}), now=0.0)  # type: ignore[arg-type]  # a table of any members
        self.record._scores[0]._restart(first_tier_points)

    def after(self, *durations_ms: float, at: float = 0.0, outcome: AttemptOutcome = AttemptOutcome.OK) -> str | None:
        """Add calls. Returns the message about the last move that they cause."""
        message = None
        for duration in durations_ms:
            self.record.observe(Sample(str(next(ATTEMPTS)), at, duration, outcome))
            message = self.decide(at) or message
        return message

    def decide(self, at: float) -> str | None:
        before = self.record.tiers
        return self.record.describe_move("ask_supplier", before) if self.record.decide(at) != before else None


def test_the_message_about_leaving_a_tier_has_the_late_calls_and_the_p95() -> None:
    message = ToolWithMessages(FAST, STANDARD, DEEP, first_tier_points=12).after(1001, 1002, 1004)
    assert message == "ask_supplier left the fast tier: 3 of its last 3 calls took over 500 ms (p95 1,004 ms)"


def test_calls_in_time_are_counted_among_the_last_ones() -> None:
    message = ToolWithMessages(FAST, DEEP).after(*[700.0, 100.0] * 5)
    assert message == "ask_supplier left the fast tier: 5 of its last 10 calls took over 500 ms (p95 700 ms)"


def test_a_tool_leaves_a_slower_tier_only_together_with_the_faster_one() -> None:
    # the score in the standard tier reaches its cap at call 3, the score in the fast tier at call 5
    message = ToolWithMessages(FAST, STANDARD, DEEP).after(*[2000.0] * 5)
    assert message is not None
    assert message.startswith("ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 2,000 ms)")


def test_leaving_two_tiers_makes_one_message() -> None:
    tool = ToolWithMessages(FAST, STANDARD, DEEP)
    tool.record._scores[1]._restart(0)  # as in the fast tier, so that the same call hides the tool in both tiers
    tool.record.observe(Sample("x", 0.0, 100.0, AttemptOutcome.OK))  # before the late calls, so it is not counted
    assert tool.after(*[2000.0] * 5) == (
        "ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 2,000 ms), "
        "and the standard tier: 5 of its last 5 calls took over 1,500 ms (p95 2,000 ms)"
    )


def test_the_message_about_a_return_has_the_calls_that_caused_it() -> None:
    tool = ToolWithMessages(FAST, DEEP)
    tool.after(*[800.0] * 5)
    assert tool.after(3, 4, 5, 6, 12) == (
        "ask_supplier returned to the fast tier: its last 5 calls took at most 500 ms (p95 12 ms)"
    )


def test_the_message_about_a_trial_has_its_length_and_what_ends_it() -> None:
    tool = ToolWithMessages(FAST, DEEP, probed=False)
    tool.after(*[800.0] * 5)
    assert tool.decide(30.0) == (
        "ask_supplier returned to the fast tier for a trial of 5 calls: a call over 500 ms takes it out again"
    )
    assert tool.after(900, at=31.0) == "ask_supplier left the fast tier: its last call took over 500 ms (p95 900 ms)"


def test_the_limit_in_the_message_includes_hysteresis() -> None:
    message = ToolWithMessages(Tier(name="fast", max_latency_ms=500, hysteresis=0.1), DEEP).after(*[600.0] * 5)
    assert message == "ask_supplier left the fast tier: 5 of its last 5 calls took over 550 ms (p95 600 ms)"


def test_a_quantile_just_over_the_limit_does_not_read_like_the_limit() -> None:
    message = ToolWithMessages(FAST, DEEP).after(*[500.4] * 5)
    assert message == "ask_supplier left the fast tier: 5 of its last 5 calls took over 500 ms (p95 500.4 ms)"


def test_the_message_about_a_failing_tool_has_the_failures_and_that_about_its_return_the_trial() -> None:
    tool = ToolWithMessages(FAST, DEEP, probed=False)
    assert tool.after(*[20.0] * 4, outcome=AttemptOutcome.BAD) == (
        "ask_supplier left the fast tier: 4 of its last 4 calls failed"
    )
    assert tool.decide(60.0) == (
        "ask_supplier returned to the fast tier for a trial of 3 calls: a failed call takes it out again"
    )
