"""Finding many phrases in a text that is still growing, all of them in one pass, however many there are.

Pure. Phrases are words, never expressions of their own, and the search is RE2's, which cannot be made slow by any text
or phrase. Case, the composition of accents and what stands between words do not count; a `*` at the end of a word
stands for any ending.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations
from typing import Any, Final, Generic, TypeVar

import re2

Meaning = TypeVar("Meaning")

SHORTEST_STEM: Final = 3
"""Letters in front of a `*`: a stem shorter than that would stand for everything."""
MOST_MEMORY: Final = 1 << 26
"""Bytes for the states of a search for hundreds of phrases at once."""
_APOSTROPHES: Final = "'’"
_ASCII: Final = 128
_BASIC_PLANE: Final = 0x10000


@cache
def _blanks(codes: int) -> dict[int, str | None]:
    """Replacements of the code points below `codes` that are not part of a word."""
    return {
        code: None if chr(code) in _APOSTROPHES else " "
        for code in range(codes)
        if unicodedata.category(chr(code))[0] in "PSZC"
    }


def normal(text: str) -> str:
    """A text in the form in which it is compared: lower-case words with blanks between them (Unicode NFKC)."""
    if text.isascii():
        return text.translate(_blanks(_ASCII)).lower()
    return unicodedata.normalize("NFKC", text).translate(_blanks(_BASIC_PLANE)).casefold()


def settle(text: str) -> str:
    """A partial transcript without its last word, which may still be growing."""
    end = len(text)
    while end and text[end - 1].isalnum():
        end -= 1
    return text[:end]


class Phrases(Generic[Meaning]):
    """Phrases with what they stand for, compiled once per rules document."""

    def __init__(self, phrases: Iterable[tuple[str, Meaning]]) -> None:
        """A phrase without a word, or with a stem that is too short, raises ValueError, which names it."""
        self._phrases = sorted(phrases, key=lambda pair: (-len(pair[0]), pair[0]))
        self._longer = _longer(self._phrases)
        self._patterns = [f"(?:^| ){expression(phrase)}(?:$| )".encode() for phrase, _ in self._phrases]
        self._compiled: dict[int, Any] = {}  # on demand: few are ever looked for alone, and each takes 5 kB
        self._all = re2.Set.SearchSet(_options())
        for pattern in self._patterns:
            self._all.Add(pattern)
        self._all.Compile()

    def find(self, text: str) -> list[tuple[str, Meaning]]:
        """The phrases in a `normal` text, as they were given and what they stand for, the longest first. One does not
        count where a longer one, which begins with its words, begins.
        """
        matches = sorted(self._all.Match(text) or ()) if self._phrases else []
        return [self._phrases[index] for index in matches if not self._is_covered(index, matches, text)]

    def last(self, text: str, phrases: Collection[str]) -> str:
        """The phrase that begins last in a text, among some that are in it."""
        indexes = {phrase: index for index, (phrase, _) in enumerate(self._phrases)}
        return max(phrases, key=lambda phrase: max(self._starts(indexes[phrase], text.encode()), default=-1))

    def _is_covered(self, index: int, matches: Sequence[int], text: str) -> bool:
        """Whether a longer phrase that stands for something else begins wherever this one does."""
        longer = [other for other in self._longer.get(index, ()) if other in matches]
        if not longer:
            return False
        data = text.encode()
        begun = {start for other in longer for start in self._starts(other, data)}
        return all(start in begun for start in self._starts(index, data))

    def _starts(self, index: int, text: bytes) -> Iterator[int]:
        """Where a phrase begins: at its blank, or at the begin of the text."""
        at, single = 0, self._single(index)
        while (match := single.search(text, at)) is not None:
            yield match.start()
            at = match.end() - 1  # the blank behind a phrase may stand in front of the next
            if at <= match.start():
                return

    def _single(self, index: int) -> Any:
        """The search for one phrase alone."""
        pattern = self._compiled.get(index)
        if pattern is None:
            pattern = self._compiled[index] = re2.compile(self._patterns[index])
        return pattern


def _longer(phrases: Sequence[tuple[str, Meaning]]) -> dict[int, list[int]]:
    """Place of a phrase to those of longer ones that begin with its words and stand for something else."""
    alike: dict[str, list[int]] = {}
    texts = [" ".join(normal(phrase).split()) for phrase, _ in phrases]
    for index, text in enumerate(texts):
        alike.setdefault(text[:SHORTEST_STEM], []).append(index)
    longer_ones: dict[int, list[int]] = {}
    for places in alike.values():
        for index, other in permutations(places, 2):
            longer = len(texts[other]) > len(texts[index]) and texts[other].startswith(texts[index])
            if longer and phrases[other][1] != phrases[index][1]:
                longer_ones.setdefault(index, []).append(other)
    return longer_ones


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    return options


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
