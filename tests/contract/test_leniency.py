"""Each leniency on the page has a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-it-works/leniency.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "::" in line]


def test_every_row_of_the_page_on_leniency_names_a_test() -> None:
    tables = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| the ")]
    assert len(ROWS) == len(tables) >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_the_test_of_a_leniency_exists(row: list[str]) -> None:
    file, _, name = row[-1].strip("` |").partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)
