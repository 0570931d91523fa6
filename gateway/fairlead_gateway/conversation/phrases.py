"""Finding many phrases in a text that is still growing, in one pass and in time that depends on its length alone.

Pure. Phrases are words, never expressions of their own, and the search is RE2's, which cannot be made slow by any text
or phrase. Case, the composition of accents and what stands between words do not count; a `*` at the end of a word
stands for any ending.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

import re2

Meaning = TypeVar("Meaning")

SHORTEST_STEM: Final = 3
"""Letters in front of a `*`: a stem shorter than that would stand for everything."""
_APOSTROPHES: Final = "'’"
_BLANK: Final = {
    code: None if chr(code) in _APOSTROPHES else " "
    for code in range(0x10000)
    if unicodedata.category(chr(code))[0] in "PSZC"
}
_ASCII_BLANK: Final = {code: blank for code, blank in _BLANK.items() if code < 128}


def normal(text: str) -> str:
    """A text in the form in which it is compared: lower-case words with blanks between them (Unicode NFKC)."""
    if text.isascii():
        return text.translate(_ASCII_BLANK).lower()
    return unicodedata.normalize("NFKC", text).translate(_BLANK).casefold()


def settled(text: str) -> str:
    """A partial transcript without its last word, which may still be growing."""
    end = len(text)
    while end and text[end - 1].isalnum():
        end -= 1
    return text[:end]


class Phrases(Generic[Meaning]):
    """Phrases with what they stand for, compiled once. Of several that begin at one word, the longest counts."""

    def __init__(self, phrases: Iterable[tuple[str, Meaning]]) -> None:
        """A phrase without a word, or with a stem that is too short, raises ValueError, which names it."""
        longest_first = sorted(phrases, key=lambda pair: (-len(pair[0]), pair[0]))
        expressions = [expression(phrase) for phrase, _ in longest_first]
        self._search = re2.compile(f"(?:^| )(?:{'|'.join(expressions)})(?:$| )") if expressions else None
        self._singles = [(re2.compile(found), *pair) for found, pair in zip(expressions, longest_first, strict=True)]

    def find(self, text: str) -> Iterator[tuple[str, Meaning]]:
        """The phrases in a `normal` text, in their order, as they were given and what they stand for."""
        at = 0
        while self._search is not None and (match := self._search.search(text, at)) is not None:
            found = match.group().strip(" ")
            yield next((phrase, meaning) for single, phrase, meaning in self._singles if single.fullmatch(found))
            at = match.end() - 1  # the blank behind a phrase may stand in front of the next
            if at <= match.start():
                return


def expression(phrase: str) -> str:
    """The expression of a phrase. Raises ValueError, which names it."""
    parts = []
    for word in phrase.split():
        stem = normal(word).replace(" ", "")
        if word.endswith("*") and len(stem) < SHORTEST_STEM:
            raise ValueError(f"{phrase!r}: at least {SHORTEST_STEM} letters have to stand in front of a *")
        if stem:
            parts.append(re2.escape(stem) + ("[^ ]*" if word.endswith("*") else ""))
    if not parts:
        raise ValueError(f"{phrase!r} has no word in it")
    return " +".join(parts)
