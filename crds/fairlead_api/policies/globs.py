"""Globs over tool names. Pure.

`*` stands for any characters, none included, and `?` for exactly one; everything else is itself, in its own case. A
glob is about a whole name, never a part. There are no classes, no escapes and no separators: `/` and `.` are characters
like any other. Nothing back-tracks, so the time of a match grows with name and glob alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

_LAST: Final = chr(0x10FFFF)
_SEPARATOR: Final = "\0"
_MANY: Final = 8
"""Where more than one in so many names has the text that is looked for, they are looked at one by one."""
_ONE: Final = ord("1")
_FLAGS: Final = bytes(1 if code == _ONE else 0 for code in range(256))


class Glob:
    """One glob, taken apart: what a name begins with, what it ends with, and what comes in between in this order."""

    __slots__ = ("_any", "head", "middle", "pattern", "tail")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        first, *rest = pattern.split("*")
        self._any = bool(rest)
        self.head = first
        self.tail = rest.pop() if rest else ""
        self.middle = tuple(chunk for chunk in rest if chunk)

    @property
    def exact(self) -> bool:
        """Whether it matches one name."""
        return not self._any and "?" not in self.head

    @property
    def prefix(self) -> str:
        """What every name begins with that it matches."""
        return self.head.partition("?")[0]

    @property
    def only_prefix(self) -> bool:
        """Whether all names with that beginning match."""
        return self._any and not self.middle and not self.tail and "?" not in self.head

    @property
    def rarest(self) -> str:
        """The longest text that is in every name that it matches; may be empty."""
        return max((part for chunk in (self.head, *self.middle, self.tail) for part in chunk.split("?")), key=len)

    @property
    def simple(self) -> bool:
        """Whether it is a beginning, a text somewhere behind it, and anything else."""
        return len(self.middle) == 1 and not self.tail and "?" not in self.pattern

    def matches(self, name: str) -> bool:
        """Whether the whole name fits."""
        return self.expression.fullmatch(name) is not None

    @property
    def expression(self) -> re.Pattern[str]:
        """What does: if any place of a text leads to a match, then its first one does, so none is tried again."""
        return _expression(self.pattern)


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    first, *rest = (re.escape(chunk).replace(r"\?", ".") for chunk in pattern.split("*"))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    found = "".join(f"(?>.*?{chunk})" for chunk in middle if chunk)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


class SortedNames:
    """Names in order, and which of them a glob matches: as bits, the lowest for the first name."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are sorted; one may come several times."""
        self._names = names
        self._text = _SEPARATOR.join(names)
        self._starts = [0, *accumulate(len(name) + 1 for name in names)]

    def matching(self, pattern: str) -> int:
        """Bits of the names that the glob matches."""
        names, glob = self._names, Glob(pattern)
        prefix = glob.prefix
        low = bisect_left(names, prefix) if prefix else 0
        if glob.exact:
            return _run(low, bisect_left(names, prefix + _SEPARATOR, low))
        high = bisect_left(names, prefix + _LAST, low) if prefix else len(names)
        while prefix and high < len(names) and names[high].startswith(prefix):
            high += 1  # a name that goes on with the very last code point
        if glob.only_prefix:
            return _run(low, high)
        return bits_of(self._fitting(glob, low, high))

    def _fitting(self, glob: Glob, low: int, high: int) -> Iterable[int]:
        """Places of matching names between two places, all of which begin with the glob's prefix."""
        names, text, rarest = self._names, self._text, glob.rarest
        first, last = self._starts[low], self._starts[high] if high < len(names) else len(text)
        if glob.simple:
            rarest = glob.middle[0]
        if rarest and text.count(rarest, first, last) * _MANY <= high - low:
            return self._with(rarest, glob, first, last)
        if glob.simple:
            (chunk,), start = glob.middle, len(glob.head)
            return [at for at in range(low, high) if names[at].find(chunk, start) >= 0]
        if not glob.middle and "?" not in glob.pattern:
            least = len(glob.head) + len(glob.tail)
            return [at for at in range(low, high) if names[at].endswith(glob.tail) and len(names[at]) >= least]
        fits = glob.expression.fullmatch
        return [at for at in range(low, high) if fits(names[at])]

    def _with(self, rarest: str, glob: Glob, first: int, last: int) -> list[int]:
        """Of the names between two characters of the text, matching ones, found by what is in every one of them."""
        found, text, starts, names = [], self._text, self._starts, self._names
        simple, behind = glob.simple, len(glob.head)
        fits = None if simple else glob.expression.fullmatch
        at = text.find(rarest, first, last)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            name = names[place]
            if (name.find(rarest, behind) >= 0) if fits is None else fits(name) is not None:
                found.append(place)
            at = text.find(rarest, starts[place + 1], last)
        return found


def _run(low: int, high: int) -> int:
    return ((1 << (high - low)) - 1) << low if high > low else 0


def bits_of(places: Iterable[int]) -> int:
    """Bits with these places set."""
    found = [*places]
    if not found:
        return 0
    low = min(found)
    marks = bytearray(b"0" * (max(found) - low + 1))
    for place in found:
        marks[place - low] = _ONE
    return int(marks[::-1], 2) << low


def flags_of(bits: int, count: int) -> bytes:
    """One byte for each of `count` places, 1 where the bit is set: what `itertools.compress` takes."""
    return bin(bits | 1 << count)[3:][::-1].encode().translate(_FLAGS) if count else b""
