"""When a tool leaves a tier and returns, as a table of samples: L is a late call, T a call in time. No time passes."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.thresholds import DETECTORS, run_needed
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

FAST = Tier(name="fast", max_latency_ms=500)
STANDARD = Tier(name="standard", max_latency_ms=1500)
DEEP = Tier(name="deep", max_latency_ms=4000)
ANY = Tier(name="any")
ATTEMPTS = count()


def sample(letter: str, at: float = 0.0, **more: bool) -> Sample:
    duration = {"L": 800.0, "T": 120.0, "S": 2000.0}[letter]
    return Sample(str(next(ATTEMPTS)), at, duration, AttemptOutcome.OK, **more)


def record_with_points(points: int = 0, **declared: object) -> ToolRecord:
    """A tool with a score of `points` in `fast`."""
    record = ToolRecord([FAST, DEEP], Declaration(**{"probed": True, **declared}), now=0.0)  # type: ignore[arg-type]  # a table of any members
    record._scores[0]._restart(points)
    return record


def after(record: ToolRecord, letters: str, at: float = 0.0) -> int | None:
    """Add the samples one by one. Returns the number of the sample that hid the tool from `fast`; None if the tool is
    listed."""
    hidden = None
    for number, letter in enumerate(letters, 1):
        record.observe(sample(letter, at))
        listed = "fast" in record.decide(at)
        hidden = None if listed else hidden or number
    return hidden


@pytest.mark.parametrize(
    ("points", "letters", "hidden_at"),
    [
        (0, "LLLL", None),
        (0, "LLLLL", 5),
        (0, "LLLLTL", None),
        (0, "LLLLTLL", 7),
        (0, "T" * 100 + "LLLLL", 105),
        (18, "LL", 2),
        (12, "LL", None),
        (12, "LLL", 3),
        (12, "LLTL", None),
        (12, "LLTLL", 5),
        (12, "T" * 12 + "LLLL", None),
        (0, "LT" * 5, 10),
        (0, ("L" + "T" * 5) * 20, 67),
        (0, ("L" + "T" * 6) * 20, 99),
        (0, ("L" + "T" * 7) * 40, None),
    ],
)
def test_a_tool_leaves_a_tier_by_its_late_calls(points: int, letters: str, hidden_at: int | None) -> None:
    assert after(record_with_points(points), letters) == hidden_at


def test_answers_that_cannot_be_read_count_for_health_alone_however_late_they_are() -> None:
    record = record_with_points()
    after(record, "T" * 100)
    figures = record.window.quantiles()
    for _ in range(20):
        record.observe(Sample(str(next(ATTEMPTS)), 0.0, 9000.0, AttemptOutcome.UNREADABLE))
    assert record.decide(0.0) == ("deep",)
    assert record.state("t", "cluster", 0.0).hidden["fast"].startswith("degraded")
    assert record.window.quantiles() == figures
    assert after(record, "T" * 5) is None, "nothing else hides it"


def test_a_hide_cuts_the_window_to_the_calls_since_the_change() -> None:
    record = record_with_points()
    after(record, "T" * 100 + "LLLLL")
    assert len(record.window) == 5
    assert record.state("t", "cluster", 0.0).hidden["fast"] == (
        "over_budget p95=800ms tier=500ms late=5/5 by=recent back=5-in-time"
    )


@pytest.mark.parametrize(
    ("probes", "listed"), [("TTTT", False), ("TTTTT", True), ("TTTTL" + "TTTTT", False), ("TTTTL" + "TTTTTT", True)]
)
def test_probes_in_time_in_a_row_bring_a_tool_back(probes: str, listed: bool) -> None:
    record = record_with_points()
    after(record, "T" * 100 + "LLLLL")
    after(record, probes)
    assert ("fast" in record.tiers) is listed
    if listed:
        assert record.state("t", "cluster", 0.0).points["fast"] == DETECTORS["p95"].after_return


def test_a_tool_that_its_first_probes_hide_comes_back_by_probes_and_says_so() -> None:
    record = record_with_points(probed=False)
    for _ in range(5):
        record.observe(sample("L", probe=True))
    assert record.decide(0.0) == ("deep",)
    assert record.state("t", "cluster", 0.0).hidden["fast"].endswith("back=5-in-time")
    assert record.decide(60.0) == ("deep",)


def test_the_rarer_the_late_calls_were_the_longer_the_run_that_clears_a_tool() -> None:
    assert [run_needed(share) for share in (1.0, 0.6, 0.3, 0.15, 0.05)] == [5, 6, 13, 29, 30]
    assert [run_needed(1.0, relapses) for relapses in range(6)] == [5, 10, 20, 30, 30, 30]


def test_a_tool_hidden_again_within_ten_minutes_waits_a_minute_before_probes_count() -> None:
    record = record_with_points()
    after(record, "LLLLL", at=0.0)
    after(record, "TTTTT", at=10.0)
    assert "fast" in record.tiers
    after(record, "LLL", at=310.0)
    assert "fast" not in record.tiers
    after(record, "T" * 10, at=360.0)
    assert "fast" not in record.tiers
    assert "fast" in record.decide(370.0)


def test_without_probes_a_tool_is_tried_after_half_a_minute_then_after_a_minute() -> None:
    record = record_with_points(probed=False)
    after(record, "LLLLL", at=0.0)
    assert record.state("t", "cluster", 0.0).hidden["fast"].endswith("back=trial-in-30s")
    assert "fast" not in record.decide(29.0)
    assert "fast" in record.decide(30.0)
    after(record, "L", at=30.0)
    assert "fast" not in record.tiers
    assert "fast" not in record.decide(60.0)
    assert "fast" in record.decide(90.0)


def test_the_figures_of_before_a_trial_stay_until_the_trial_has_its_own() -> None:
    record = record_with_points(probed=False)
    after(record, "L" * 12, at=0.0)
    hidden = record.state("t", "cluster", 0.0)
    assert hidden.quantiles is not None
    record.decide(30.0)
    trial = record.state("t", "cluster", 30.0, hidden)
    assert trial.quantiles == hidden.quantiles
    assert " late=0/0 " in trial.fits["fast"]

    restarted = ToolRecord([FAST, DEEP], Declaration(), now=31.0, published=trial)
    assert restarted.state("t", "cluster", 31.0, trial).quantiles == hidden.quantiles
    assert "fast" in restarted.tiers, "its late calls of before the trial end no trial"

    after(record, "T", at=32.0)
    newer = record.state("t", "cluster", 32.0, trial)
    assert newer.quantiles is not None
    assert newer.quantiles.samples == 1


@pytest.mark.parametrize(
    ("before", "run"), [("LLLLL", 5), ("LTLTLTLTLT", 7)], ids=["always late", "late half of the time"]
)
def test_a_trial_is_as_long_as_the_run_that_brings_a_tool_back(before: str, run: int) -> None:
    for late_at, listed in ((run, False), (run + 1, True)):
        record = record_with_points(probed=False)
        after(record, before, at=0.0)
        assert "fast" in record.decide(30.0)
        after(record, "T" * (late_at - 1) + "L", at=31.0)
        assert ("fast" in record.tiers) is listed


def test_a_late_call_while_it_is_hidden_puts_a_trial_off() -> None:
    record = record_with_points(probed=False)
    after(record, "LLLLL", at=0.0)
    after(record, "T", at=10.0)
    after(record, "L", at=20.0)
    assert record.state("t", "cluster", 20.0).hidden["fast"].endswith("back=trial-in-30s")
    assert "fast" not in record.decide(49.0)
    assert "fast" in record.decide(50.0)


def test_each_relapse_doubles_the_run_that_brings_a_tool_back() -> None:
    record = record_with_points()
    runs = []
    for moment in (0.0, 300.0, 600.0, 2000.0):
        after(record, "LLLLL", at=moment)
        runs.append(0)
        while "fast" not in record.tiers:
            after(record, "T", at=moment + 290.0)
            runs[-1] += 1
    assert runs == [5, 10, 20, 5]


def test_a_running_attempt_counts_once_it_is_past_the_limit_and_only_once() -> None:
    record = record_with_points()
    record.observe(Sample("a", 0.0, 499.0, AttemptOutcome.RUNNING))
    assert len(record.window) == 0
    record.observe(Sample("a", 0.1, 501.0, AttemptOutcome.RUNNING))
    record.observe(Sample("a", 0.2, 700.0, AttemptOutcome.RUNNING))
    record.observe(Sample("a", 0.3, 900.0, AttemptOutcome.BAD))
    score = record._scores[0]
    assert (score.points, len(record.window), score.count_late(record.window)) == (6, 1, 1)
    assert record.window.quantile(0.5) == 900.0


@pytest.mark.parametrize("outcome", [AttemptOutcome.BAD, AttemptOutcome.NEUTRAL, AttemptOutcome.RUNNING])
def test_a_late_call_without_success_counts_for_tiers_and_not_for_published_figures(outcome: AttemptOutcome) -> None:
    record = ToolRecord([FAST, DEEP], Declaration(), now=0.0)
    record.observe(Sample("late", 5.0, 18_213.0, outcome))
    record.decide(5.0)
    state = record.state("t", "local", 5.0)
    assert (state.quantiles, state.measured_at) == (None, "")
    assert state.fits["fast"] == "fits unmeasured tier=500ms points=18/30"
    record.observe(Sample("good", 6.0, 90.0, AttemptOutcome.OK))
    quantiles = record.state("t", "local", 6.0).quantiles
    assert quantiles is not None
    assert (quantiles.samples, quantiles.p50_ms, quantiles.p99_ms) == (1, 90.0, 90.0)


def test_a_running_call_that_succeeds_counts_for_published_figures_when_it_ends() -> None:
    record = ToolRecord([FAST, DEEP], Declaration(), now=0.0)
    record.observe(Sample("a", 5.0, 700.0, AttemptOutcome.RUNNING))
    assert record.window.quantiles() is None
    record.observe(Sample("a", 6.0, 900.0, AttemptOutcome.OK))
    quantiles = record.window.quantiles()
    assert quantiles is not None
    assert (quantiles.samples, quantiles.p50_ms) == (1, 900.0)


def test_a_restarted_operator_hides_a_tool_whose_late_calls_all_failed() -> None:
    record = ToolRecord([FAST, DEEP], Declaration(), now=0.0)
    for number in range(4):
        record.observe(Sample(f"late{number}", 0.0, 2000.0, AttemptOutcome.NEUTRAL))
    assert record.decide(0.0) == ("deep",)
    state = record.state("t", "local", 0.0)
    assert state.hidden["fast"].startswith("over_budget tier=500ms late=4/4 by=recent back=")
    again = ToolRecord([FAST, DEEP], Declaration(), now=100.0, published=state)
    assert again.tiers == again.decide(100.0) == ("deep",)
    assert again.state("t", "local", 100.0).hidden["fast"].startswith("over_budget tier=500ms late=0/0 by=recent")
    assert again.decide(131.0) == ("fast", "deep")
    assert "returned to the fast tier" in again.describe_move("t", ("deep",))


def test_errors_within_the_limit_speak_of_health_and_not_of_speed() -> None:
    record = record_with_points()
    for number in range(10):
        record.observe(Sample(f"e{number}", 0.0, 20.0, AttemptOutcome.BAD))
    assert (record._scores[0].points, len(record.window), record.health.score) == (0, 0, 0)


def test_neutral_answers_speak_of_nothing() -> None:
    record = record_with_points()
    for number in range(10):
        record.observe(Sample(f"n{number}", 0.0, 20.0, AttemptOutcome.NEUTRAL))
    assert (record._scores[0].points, len(record.window), record.health.score) == (0, 0, 100)


def test_tools_of_a_fast_tier_are_in_every_slower_one() -> None:
    record = ToolRecord([DEEP, ANY, FAST, STANDARD], Declaration(probed=True), now=0.0)
    before = record.tiers
    after(record, "SSS")
    assert (before, record.tiers) == (("fast", "standard", "deep", "any"), ("deep", "any"))


@pytest.mark.parametrize(
    ("estimated", "unmeasured", "tiers", "why"),
    [
        (50, "Show", ("fast", "deep"), "fits estimated=50ms tier=500ms points=12/30"),
        (800, "Show", ("deep",), "over_budget estimated=800ms tier=500ms by=declared back=10-in-time"),
        (None, "Show", ("fast", "deep"), "fits unmeasured tier=500ms points=12/30"),
        (None, "Hide", ("deep",), "unmeasured tier=500ms back=10-in-time"),
    ],
)
def test_before_it_is_measured_a_tool_is_judged_by_what_is_declared(
    estimated: int | None, unmeasured: str, tiers: tuple[str, ...], why: str
) -> None:
    fast = Tier(name="fast", max_latency_ms=500, unmeasured=unmeasured)
    record = ToolRecord([fast, DEEP], Declaration(estimated_ms=estimated, probed=True), now=0.0)
    state = record.state("t", "cluster", 0.0)
    assert state.tiers == tiers
    assert {**state.hidden, **state.fits}["fast"] == why


def test_measurements_take_the_place_of_a_declaration_that_was_too_slow() -> None:
    record = ToolRecord([FAST, DEEP], Declaration(estimated_ms=800, probed=True), now=0.0)
    assert after(record, "T" * 9) == 1
    assert "fast" not in record.tiers
    assert after(record, "T") is None


def test_a_tool_with_two_speeds_is_judged_by_p95_and_not_brought_back_by_probes() -> None:
    by_median = Tier(name="fast", max_latency_ms=500, quantile="p50")
    record = ToolRecord([by_median, ANY], Declaration(probed=True), now=0.0)
    after(record, "TTLTTLTTTT" * 6)
    assert record.bimodal
    assert "fast" not in record.tiers
    for _ in range(40):
        record.observe(sample("T", probe=True))
    assert "fast" not in record.decide(1.0)


def test_probes_speak_against_a_hidden_tool_with_two_speeds_and_never_for_it() -> None:
    record = record_with_points()
    assert record.hidden_limit_ms() is None
    after(record, "TTLTTLTTTT" * 6)
    assert record.hidden_limit_ms() == 0.0
    record.observe(sample("L", probe=True))
    record.decide(20.0)
    record.observe(sample("T", probe=True))
    assert "fast" not in record.decide(49.0)
    assert "fast" in record.decide(50.0)


def test_probes_heal_a_degraded_tool_with_two_speeds() -> None:
    record = ToolRecord([Tier(name="fast", max_latency_ms=5000), ANY], Declaration(probed=True), now=0.0)
    after(record, "TTLTTLTTTT" * 6)
    for number in range(4):
        record.observe(Sample(f"b{number}", 0.0, 20.0, AttemptOutcome.BAD))
    assert record.decide(0.0) == ("any",)
    assert (record.bimodal, record.hidden_limit_ms()) == (True, float("inf"))


def test_a_restarted_operator_goes_on_from_what_was_published() -> None:
    record = record_with_points()
    after(record, "T" * 60 + "LLLLL")
    state = record.state("t", "cluster", 0.0)
    again = ToolRecord([FAST, DEEP], Declaration(probed=True), now=0.0, published=state)
    assert again.tiers == record.tiers == ("deep",)
    assert again.state("t", "cluster", 0.0).quantiles == state.quantiles
    steady = record_with_points()
    after(steady, "T" * 60)
    assert ToolRecord([FAST], Declaration(), now=0.0, published=steady.state("t", "cluster", 0.0)).tiers == ("fast",)


@pytest.mark.parametrize(
    ("estimated", "unmeasured"), [(800, "Show"), (None, "Hide")], ids=["declared too slow", "unmeasured"]
)
def test_a_restart_makes_no_trial_of_what_no_call_has_hidden(estimated: int | None, unmeasured: str) -> None:
    tiers = [Tier(name="fast", max_latency_ms=500, unmeasured=unmeasured), DEEP]
    before = ToolRecord(tiers, Declaration(estimated_ms=estimated), now=0.0).state("t", "cluster", 0.0)
    again = ToolRecord(tiers, Declaration(estimated_ms=estimated), now=0.0, published=before)
    assert again.decide(3600.0) == ("deep",)
    assert again.state("t", "cluster", 3600.0).hidden == before.hidden


def test_a_degraded_tool_that_nothing_reaches_waits_for_its_trial_from_the_restart_on() -> None:
    record = ToolRecord([FAST, STANDARD], Declaration(), now=0.0)
    for number in range(4):
        record.observe(Sample(f"b{number}", 0.0, 20.0, AttemptOutcome.BAD))
    record.decide(0.0)
    record.observe(Sample("g", 0.0, 20.0, AttemptOutcome.OK))  # recovering, but still degraded
    record.decide(0.0)
    state = record.state("t", "cluster", 0.0)
    again = ToolRecord([FAST, STANDARD], Declaration(), now=1000.0, published=state)
    assert again.tiers == again.decide(1029.0) == ("standard",)
    assert again.decide(1030.0) == ("fast", "standard")


@pytest.mark.parametrize(("limit", "tiers"), [(100, ("deep",)), (200, ("new", "deep"))])
def test_a_new_tier_judges_a_measured_tool_by_its_window_and_not_by_what_it_declares(
    limit: int, tiers: tuple[str, ...]
) -> None:
    estimated = 150 if limit == 100 else 5000
    record = record_with_points(estimated_ms=estimated)
    after(record, "T" * 20)
    record.use_tiers([Tier(name="new", max_latency_ms=limit), DEEP], 1.0)
    assert record.decide(1.0) == tiers
    again = ToolRecord(
        [Tier(name="new", max_latency_ms=limit), DEEP],
        record.declaration,
        now=1.0,
        published=msgspec.structs.replace(record.state("t", "cluster", 1.0), points={}, hidden={}),
    )
    assert again.tiers == tiers
    assert again._scores[0].points == 0


def test_tiers_that_decide_as_before_keep_their_scores_and_others_begin_again() -> None:
    record = record_with_points()
    after(record, "T" * 20 + "LL" + "S")
    assert [score.points for score in record._scores] == [18, 0]
    fast = msgspec.structs.replace(FAST, default=True, call_timeout_ms=900)
    record.use_tiers([fast, msgspec.structs.replace(DEEP, max_latency_ms=3000)], 1.0)
    assert [score.points for score in record._scores] == [18, 0]
    record.use_tiers([msgspec.structs.replace(FAST, max_latency_ms=600), DEEP], 1.0)
    assert record._scores[0].points == 0
    assert len(record.window) == 23


def test_a_degraded_tool_moves_up_one_tier_and_says_why() -> None:
    record = ToolRecord([FAST, STANDARD, DEEP], Declaration(probed=True), now=0.0)
    for number in range(4):
        record.observe(Sample(f"b{number}", 0.0, 20.0, AttemptOutcome.BAD))
    assert record.decide(0.0) == ("standard", "deep")
    assert record.state("t", "cluster", 0.0).hidden["fast"] == "degraded score=0 failures=4/4 tier=standard back=5-good"


@pytest.mark.parametrize("quantile", ["p50", "p90", "p95", "p99"])
def test_late_calls_allowed_never_fall_with_the_number_of_samples(quantile: str) -> None:
    detector = DETECTORS[quantile]
    allowed = [detector.late_calls_to_hide(n) for n in range(10, 101)]
    assert allowed == sorted(allowed)
    assert allowed[-1] == detector.most_late


def test_the_table_of_late_calls_for_p95() -> None:
    detector = DETECTORS["p95"]
    steps = {10: 5, 12: 6, 18: 7, 25: 8, 32: 9, 41: 10, 50: 11, 59: 12, 69: 13, 79: 14, 90: 15}
    assert {n: detector.late_calls_to_hide(n) for n in steps} == steps
    assert [detector.late_calls_to_hide(n - 1) for n in list(steps)[1:]] == list(steps.values())[:-1]
