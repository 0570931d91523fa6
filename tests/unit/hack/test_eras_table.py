"""The table of guarantees between the eras names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "how-it-works" / "eras.md"


def test_every_row_of_the_table_names_tests_that_exist() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| what")]
    named = [re.findall(r"`(test_\w+\.py)::(test_\w+)`", row) for row in rows]
    assert len(rows) > 20
    assert all(named), "each row names one"
    for file, test in {test_row for row in named for test_row in row}:
        files = [path for path in (ROOT / "tests").rglob(file) if f"def {test}(" in path.read_text()]
        assert files, f"{file} has no {test}"
