"""The threat model names a test for every boundary, and the tests exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "gateway" / "THREATS.md").read_text("utf-8")
_TEST = re.compile(r"`(tests/[\w/]+\.py)`")


def rows() -> list[str]:
    """Of the tables about boundaries."""
    text = PAGE.partition("## Boundaries")[2].partition("## Where servers may be")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| what crosses")]


def test_every_boundary_names_the_test_that_holds_it() -> None:
    assert len(rows()) > 25
    assert [row for row in rows() if not _TEST.findall(row.rpartition("|")[0].rpartition("|")[2])] == []


def test_every_named_test_exists_and_tests_something() -> None:
    named = set(_TEST.findall(PAGE))
    missing = sorted(name for name in named if not (ROOT / name).is_file())
    assert missing == []
    assert [
        name for name in sorted(named) if not re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.M)
    ] == []
