"""Workers of xdist that are forked from one process, which has imported the test modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import forkedworkers

SUPPORT = Path(forkedworkers.__file__).parent
IMPORTED = "import os, pathlib\nwith open('imports', 'a') as file: print(__name__, file=file)\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(
        "import forkedworkers\n"
        "def pytest_xdist_setupnodes(config, specs):\n"
        "    forkedworkers.fork_workers(config, specs)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -ra\n")
    (tmp_path / "test_sums.py").write_text(
        f"{IMPORTED}\ndef test_right(): assert __file__.startswith(os.getcwd())\ndef test_wrong(): assert 1 + 1 == 3\n"
    )
    return tmp_path


def run(tree: Path, *words: str, **more: str) -> tuple[int, str]:
    """Exit code and standard output of pytest with two workers."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", *forkedworkers.NEVER))
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin", "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, "-m", "pytest", "-n", "2", *words, "."]
    done = subprocess.run(
        command, cwd=tree, env={**environment, **more}, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def imports(tree: Path, module: str) -> int:
    """How often a test module was imported."""
    return (tree / "imports").read_text().splitlines().count(module)


def test_all_workers_share_one_import_of_a_module_with_its_rewritten_assertions(tree: Path) -> None:
    code, out = run(tree, "test_sums.py::test_right")
    assert code == 1, out
    assert "1 failed, 1 passed" in out
    assert "ERROR" not in out
    assert "assert (1 + 1) == 3" in out
    assert imports(tree, "test_sums") == 1


def test_a_stream_that_a_module_keeps_as_it_is_imported_is_open_in_workers(tree: Path) -> None:
    """As the stdio client of MCP's SDK keeps `sys.stderr` for its servers."""
    (tree / "test_sums.py").write_text(
        f"{IMPORTED}import subprocess, sys\nSTREAM = sys.stderr\n"
        "def test_stream(): subprocess.run(['true'], check=True, stderr=STREAM)\n"
    )
    code, out = run(tree)
    assert code == 0, out
    assert imports(tree, "test_sums") == 1


def test_a_module_that_cannot_be_imported_is_reported_by_the_workers(tree: Path) -> None:
    (tree / "test_broken.py").write_text(f"{IMPORTED}\ndef test_lost(): pass\nraise RuntimeError('torn')\n")
    (tree / "test_needy.py").write_text("import pytest\ndef test_lost(): pass\npytest.importorskip('no_such_module')\n")
    code, out = run(tree, "--continue-on-collection-errors")
    assert code == 1, out
    assert "RuntimeError: torn" in out
    assert "1 failed, 1 passed, 1 skipped, " in out
    assert "test_lost" not in out
    assert imports(tree, "test_broken") == 3


def test_a_worker_that_crashes_is_reported_and_replaced(tree: Path) -> None:
    (tree / "test_crash.py").write_text("import os\ndef test_crash(): os.kill(os.getpid(), 9)\n")
    code, out = run(tree)
    assert code == 1, out
    assert "crashed while running 'test_crash.py::test_crash'" in out
    assert "2 failed, 1 passed" in out


@pytest.mark.parametrize("variable", ["COVERAGE_PROCESS_CONFIG_", "FAIRLEAD_TEST_NIGHTLY"])
def test_by_night_and_with_coverage_each_worker_imports_by_itself(tree: Path, variable: str) -> None:
    code, out = run(tree, **{variable: "yes"})
    assert code == 1, out
    assert "1 failed, 1 passed" in out
    assert imports(tree, "test_sums") == 2


def test_workers_are_interpreters_where_the_template_fails(tree: Path) -> None:
    (tree / "conftest.py").write_text(
        (tree / "conftest.py").read_text() + "import sys, os\nif 'template' in sys.argv: os._exit(1)\n"
    )
    code, out = run(tree)
    assert code == 1, out
    assert "1 failed, 1 passed" in out
    assert imports(tree, "test_sums") == 2
