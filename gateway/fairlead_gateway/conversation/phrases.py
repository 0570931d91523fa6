"""Finds many phrases in a text in one pass; the text may be the incomplete transcript of speech.

Pure. Phrases are words, not regular expressions. The search uses RE2, which takes time linear in the length of the text
whatever the phrases are. Case, the composition of accents and punctuation are ignored; a `*` at the end of a word
matches any ending.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations
from typing import Any, Final, Generic, TypeVar

import re2

Meaning = TypeVar("Meaning")

MIN_STEM_LETTERS: Final = 3
"""Minimum number of letters before a `*`; a shorter stem would match too many words."""
MAX_MEMORY_BYTES: Final = 1 << 26
"""Maximum number of bytes of RE2's automaton, which searches for hundreds of phrases at once."""
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


def normalize(text: str) -> str:
    """Normalize a text for comparison: lower-case words separated by blanks, in Unicode NFKC."""
    if text.isascii():
        return text.translate(_blanks(_ASCII)).lower()
    return unicodedata.normalize("NFKC", text).translate(_blanks(_BASIC_PLANE)).casefold()


def drop_last_word(text: str) -> str:
    """Cut the last word off a partial transcript, because the word may be incomplete."""
    end = len(text)
    while end and text[end - 1].isalnum():
        end -= 1
    return text[:end]


class Phrases(Generic[Meaning]):
    """Compiled phrases with their meanings, created once per rules document."""

    def __init__(self, phrases: Iterable[tuple[str, Meaning]]) -> None:
        """Compile the phrases. Raises ValueError for a phrase without words or with a stem that is too short."""
        self._phrases = sorted(phrases, key=lambda pair: (-len(pair[0]), pair[0]))
        self._longer = _longer(self._phrases)
        self._patterns = [f"(?:^| ){expression(phrase)}(?:$| )".encode() for phrase, _ in self._phrases]
        self._compiled_patterns: dict[int, Any] = {}  # compiled on demand, because few are needed and each takes 5 kB
        self._pattern_set = re2.Set.SearchSet(_options())
        for pattern in self._patterns:
            self._pattern_set.Add(pattern)
        self._pattern_set.Compile()

    def find(self, text: str) -> list[tuple[str, Meaning]]:
        """Phrases that occur in a normalized text, with their meanings, the longest first.

        A phrase is left out if each of its occurrences is only the beginning of a longer phrase with another meaning.
        """
        matches = sorted(self._pattern_set.Match(text) or ()) if self._phrases else []
        return [self._phrases[index] for index in matches if not self._is_covered(index, matches, text)]

    def last(self, text: str, phrases: Collection[str]) -> str:
        """The phrase whose last occurrence in the text begins last; `phrases` all occur in the text."""
        indexes = {phrase: index for index, (phrase, _) in enumerate(self._phrases)}
        return max(phrases, key=lambda phrase: max(self._starts(indexes[phrase], text.encode()), default=-1))

    def _is_covered(self, index: int, matches: Sequence[int], text: str) -> bool:
        """Whether a longer phrase with another meaning begins at each position of a phrase in the text."""
        longer_phrases = [other for other in self._longer.get(index, ()) if other in matches]
        if not longer_phrases:
            return False
        data = text.encode()
        covered_positions = {start for other in longer_phrases for start in self._starts(other, data)}
        return all(start in covered_positions for start in self._starts(index, data))

    def _starts(self, index: int, text: bytes) -> Iterator[int]:
        """Positions of a phrase in the text: of the blank before the phrase, or 0 at the start of the text."""
        position, pattern = 0, self._pattern(index)
        while (match := pattern.search(text, position)) is not None:
            yield match.start()
            position = match.end() - 1  # the blank after a phrase may be the blank before the next phrase
            if position <= match.start():
                return

    def _pattern(self, index: int) -> Any:
        """Compiled expression of one phrase."""
        pattern = self._compiled_patterns.get(index)
        if pattern is None:
            pattern = self._compiled_patterns[index] = re2.compile(self._patterns[index])
        return pattern


def _longer(phrases: Sequence[tuple[str, Meaning]]) -> dict[int, list[int]]:
    """Map the index of a phrase to the indexes of longer phrases that begin with its words and have another meaning."""
    indexes_by_stem: dict[str, list[int]] = {}
    texts = [" ".join(normalize(phrase).split()) for phrase, _ in phrases]
    for index, text in enumerate(texts):
        indexes_by_stem.setdefault(text[:MIN_STEM_LETTERS], []).append(index)
    longer_phrases: dict[int, list[int]] = {}
    for indexes in indexes_by_stem.values():
        for index, other in permutations(indexes, 2):
            is_longer = len(texts[other]) > len(texts[index]) and texts[other].startswith(texts[index])
            if is_longer and phrases[other][1] != phrases[index][1]:
                longer_phrases.setdefault(index, []).append(other)
    return longer_phrases


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    return options


def expression(phrase: str) -> str:
    """Regular expression of a phrase. Raises ValueError, whose message names the phrase."""
    patterns = []
    for word in phrase.split():
        stem = normalize(word).replace(" ", "")
        if word.endswith("*") and len(stem) < MIN_STEM_LETTERS:
            raise ValueError(f"phrase {phrase!r}: at least {MIN_STEM_LETTERS} letters have to precede a *")
        if stem:
            patterns.append(re2.escape(stem) + ("[^ ]*" if word.endswith("*") else ""))
    if not patterns:
        raise ValueError(f"phrase {phrase!r} has no words")
    return " +".join(patterns)
