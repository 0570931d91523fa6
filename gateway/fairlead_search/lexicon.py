"""Related words for searching tools, so that "erase a folder" finds `delete_directory` without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from fairlead_search.text import singular

RELATED_WEIGHT: Final = 0.5
"""Fraction of a term's score that a tool gets if it has only a related word, not the term."""


@cache
def lexicon() -> Mapping[str, frozenset[str]]:
    """Related terms for searching tools, by term, from `lexicon.txt`."""
    return related_terms(_groups("lexicon.txt"))


@cache
def synonyms() -> Mapping[str, frozenset[str]]:
    """Related terms for searching results, by term, from `lexicon.txt` and `synonyms.txt`."""
    tools, results = lexicon(), related_terms(_groups("synonyms.txt"))
    return {
        term: tools.get(term, frozenset()) | results.get(term, frozenset()) for term in tools.keys() | results.keys()
    }


def _groups(name: str) -> list[str]:
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def related_terms(groups: Iterable[str]) -> dict[str, frozenset[str]]:
    """Related terms by term, from groups of words separated by spaces. A word is not related to itself."""
    related_words: dict[str, set[str]] = {}
    for group in groups:
        words = {singular(word) for word in group.split()}
        for word in words:
            related_words.setdefault(word, set()).update(words)
    return {word: frozenset(others - {word}) for word, others in related_words.items()}
