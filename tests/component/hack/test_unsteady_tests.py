"""Runs of `hack/test` in CI with tests that fail in parallel runs and pass alone."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def file_of_tests(folder: Path, *, fail: int, until: int) -> Path:
    """A file of four tests, of which `fail` fail in the first `until` runs."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    file = folder / "test_chance.py"
    file.write_text(
        textwrap.dedent(f"""
            import pathlib
            import pytest

            @pytest.mark.parametrize("number", range(4))
            def test_by_chance(number):
                tries = pathlib.Path(__file__).with_name(f"tries-{{number}}")
                tries.write_text("x" + (tries.read_text() if tries.exists() else ""))
                assert number >= {fail} or len(tries.read_text()) > {until}
            """)
    )
    return file


def run(file: Path, *, ci: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the tests in parallel, as CI does."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    surroundings["CI"] = "true" if ci else ""
    surroundings["FAIRLEAD_TEST_RECORD"] = str(file.parent)  # otherwise it would replace the record of this clone
    # loading every installed plugin takes most of the time of so small a run
    surroundings |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    words = ["hack/test", "-c", str(file.with_name("pytest.ini")), "-n", "2", "--dist", "worksteal", str(file)]
    return subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)


def tries(file: Path) -> list[int]:
    return [len(file.with_name(f"tries-{number}").read_text()) for number in range(4)]


def test_a_few_that_fail_once_are_tried_alone_and_named(tmp_path: Path) -> None:
    file = file_of_tests(tmp_path, fail=2, until=1)
    ended = run(file)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert tries(file) == [2, 2, 1, 1]
    told = ended.stderr[ended.stderr.index("UNSTEADY") :]
    assert "test_by_chance[0]" in told
    assert "test_by_chance[1]" in told
    assert "test_by_chance[2]" not in told


def test_a_test_that_fails_alone_too_fails_the_run(tmp_path: Path) -> None:
    file = file_of_tests(tmp_path, fail=1, until=2)
    ended = run(file)
    assert ended.returncode == 1
    assert tries(file) == [2, 1, 1, 1]
    assert "UNSTEADY" not in ended.stderr


def test_more_than_three_failed_tests_are_not_tried_again(tmp_path: Path) -> None:
    file = file_of_tests(tmp_path, fail=4, until=1)
    assert run(file).returncode == 1
    assert tries(file) == [1, 1, 1, 1]


def test_failed_tests_are_not_tried_again_outside_of_ci(tmp_path: Path) -> None:
    file = file_of_tests(tmp_path, fail=1, until=1)
    assert run(file, ci=False).returncode == 1
    assert tries(file) == [1, 1, 1, 1]
