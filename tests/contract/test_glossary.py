"""The glossary stays short, and each name of code in it has one meaning."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "docs" / "reference" / "glossary.md").read_text("utf-8").splitlines()
ENTRY = re.compile(r"- \*\*([^*]+)\*\*: (.+)\.")
ENTRIES = {entry[1]: entry[2] for line in LINES if (entry := ENTRY.fullmatch(line))}
CODE = "\n".join(
    path.read_text("utf-8")
    for folder in ("crds", "operator", "gateway")
    for path in sorted((ROOT / folder).rglob("*.py"))
)
CLASSES = Counter(re.findall(r"^class (\w+)", CODE, re.MULTILINE))
NAMES = sorted({name for sentence in ENTRIES.values() for name in re.findall(r"`([^`]+)`", sentence)})


def test_the_glossary_has_forty_terms_at_most_each_with_one_sentence() -> None:
    assert sum(line.startswith("- ") for line in LINES) == len(ENTRIES) <= 40
    prose = {term: re.sub(r" \(\[.*?\]\(.*?\)\)", "", sentence) for term, sentence in ENTRIES.items()}
    assert [term for term, sentence in prose.items() if ". " in sentence] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_code_in_it_exists_and_a_class_once(name: str) -> None:
    assert name in CODE
    if re.fullmatch(r"([A-Z][a-z]+)+", name) and name != "PerClient":
        assert CLASSES[name] == 1, "a term of the glossary is the name of one class in the tree"
