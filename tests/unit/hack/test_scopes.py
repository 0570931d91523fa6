"""Tests that `hack/test` runs for a pull request, for a merge and at night, and the form of the call path that they
use.

The real verb runs in a repository whose Python and compilers only record their commands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATH_OF_A_CALL = (
    "tests/unit/mcp",
    "tests/unit/gateway",
    "tests/component/mcp",
    "tests/component/gateway",
    "tests/fuzz",
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    programs = {
        ".venv/bin/pytest": "exit 0",
        ".venv/bin/python": f"""echo "${{PYTHONPATH:+compiled }}${{KUBEBUILDER_ASSETS##*/}} $*" >>{tmp_path}/notes
            case $* in
              *-c*lastfailed) echo tests/unit/test_sizes.py::test_by_chance ;;
              *--last-failed*) ;;
              *'-m unchanged_tests list'*) touch "$4"; echo tests/chart/test_images.py ;;
              *'-m pytest'*'not timing'*) [ ! -e {tmp_path}/failing ] || exit 2; [ ! -e {tmp_path}/unsteady ] ;;
            esac""",
        "hack/compile": f"[ ! -e {tmp_path}/broken ] && echo {tmp_path}/.compiled",
        "hack/kubernetes/assets": '[ "$1" = --oldest ] && echo /planes/old/oldest || echo /planes/newest',
        "hack/litellm": "exit 1",
        "hack/setup": f'echo "$*" >>{tmp_path}/setups',
    }
    for name, body in programs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "cache" / "fairlead").mkdir(parents=True)
    for name, mark in (("bounds", "timing"), ("sizes", "heavy")):
        (tmp_path / "tests" / "unit").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / "unit" / f"test_{name}.py").write_text(f"@pytest.mark.{mark}\n")
    for name in ("test", "env.sh", "with_progress.sh"):
        shutil.copy(ROOT / "hack" / name, tmp_path / "hack" / name)
    return tmp_path


def runs(repository: Path, *words: str, code: int = 0) -> list[str]:
    """Runs of pytest: the form of the call path, the API server, and pytest's arguments."""
    (repository / "notes").write_text("")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "KUBE", "CI", "FAIRLEAD_TEST"))
    }
    environment["XDG_CACHE_HOME"] = str(repository / "cache")  # a complete run stores its duration here
    command = [str(repository / "hack" / "test"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code, done.stderr
    lines = (repository / "notes").read_text().splitlines()
    others = (" -m run_record ", " -m client_environments", " -m unchanged_tests ")
    return [line for line in lines if not any(word in line for word in others)]


def test_a_run_of_everything_sets_the_whole_machine_up_and_one_of_some_tests_the_environment(repository: Path) -> None:
    runs(repository, "tests/unit")
    runs(repository, "--scope", "pr")
    runs(repository)
    assert (repository / "setups").read_text().splitlines() == ["environment", "", ""]


def test_a_pull_request_is_answered_by_one_compiled_run_without_packages_and_chaos(repository: Path) -> None:
    (only,) = runs(repository, "--scope", "pr")
    assert only.startswith("compiled newest -m pytest")
    assert "-m not e2e and not nightly and not network and not chaos and not timing" in only
    assert only.endswith("--dist worksteal tests")


def test_scope_merge_runs_each_test_once_with_the_path_of_a_call_compiled(repository: Path) -> None:
    others, path, oldest = runs(repository, "--scope", "merge")
    assert path.startswith("compiled newest ")
    assert path.endswith(" ".join(PATH_OF_A_CALL))
    assert others.startswith("newest ")
    left_out = [*PATH_OF_A_CALL, "tests/chart/test_images.py"]
    assert others.endswith(" ".join(f"--ignore={path}" for path in left_out))
    assert all("-m not e2e and not nightly and not timing" in run for run in (path, others))
    assert oldest.startswith("oldest ")


@pytest.mark.parametrize("scope", [("--scope", "nightly"), ("--scope", "pr"), ()], ids=["nightly", "pr", "everything"])
def test_a_merge_alone_leaves_out_what_has_passed_on_this_machine(repository: Path, scope: tuple[str, ...]) -> None:
    assert not any("test_images" in run for run in runs(repository, *scope))
    assert "unchanged_tests" not in (repository / "notes").read_text()


def test_a_merge_that_fails_keeps_no_states_of_files_that_passed(repository: Path) -> None:
    runs(repository, "--scope", "merge")
    assert "unchanged_tests keep" in (repository / "notes").read_text()
    (repository / "failing").touch()
    runs(repository, "--scope", "merge", code=2)
    assert "unchanged_tests keep" not in (repository / "notes").read_text()


def test_a_bound_of_time_is_marked_where_it_is_looked_for() -> None:
    """`hack/test` looks for the mark only in test files."""
    elsewhere = [ROOT / "tests" / "conftest.py", *(ROOT / "tests" / "support").rglob("*.py")]
    assert [str(file) for file in elsewhere if "mark.timing" in file.read_text()] == []


def test_scope_nightly_runs_everything_in_the_form_that_is_asked_for(repository: Path) -> None:
    for words, form in ((("--scope", "nightly"), "newest "), (("--compiled",), "compiled newest ")):
        beside, timed, _ = runs(repository, *words)
        assert beside.startswith(form)
        assert "-m not e2e and not timing" in beside
        assert "-m timing and not e2e" in timed
        assert timed.endswith(" tests/unit/test_bounds.py")


def test_scope_nightly_alone_makes_the_environments_of_clients(repository: Path) -> None:
    for words, makes in ((("--scope", "nightly"), 1), (("--scope", "pr"), 0), ((), 0)):
        runs(repository, *words)
        assert (repository / "notes").read_text().count(" -m client_environments") == makes


def test_a_folder_runs_side_by_side_and_a_file_or_a_debugger_alone(repository: Path) -> None:
    (folder,) = runs(repository, "tests/unit", "-k", "sse")
    assert folder.endswith("--dist worksteal tests/unit -k sse")
    for words in (["tests/unit/test_sizes.py"], ["tests/unit", "-n", "0"], ["tests/unit", "--pdb"]):
        (ran,) = runs(repository, *words)
        assert "--dist" not in ran


@pytest.mark.parametrize(("scope", "code"), [("merge", 0), ("nightly", 1)])
def test_a_test_that_passes_only_when_tried_once_more_fails_the_night_alone(
    repository: Path, scope: str, code: int
) -> None:
    (repository / "unsteady").touch()
    ran = runs(repository, "--scope", scope, code=code)
    assert sum("--last-failed " in run for run in ran) >= 1


def test_tests_do_not_run_where_the_compiled_path_does_not_compile(repository: Path) -> None:
    (repository / "broken").touch()
    assert runs(repository, "--scope", "pr", code=1) == []


def test_a_scope_that_is_not_known_is_refused(repository: Path) -> None:
    assert runs(repository, "--scope", "prr", code=2) == []
