"""Pages of docs/performance: the answer as a table first, the commands last, and nothing that nobody reads between."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "performance").glob("*.md"))
MOST_WORDS = 1_500


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_about_performance_answers_first_and_ends_with_its_commands(page: Path) -> None:
    text = page.read_text()
    answer, *_, last = text.split("\n## ")
    assert "\n|---" in answer, "the answer is a table before the first heading"
    assert last.startswith("Measure it\n"), "the commands are the last part"
    assert "```sh\nhack/bench " in last
    words = [word for word in text.split() if any(map(str.isalnum, word))]  # not the borders of tables
    assert len(words) <= MOST_WORDS, "say each decision in one line, with its figure"
