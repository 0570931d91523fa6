"""History of ratios: which nights fail, which nights form the baseline, and the verb that reports this."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.harness import Goal, Report
from rig.history import Better, Line, Trend, decode, encode, lines_of, to_markdown, trends

ROOT = Path(__file__).resolve().parents[3]
MACHINE: dict[str, Any] = {"cores": 4, "processor": "EPYC", "kernel": "6.8", "python": "3.13.7, path compiled"}


def night(number: int, value: float, *, better: Better = "higher", **other: Any) -> Line:
    """One night's measurement of a ratio of about 1."""
    words = {"commit": f"c{number}", "machine": "4 cores", "ratio": "calls/s, × nginx", **other}
    return Line(date=f"2026-01-{number:02}", value=value, better=better, **words)


def nights(*values: float, better: Better = "higher") -> list[Line]:
    return [night(number, value, better=better) for number, value in enumerate(values, 1)]


def judge(*values: float, better: Better = "higher") -> Trend:
    (trend,) = trends(nights(*values, better=better))
    return trend


def test_a_ratio_that_is_worse_than_its_range_by_a_tenth_on_two_nights_in_a_row_fails() -> None:
    assert judge(*[1.0, 0.95, 1.05] * 3, 0.8, 0.8).verdict == "failed"
    assert judge(*[1.0, 0.95, 1.05] * 3, 1.2, 1.2, better="lower").verdict == "failed"


def test_a_single_worse_night_does_not_fail_and_a_good_one_between_two_begins_again() -> None:
    assert judge(*[1.0] * 5, 0.8).verdict == "worse once"
    assert judge(*[1.0] * 5, 0.8, 1.0, 0.8).verdict == "worse once"


@pytest.mark.parametrize(("value", "verdict"), [(0.9, "steady"), (0.899, "failed"), (1.1, "steady"), (1.2, "better")])
def test_ratios_within_a_tenth_of_the_range_are_not_reported(value: float, verdict: str) -> None:
    assert judge(*[1.0] * 5, value, value).verdict == (verdict if verdict != "better" else "steady")
    assert judge(*[1.0] * 5, value).verdict == (verdict if verdict != "failed" else "worse once")


def test_a_ratio_that_stays_worse_fails_every_night_and_never_becomes_the_baseline() -> None:
    trend = judge(*[1.0] * 10, *[0.8] * 20)
    assert trend.verdict == "failed"
    assert trend.worse == 20
    assert set(trend.baseline) == {1.0}


def test_the_range_is_that_of_the_last_ten_nights() -> None:
    assert judge(0.5, *[1.0] * 10, 0.8, 0.8).verdict == "failed"
    assert judge(0.5, *[1.0] * 9, 0.8, 0.8).verdict == "steady"


def test_ratios_have_no_range_before_three_nights() -> None:
    assert judge(1.0, 0.1).verdict == "few nights"
    assert judge(1.0, 1.0, 1.0, 0.1).verdict == "worse once"


def test_an_accepted_night_begins_a_new_range() -> None:
    history = [
        *nights(*[1.0] * 5, 0.8, 0.8),
        night(7, 0.8, accepted=True),
        night(8, 0.8),
        night(9, 0.8),
        night(10, 0.8),
    ]
    (trend,) = trends(history)
    assert (trend.verdict, trend.baseline) == ("steady", (0.8, 0.8, 0.8))


def test_machines_and_ratios_have_histories_of_their_own_and_a_day_counts_once() -> None:
    history = [
        *nights(*[1.0] * 5),
        night(6, 0.8),
        night(6, 0.7),
        night(6, 0.8, machine="2 cores"),
        night(6, 0.8, ratio="p99, × nginx"),
    ]
    trends_by_name = {(trend.machine, trend.ratio): trend for trend in trends(history)}
    assert len(trends_by_name) == 3
    first = trends_by_name["4 cores", "calls/s, × nginx"]
    assert (first.verdict, first.last.value) == ("worse once", 0.7)
    assert {trend.verdict for trend in trends_by_name.values()} == {"worse once", "few nights"}


@given(st.lists(st.floats(min_value=0.95, max_value=1.04), max_size=40))
def test_noise_of_a_few_percent_never_fails(values: list[float]) -> None:
    assert all(trend.verdict in {"steady", "few nights"} for trend in trends(nights(*values)))


def test_ratios_of_a_report_are_its_measured_goals_that_compare_and_those_without_a_goal() -> None:
    goals = [
        Goal("calls/s, plain", 0.8, "× nginx", at_least=0.7),
        Goal("CPU, plain", 1.2, "× nginx", at_most=1.35),
        Goal("p99, plain", None, "× nginx", at_most=1.75),
        Goal("memory", 80.0, "MB", at_most=100),
    ]
    report = Report("gateway", goals=goals, without_goal={"CPU, search": 16.0})
    lines = lines_of(report, date="2026-01-01", commit="abc", machine=MACHINE)
    assert [(line.ratio, line.value, line.better) for line in lines] == [
        ("gateway: calls/s, plain, × nginx", 0.8, "higher"),
        ("gateway: CPU, plain, × nginx", 1.2, "lower"),
        ("gateway: CPU, search, ×", 16.0, "lower"),
    ]
    assert {line.machine for line in lines} == {"4 cores, EPYC, Python 3.13, path compiled"}
    assert decode(encode(lines)) == lines


def test_a_damaged_line_is_named() -> None:
    with pytest.raises(ValueError, match="line 2 is not a line of a history"):
        decode(encode(nights(1.0)) + '{"date": 1}\n')


def test_the_table_has_what_failed_first_and_says_what_to_do() -> None:
    other = [night(number, 1.0, ratio="steady one") for number in range(1, 6)]
    told = to_markdown(trends([*other, *nights(*[1.0] * 5, 0.8, 0.8)]))
    first, second = told.splitlines()[2:4]
    assert "| 0.800 | 1–1 | 5 | failed |" in first
    assert "| steady |" in second
    assert "is outside 1–1, the range of 5 nights, by more than 10%, on 2 nights in a row; higher is better" in told
    assert "--accept 'calls/s, × nginx'" in told


def verb(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["hack/bench", "history", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_verb_fails_until_the_change_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(encode(nights(*[1.0] * 5, 0.8, 0.8)))
    failed = verb(file)
    assert (failed.returncode, "failed" in failed.stdout) == (1, True)
    accepted = verb(file, "--accept", "calls/s, × nginx")
    assert (accepted.returncode, "few nights" in accepted.stdout) == (0, True)
    assert verb(file).returncode == 0
    assert verb(file, "--accept", "calls/s").returncode == 2
    assert verb(tmp_path / "none").returncode == 2
