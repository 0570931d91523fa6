"""The benchmark harness: samples, ratios within rounds, goals, and both forms of a report."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, number, ratios, table


def test_a_sample_is_the_median_with_the_extremes() -> None:
    assert Sample.of([3, 1, 9, 2, 4]) == Sample(median=3, low=1, high=9)


def test_a_sample_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs a value"):
        Sample.of([])


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1))
def test_the_median_lies_within_the_spread(values: list[float]) -> None:
    sample = Sample.of(values)
    assert sample.low <= sample.median <= sample.high


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.6131, "0.613"), (1, "1"), (1.414, "1.41"), (16.52, "16.5"), (123.4, "123"), (57522.3, "57,522")],
)
def test_numbers_keep_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


@given(st.integers(1, 6), st.integers(1, 6))
def test_every_round_has_every_target_once_and_the_first_one_changes(count: int, rounds: int) -> None:
    targets = list(range(count))
    order = [*interleaved(targets, rounds)]
    for number_ in range(rounds):
        in_round = [target for round_, target in order if round_ == number_]
        assert sorted(in_round) == targets
        assert in_round[0] == number_ % count


def test_ratios_are_taken_within_a_round_and_rounds_without_both_are_left_out() -> None:
    assert ratios({0: 10.0, 1: 30.0, 2: 7.0}, {0: 20.0, 1: 20.0}) == Sample(median=1.0, low=0.5, high=1.5)
    assert ratios({0: 10.0}, {}) is None


@pytest.mark.parametrize(
    ("goal", "text", "met"),
    [
        (Goal("throughput", 0.61, "× nginx", at_least=0.6), ">= 0.6", True),
        (Goal("throughput", 0.59, "× nginx", at_least=0.6), ">= 0.6", False),
        (Goal("CPU", 1.5, "× nginx", at_most=1.5), "<= 1.5", True),
        (Goal("CPU", None, "× nginx", at_most=1.5), "<= 1.5", None),
    ],
)
def test_a_goal_says_its_bound_and_whether_it_was_met(goal: Goal, text: str, met: bool | None) -> None:
    assert (goal.goal, goal.met) == (text, met)


@pytest.mark.parametrize(
    ("values", "met"), [([], False), ([1.0, None], False), ([1.0, 3.0], False), ([1.0, 2.0], True)]
)
def test_goals_that_are_missing_or_not_measured_are_not_met(values: list[float | None], met: bool) -> None:
    assert Report("hop", goals=[Goal("CPU", value, "s", at_most=2) for value in values]).all_met is met


def test_the_json_has_the_promised_members() -> None:
    report = Report("hop", rows=[{"target": "direct", "µs": Sample(2, 1, 3)}], goals=[Goal("g", 1, "s", at_most=2)])

    document = json.loads(json.dumps(report.to_json({"cores": 2}, "abc")))

    assert {"name", "machine", "commit", "rows", "goals"} <= set(document)
    assert document["rows"] == [{"target": "direct", "µs": {"median": 2, "low": 1, "high": 3}}]
    assert document["goals"] == [{"name": "g", "value": 1, "unit": "s", "goal": "<= 2", "met": True}]


def test_the_markdown_shows_machine_table_goals_and_notes() -> None:
    report = Report(
        "hop",
        rows=[{"target": "direct", "µs": Sample(2, 1, 3), "ratio": None}],
        goals=[Goal("g", 3, "s", at_most=2)],
        notes=["a note"],
    )

    assert report.to_markdown({"cores": 2}, "abc") == (
        "## hop\n\ncommit abc; cores 2\n\n"
        "| target | µs | ratio |\n| --- | --- | --- |\n| direct | 2 (1–3) | – |\n\n"
        "| goal | value | unit | bound | met |\n| --- | --- | --- | --- | --- |\n| g | 3 | s | <= 2 | **no** |\n\n"
        "- a note\n"
    )


def test_a_pipe_in_a_cell_does_not_end_it() -> None:
    assert table(["a"], [["x|y"]]).endswith("| x\\|y |")


PARTS = ("calls/1", "calls/64", "lists", "others")


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ((), ["calls/1", "calls/64", "lists", "others"]),
        (("calls",), ["calls/1", "calls/64"]),
        (("calls/64", "lists"), ["calls/64", "lists"]),
    ],
)
def test_parts_are_named_whole_or_by_their_beginning(only: tuple[str, ...], wanted: list[str]) -> None:
    settings = Settings(1, only=only)
    settings.check_parts(PARTS)
    assert [part for part in PARTS if settings.wants(part)] == wanted


def test_a_part_that_is_only_known_when_it_is_reached_may_be_named() -> None:
    settings = Settings(1, only=("others/one",))
    settings.check_parts(PARTS)
    assert settings.wants("others/one")
    assert not settings.wants("others/two")


def test_a_part_that_was_never_reached_is_known_by_its_name() -> None:
    settings = Settings(1, only=("others/one", "others/two", "lists"))
    assert settings.missed("others", ["others/one", "others/three"]) == ["others/two"]


@pytest.mark.parametrize(("word", "parts"), [("call", PARTS), ("calls/6", PARTS), ("lists", ())])
def test_a_part_that_does_not_exist_is_refused_with_those_that_do(word: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(Unmeasurable, match=f"no such part; parts: {parts[0] if parts else 'none'}"):
        Settings(1, only=(word,)).check_parts(parts)


def test_parts_that_could_not_be_measured_are_told() -> None:
    report = Report("calls", failures=["lists: nobody answered"])
    assert "- **not measured:** lists: nobody answered" in report.to_markdown({}, "c")
    assert report.to_json({}, "c")["failures"] == ["lists: nobody answered"]
