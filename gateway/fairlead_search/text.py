"""Splits names, descriptions and queries into terms. Pure module.

Identifiers are split at changes of case, digits, `_` and `-`. Plurals are converted to singulars. Texts in Chinese,
Japanese and Korean, which have no spaces, are split into single characters and pairs of adjacent characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_CHARACTERS: Final = 32_768
"""Maximum number of characters of a text that are read; the rest of a longer description is ignored."""
MAX_TERM: Final = 64
"""Maximum number of characters of a term; longer words are considered data, and are ignored."""

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_PIECE: Final = re.compile(rf"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_{_CJK}]+|[A-Z]+|\d+|(?P<cjk>[{_CJK}]+)")
CJK: Final = re.compile(f"[{_CJK}]+")

REQUEST_WORDS: Final = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "give",
        "help",
        "how",
        "i",
        "in",
        "is",
        "it",
        "let",
        "me",
        "my",
        "need",
        "of",
        "on",
        "or",
        "our",
        "please",
        "show",
        "that",
        "the",
        "this",
        "to",
        "us",
        "want",
        "we",
        "what",
        "which",
        "will",
        "with",
        "would",
        "you",
        "your",
    }
)
"""Stop words of requests for a tool. They are removed from queries, but not from the texts of tools."""
QUESTION_WORDS: Final = REQUEST_WORDS | {
    "about",
    "after",
    "all",
    "already",
    "also",
    "another",
    "any",
    "anybody",
    "at",
    "before",
    "between",
    "but",
    "did",
    "each",
    "either",
    "ever",
    "every",
    "first",
    "further",
    "get",
    "given",
    "go",
    "got",
    "ha",
    "had",
    "have",
    "he",
    "her",
    "him",
    "his",
    "if",
    "into",
    "it",
    "its",
    "just",
    "last",
    "like",
    "long",
    "made",
    "make",
    "many",
    "may",
    "might",
    "more",
    "most",
    "much",
    "must",
    "never",
    "no",
    "none",
    "nor",
    "not",
    "nothing",
    "off",
    "often",
    "old",
    "once",
    "one",
    "only",
    "other",
    "out",
    "over",
    "own",
    "per",
    "say",
    "see",
    "should",
    "since",
    "so",
    "some",
    "somebody",
    "something",
    "still",
    "such",
    "take",
    "tell",
    "than",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "those",
    "though",
    "through",
    "thus",
    "till",
    "too",
    "under",
    "until",
    "up",
    "upon",
    "use",
    "used",
    "very",
    "wa",
    "were",
    "when",
    "where",
    "whether",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "within",
    "without",
}
"""Stop words of questions about a result."""


def terms(text: str) -> Iterator[str]:
    """Terms of a text in order, in lower case and with at most `MAX_TERM` characters."""
    for match in _PIECE.finditer(text, 0, MAX_CHARACTERS):
        piece = match.group()
        if match.lastgroup is not None:
            yield from piece
            yield from (piece[start : start + 2] for start in range(len(piece) - 1))
        elif len(piece) <= MAX_TERM:
            yield singular(piece.lower())


def words(text: str) -> Iterator[str]:
    """Words of an identifier in order, in lower case; Chinese, Japanese and Korean texts are not split."""
    for match in _PIECE.finditer(text, 0, MAX_CHARACTERS):
        yield match.group().lower()


def query_terms(query: str) -> tuple[str, ...]:
    """Distinct terms of a query without `REQUEST_WORDS`; all terms if the query consists of such words only."""
    unique = dict.fromkeys(terms(query))
    return tuple(term for term in unique if term not in REQUEST_WORDS) or tuple(unique)


def singular(word: str) -> str:
    """Singular of a regular English plural; other words are returned unchanged."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith("sses"):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
