"""Losses that `hack/conformance` reports: checks that pass without the gateway and do not pass through it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance import OF_SDK, OF_TASKS, REVISIONS, Comparison, judge
from conformance_outcome import KEPT, Outcome, Subject, keep, read_outcome, stored_outcome


def compare(bare: dict[str, str], through: dict[str, str]) -> Comparison:
    return Comparison("2025-11-25", Outcome(bare), Outcome(through))


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "INFO", "SKIPPED"])
def test_a_check_that_is_graded_lower_through_the_gateway_is_lost(status: str) -> None:
    comparison = compare({"s:a": "SUCCESS", "s:b": "SUCCESS"}, {"s:a": "SUCCESS", "s:b": status})
    assert comparison.wrong(set()) == [f"s:b passes bare and is {status} through"]


def test_a_check_that_is_not_looked_at_is_lost() -> None:
    comparison = compare({"s:a": "SUCCESS", "s:b": "SUCCESS"}, {"s:a": "SUCCESS"})
    assert comparison.wrong(set()) == ["s:b passes bare and is not looked at through"]


def test_conformance_tests_that_fail_bare_are_not_asked_for() -> None:
    comparison = compare({"s:a": "INFO", "s:b": "WARNING"}, {"s:a": "FAILURE"})
    assert comparison.wrong(set()) == []


def test_a_failure_of_the_bare_subject_stands_in_the_baseline() -> None:
    comparison = compare({"s:a": "FAILURE"}, {"s:a": "FAILURE"})
    assert comparison.wrong(set()) == ["s:a fails bare and is not in the baseline"]
    assert comparison.wrong({"s:a"}) == []


def test_a_stale_entry_of_the_baseline_is_wrong() -> None:
    comparison = compare({"s:a": "FAILURE"}, {"s:a": "FAILURE"})
    assert judge([comparison], {"s:a", "s:gone"}) == ["s:gone stands in the baseline and does not fail"]


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [(["SUCCESS", "INFO"], "INFO"), (["FAILURE", "SUCCESS"], "FAILURE"), (["SUCCESS", "SUCCESS"], "SUCCESS")],
)
def test_a_check_that_comes_twice_is_as_good_as_its_worst(tmp_path: Path, statuses: list[str], worst: str) -> None:
    folder = tmp_path / "server-ping-2026-01-01T00"
    folder.mkdir()
    (folder / "checks.json").write_text(json.dumps([{"id": "ping", "status": status} for status in statuses]))
    assert read_outcome(tmp_path).checks == {"ping:ping": worst}


def test_a_bare_run_is_kept_for_as_long_as_its_subject_is_the_same(tmp_path: Path) -> None:
    source = tmp_path / "subject.py"
    file = tmp_path / "bare.json"
    source.write_text("one")
    subject = Subject("it", (source,), ("library 1",))
    assert stored_outcome(subject, "run", file) is None
    outcome = Outcome({"a:b": "SUCCESS", "a:c": "FAILURE"}, 1, 1)
    keep(subject, {"run": outcome}, file)
    assert stored_outcome(subject, "run", file) == outcome
    assert stored_outcome(subject, "another", file) is None
    assert stored_outcome(Subject("it", (source,), ("library 2",)), "run", file) is None
    source.write_text("two")
    assert stored_outcome(subject, "run", file) is None


def test_the_bare_runs_of_the_tree_are_of_its_subjects() -> None:
    """Otherwise each CI run repeats the bare runs, which take minutes. `hack/conformance` runs them and writes the
    file."""
    documents = json.loads(KEPT.read_text())
    for subject, runs in ((OF_SDK, [*REVISIONS]), (OF_TASKS, ["tasks"])):
        key = documents[subject.name]["key"]
        assert key["source"] == subject.key["source"]
        assert key["madeWith"][1:] == [*subject.made_with[1:]]  # the installed library may be newer
        assert sorted(documents[subject.name]["runs"]) == runs
