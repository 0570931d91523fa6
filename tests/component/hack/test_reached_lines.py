"""Lines and branches that tests reach at a merge, and those that only nightly tests reach."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reached_lines import missing_lines

ROOT = Path(__file__).resolve().parents[3]


def test_lines_that_are_not_reached_any_more_are_named_and_branches_between_those_that_are() -> None:
    before = {"a.py": {(-1, 1), (1, 2), (1, 3), (2, 3), (3, -1), (3, 9)}}
    after = {"a.py": {(-1, 1), (1, 2), (2, 3), (3, -1)}}
    assert dict(missing_lines(before, after)) == {"a.py": ["9", "1->3"]}
    assert dict(missing_lines(after, before)) == {}


def test_a_run_by_scopes_tells_what_only_the_night_reaches(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text("def f(night):\n    if night:\n        return 1\n    return 2\n")
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['coverage_contexts']\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly\n")
    (tmp_path / "test_product.py").write_text(
        "import product, pytest\ndef test_merge(): product.f(False)\n"
        "@pytest.mark.nightly\ndef test_night(): product.f(True)\n"
    )
    (tmp_path / ".coveragerc").write_text("[run]\nbranch = True\ninclude = */product.py\n")
    ran = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {
        "PYTHONPATH": f"{ROOT / 'tests' / 'support'}:{tmp_path}",
        "FAIRLEAD_COVERAGE_CONTEXTS": "scopes",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    subprocess.run(ran, cwd=tmp_path, env=environment, check=True, capture_output=True)
    script = (
        "import reached_lines, sys, pathlib; reached_lines.ROOT = pathlib.Path.cwd();"
        "sys.exit(reached_lines.main('keep', '.coverage', 'reach.json'))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert told.stdout == "Reached by night alone: 1 lines and branches in 1 files\n  product.py: 3\n"
