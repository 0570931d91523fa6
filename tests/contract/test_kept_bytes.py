"""The endpoint's page names a limit and an existing test for all stored data of peers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-it-works/endpoint.md").read_text("utf-8")
_TEST = re.compile(r"\| `(tests/[\w/]+\.py)::(test_\w+)` \|$")


def rows() -> list[str]:
    table = PAGE.partition("## What is kept of what others send")[2]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_place_has_a_bound_and_a_test_that_exists() -> None:
    assert len(rows()) > 30
    assert [row for row in rows() if not _is_tested(row)] == []


def _is_tested(row: str) -> bool:
    match = _TEST.search(row)
    file = None if match is None else ROOT / match[1]
    if match is None or file is None or not file.is_file():
        return False
    return re.search(rf"^(async )?def {match[2]}\(", file.read_text("utf-8"), re.M) is not None


def test_every_row_says_how_many_bytes_or_where_that_is_set() -> None:
    bounds = [row.split(" | ")[1] for row in rows()]
    assert [
        bound for bound in bounds if not re.search(r"\d|FAIRLEAD_|nothing|same|bytes|halves|size|last", bound)
    ] == []
