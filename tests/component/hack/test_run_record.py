"""The record of a test run, and the report of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from run_record import RECORD, Event, outcome, read, seconds_before, seconds_of_shards, slowest

ROOT = Path(__file__).resolve().parents[3]


def record_run(folder: Path, *words: str) -> list[Event]:
    """Events of a run of four tests with one fixture."""
    (folder / "conftest.py").write_text("from run_record import register as pytest_configure\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(
        textwrap.dedent("""
            import pytest

            @pytest.fixture
            def spun():
                return sum(range(3_000_000))

            def test_that_spins(spun):
                pass

            def test_that_fails():
                raise AssertionError

            @pytest.mark.skip(reason="needs a ship")
            def test_that_is_skipped():
                pass

            def test_whose_teardown_fails(request):
                request.addfinalizer(lambda: 1 / 0)
            """)
    )
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    surroundings |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    surroundings |= {RECORD: str(folder / "record"), "PYTHONPATH": str(ROOT / "tests" / "support")}
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", *words, "."]
    subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, timeout=60, check=False)
    return read(folder / "record")


def test_each_test_is_recorded_with_its_outcome_and_reason(tmp_path: Path) -> None:
    events = record_run(tmp_path)
    outcomes = {
        event["test"].partition("::")[2]: (event["outcome"], event.get("reason")) for event in events if "test" in event
    }
    assert outcomes == {
        "test_that_spins": ("passed", None),
        "test_that_fails": ("failed", None),
        "test_that_is_skipped": ("skipped", "needs a ship"),
        "test_whose_teardown_fails": ("failed", None),
    }
    assert outcome(events).splitlines() == ["skipped 1: needs a ship", "1 tests passed, 2 failed, 1 skipped"]


def test_a_fixtures_processor_time_is_told_apart_from_its_test(tmp_path: Path) -> None:
    events = record_run(tmp_path)
    (fixture,) = [event for event in events if event.get("fixture") == "spun"]
    (test,) = [event for event in events if event.get("test", "").endswith("test_that_spins")]
    assert 0 < fixture["cpu_s"] <= test["cpu_s"]
    assert "spun (function)" in slowest(events, 3)


def test_workers_record_their_own_tests_and_memory(tmp_path: Path) -> None:
    events = record_run(tmp_path, "-n", "2")
    tests = [event for event in events if "test" in event]
    assert len(tests) == 4
    assert {event["process"] for event in tests} <= {"gw0", "gw1"}
    if sys.platform == "linux":
        assert all(event["rss_mb"] > 1 for event in tests)


def test_a_run_that_a_test_starts_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "test_nested.py").write_text(
        textwrap.dedent(f"""
            import subprocess, sys

            def test_nested():
                asked = "import os; print({RECORD!r} in os.environ)"
                assert subprocess.check_output([sys.executable, "-c", asked]) == b"False\\n"
            """)
    )
    outcomes = {event["test"]: event["outcome"] for event in record_run(tmp_path) if "test" in event}
    assert outcomes["test_nested.py::test_nested"] == "passed"


def test_a_line_that_a_killed_worker_left_half_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "gw0-1.jsonl").write_text('{"test": "a::b", "outcome": "passed", "cpu_s": 1}\n{"test": "a::c", "outc')
    assert [event["test"] for event in read(tmp_path)] == ["a::b"]


def test_a_retried_test_counts_as_it_ended() -> None:
    events: list[Event] = [{"test": "a::b", "outcome": "failed"}, {"test": "a::b", "outcome": "passed"}]
    assert outcome(events) == "1 tests passed, 0 failed, 0 skipped"


def test_seconds_of_shards_leave_out_tests_that_a_pull_request_does() -> None:
    events: list[Event] = [
        {"test": "a.py::test_one", "cpu_s": 3.4},
        {"test": "a.py::test_two", "cpu_s": 1.2},
        {"test": "a.py::test_bound", "cpu_s": 60.0, "marks": ["timing"]},
        {"test": "b.py::test_short", "cpu_s": 0.3},
    ]
    assert seconds_of_shards(events) == {"a.py": 5}


def test_a_recorded_test_has_the_marks_by_which_a_pull_request_leaves_it_out(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(
        "import pytest\n@pytest.mark.timing\n@pytest.mark.heavy\ndef test_bound():\n    pass\n"
    )
    (marked,) = [
        event for event in record_run(tmp_path, "-W", "ignore") if event.get("test", "").endswith("test_bound")
    ]
    assert marked["marks"] == ["timing"]


def test_seconds_of_files_that_did_not_run_are_those_of_the_run_before_unless_the_file_is_gone(tmp_path: Path) -> None:
    earlier = tmp_path / "seconds.json"
    assert seconds_before(str(earlier)) == {}
    earlier.write_text(json.dumps({__file__: 3.0, str(tmp_path / "test_gone.py"): 4.0}))
    assert seconds_before(str(earlier)) == {__file__: 3.0}
    earlier.write_text("[")
    assert seconds_before(str(earlier)) == {}
