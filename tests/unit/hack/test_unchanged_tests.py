"""The test files that a merge leaves out because nothing that decides them has changed since they passed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affected_tests import ROOT, module_of
from unchanged_tests import CANDIDATES, READS, imported_files, main, state, unchanged, wholly_passed

TEST = Path("tests/chart/test_renders.py")
STARTING = {"commands", "forkserver", "gatewayprocess", "operatorprocess", "upprocess"}
"""Support modules that start the product in a process, whose imports are not those of the test."""
TREE = {
    TEST: "from world import render",
    Path("tests/support/world.py"): "def render():\n    from pack.sub import core",
    Path("gateway/pack/__init__.py"): "",
    Path("gateway/pack/sub/__init__.py"): "",
    Path("gateway/pack/sub/core.py"): "ONE = 1",
    Path("gateway/pack/other.py"): "",
    Path("gateway/pack/table.json"): "{}",
    Path("charts/fairlead/values.yaml"): "a: 1",
    Path("docs/page.md"): "A page.",
    Path("pyproject.toml"): "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for file, text in TREE.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "decides"),
    [
        (TEST, True),
        (Path("tests/support/world.py"), True),
        (Path("gateway/pack/sub/core.py"), True),
        (Path("gateway/pack/sub/__init__.py"), True),
        (Path("gateway/pack/table.json"), True),
        (Path("charts/fairlead/values.yaml"), True),
        (Path("charts/fairlead/templates/new.yaml"), True),
        (Path("pyproject.toml"), True),
        (Path("gateway/pack/other.py"), False),
        (Path("docs/page.md"), False),
    ],
    ids=str,
)
def test_a_test_file_is_decided_by_what_it_imports_and_reads(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, file: Path, decides: bool
) -> None:
    changed = tmp_path_factory.mktemp("changed")
    for each, text in {**TREE, file: TREE.get(file, "") + "\n# changed"}.items():
        (changed / each).parent.mkdir(parents=True, exist_ok=True)
        (changed / each).write_text(text)
    assert (state(TEST, root=tree) != state(TEST, root=changed)) == decides


def test_a_test_file_is_decided_by_its_environment(tree: Path) -> None:
    assert state(TEST, "helm 3", root=tree) != state(TEST, "helm 4", root=tree)


def test_a_file_that_has_changed_or_never_passed_is_not_left_out() -> None:
    states = {"tests/a.py": "1", "tests/b.py": "2", "tests/c.py": "3"}
    assert unchanged(states, {"tests/a.py": "1", "tests/b.py": "1"}) == ["tests/a.py"]


def test_a_file_with_a_test_that_failed_or_was_skipped_has_not_passed() -> None:
    outcomes = [("a", "passed"), ("a", "passed"), ("b", "passed"), ("b", "skipped"), ("c", "failed"), ("c", "passed")]
    events = [{"test": f"tests/test_{name}.py::test", "outcome": outcome} for name, outcome in outcomes]
    assert wholly_passed([*events, {"fixture": "x"}]) == {"tests/test_a.py"}


def test_files_that_passed_are_left_out_by_the_next_run_and_their_neighbors_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states, passed, record = tmp_path / "states", tmp_path / "passed.json", tmp_path / "record"
    record.mkdir()
    ran = {"test": "tests/chart/test_rights.py::test_it", "outcome": "passed"}
    (record / "main.jsonl").write_text(json.dumps(ran) + "\n")
    main("list", states, passed)
    assert capsys.readouterr().out == ""
    main("keep", states, passed, str(record))
    main("list", states, passed)
    assert capsys.readouterr().out == "tests/chart/test_rights.py\n"


def test_no_candidate_starts_the_product_in_a_process_of_its_own() -> None:
    for folder in CANDIDATES:
        for file in (ROOT / folder).glob("test_*.py"):
            imported = {module_of(each) for each in imported_files(file.relative_to(ROOT))}
            assert imported.isdisjoint(STARTING), file


def test_every_path_that_candidates_read_exists() -> None:
    assert [path for paths in READS.values() for path in paths if not (ROOT / path).exists()] == []
    assert [test for test in READS if not (ROOT / test).exists()] == []
