"""`hack/shortcuts.py` reports each line that evades a limit of layout, and no other lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "hack" / "shortcuts.py"
LAYOUT = "take it out and let ruff lay the statement out"
TUPLE = "several attributes are assigned in one tuple; write a statement for each"


def run_check(folder: Path, name: str, text: str) -> tuple[int, list[str]]:
    """Exit code and printed lines of the program in a tree with this file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    ended = subprocess.run([sys.executable, PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


@pytest.mark.parametrize("comment", ["fmt: skip", "fmt:skip", "fmt: off"])
def test_comments_that_stop_the_formatter_are_findings_at_their_lines(tmp_path: Path, comment: str) -> None:
    text = f"SIZES = {{\n    1: 2, 3: 4,\n}}  # {comment}\n"
    assert run_check(tmp_path, "hack/sizes.py", text) == (1, [f'hack/sizes.py:3: "# {comment}"; {LAYOUT}'])


def test_a_text_about_a_formatter_comment_is_not_a_finding(tmp_path: Path) -> None:
    assert run_check(tmp_path, "crds/words.py", 'WORDS = "# fmt: skip"\n') == (0, [])


@pytest.mark.parametrize(
    "statement",
    [
        "self.host, self.port = host, port",
        "call.outcome, call.detail = 'wrong', str(result)",
        "last, self.total = now, len(rows)",
        "self.host, self.port = self.host or host, self.port or port",
    ],
)
def test_independent_values_in_one_tuple_are_a_finding(tmp_path: Path, statement: str) -> None:
    text = f"def take():\n    if ready:\n        {statement}\n"
    assert run_check(tmp_path, "gateway/a/b.py", text) == (1, [f"gateway/a/b.py:3: {TUPLE}"])


@pytest.mark.parametrize(
    "statement",
    [
        "task, self._task = self._task, None",
        "index, self._places = self._places, self._places + 1",
        "self._old, self._young = self._young, {}",
        "self.host, self.port = read_address(text)",
        "self.current, self.rule = pair",
        "host, port = parts.host, parts.port",
    ],
)
def test_exchanges_and_unpacked_values_pass(tmp_path: Path, statement: str) -> None:
    assert run_check(tmp_path, "operator/a.py", f"def take():\n    {statement}\n") == (0, [])
