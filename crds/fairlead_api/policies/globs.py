"""Globs over tool names. This module has no I/O.

`*` matches any number of characters, `?` exactly one; every other character matches itself, case-sensitively. A glob
must match the whole name. There are no character classes, no escapes and no separators: `/` and `.` are ordinary
characters. Matching never backtracks, so its time is bounded by the lengths of name and glob.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from fairlead_api.slices import finish, list_in_slices, order_in_slices

_LAST: Final = chr(0x10FFFF)
_SEPARATOR: Final = "\0"
_MANY: Final = 8
"""If more than one of `_MANY` names contains the searched text, all names are checked one by one."""
_ONE: Final = ord("1")
_FLAGS: Final = bytes(1 if code == _ONE else 0 for code in range(256))
"""Translation table from the characters `0` and `1` to the bytes 0 and 1."""


class Glob:
    """A parsed glob: the texts with which a name must begin and end, and that it must contain in between, in order."""

    __slots__ = ("_any", "head", "middle", "pattern", "tail")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        first, *rest = pattern.split("*")
        self._any = bool(rest)
        """Whether the pattern has a `*`."""
        self.head = first
        """Text before the first `*`."""
        self.tail = rest.pop() if rest else ""
        """Text after the last `*`; empty without a `*`."""
        self.middle = tuple(chunk for chunk in rest if chunk)
        """Texts between two `*`, without empty texts."""

    @property
    def exact(self) -> bool:
        """Whether the glob has no wildcards, and so matches one name only."""
        return not self._any and "?" not in self.head

    @property
    def prefix(self) -> str:
        """Literal beginning of every match."""
        return self.head.partition("?")[0]

    @property
    def only_prefix(self) -> bool:
        """Whether the glob matches all names with its prefix."""
        return self._any and not self.middle and not self.tail and "?" not in self.head

    @property
    def longest_literal(self) -> str:
        """The longest literal text that every match contains; may be empty."""
        return max((part for chunk in (self.head, *self.middle, self.tail) for part in chunk.split("?")), key=len)

    @property
    def end(self) -> str:
        """Literal end of every match."""
        return self.tail.rpartition("?")[2]

    @property
    def simple(self) -> bool:
        """Whether the glob has the form `beginning*text*`."""
        return len(self.middle) == 1 and not self.tail and "?" not in self.pattern

    @property
    def ends_only(self) -> bool:
        """Whether the glob has the form `beginning*end`."""
        return self._any and not self.middle and "?" not in self.pattern

    def matches(self, name: str) -> bool:
        """Whether the glob matches the whole name."""
        return self.expression.fullmatch(name) is not None

    @property
    def expression(self) -> re.Pattern[str]:
        """Compiled regular expression. Its atomic groups prevent backtracking. This does not lose matches: if any
        position of a literal text leads to a match, the first position does too.
        """
        return _expression(self.pattern)


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    first, *rest = (re.escape(chunk).replace(r"\?", ".") for chunk in pattern.split("*"))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    gaps = "".join(f"(?>.*?{chunk})" for chunk in middle if chunk)
    return re.compile(f"{first}{gaps}.*{last}", re.DOTALL)


class SortedNames:
    """Sorted names with a search by glob, which returns a bit set; the lowest bit is the first name."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """`names` must be sorted, and may contain duplicates."""
        finish(self.fill_in_slices(names))

    def fill_in_slices(self, names: Sequence[str]) -> Generator[None, None, None]:
        """Add the names, in slices. Call this once only."""
        self._names = names
        self._text = _SEPARATOR.join(names)
        yield
        self._starts = [0, *(yield from list_in_slices(accumulate(len(name) + 1 for name in names)))]
        self._backwards: tuple[list[str], list[int]] | None = None

    def prepare_in_slices(self, patterns: Iterable[str]) -> Generator[None, None, None]:
        """Build the index of reversed names in slices, if any of these globs has a literal end, so that the first match
        does not have to build the index.
        """
        if self._backwards is None and any(Glob(pattern).end for pattern in patterns):
            backwards = yield from list_in_slices(name[::-1] for name in self._names)
            places = yield from order_in_slices(range(len(backwards)), backwards.__getitem__)
            self._backwards = (yield from list_in_slices(backwards[position] for position in places)), places

    def matching_bits(self, pattern: str) -> int:
        """Bits of the names that the glob matches."""
        names, glob = self._names, Glob(pattern)
        prefix = glob.prefix
        low = bisect_left(names, prefix) if prefix else 0
        if glob.exact:
            return _run(low, bisect_left(names, prefix + _SEPARATOR, low))
        high = bisect_left(names, prefix + _LAST, low) if prefix else len(names)
        while prefix and high < len(names) and names[high].startswith(prefix):
            high += 1  # names with U+10FFFF after the prefix sort behind `prefix + _LAST`
        if glob.only_prefix:
            return _run(low, high)
        fits = _fit(glob)
        return bits_of([at for at in self._candidates(glob, low, high) if fits(names[at])])

    @property
    def _ends(self) -> tuple[list[str], list[int]]:
        """Reversed names in sorted order, and the position of each name."""
        if self._backwards is None:
            finish(self.prepare_in_slices(("*_",)))
        assert self._backwards is not None, "the pattern above has an end"
        return self._backwards

    def _candidates(self, glob: Glob, low: int, high: int) -> Iterable[int]:
        """Positions from `low` to `high` that may match. All names in between have the glob's prefix."""
        if glob.end:
            ends, places = self._ends
            end = glob.end[::-1]
            first = bisect_left(ends, end)
            last = bisect_left(ends, end + _LAST, first)
            while last < len(ends) and ends[last].startswith(end):
                last += 1
            if last - first < high - low:
                return [at for at in places[first:last] if low <= at < high]
        sought = glob.middle[0] if glob.simple else glob.longest_literal
        candidates = self._having(sought, low, high) if sought else None
        return range(low, high) if candidates is None else candidates

    def _having(self, sought: str, low: int, high: int) -> list[int] | None:
        """Positions from `low` to `high` whose names contain a text; None if so many names contain it that checking
        every name is faster.
        """
        positions: list[int] = []
        text, starts, most = self._text, self._starts, (high - low) // _MANY
        last = starts[high] - 1
        at = text.find(sought, starts[low], last)
        while at >= 0:
            if len(positions) == most:
                return None
            position = bisect_right(starts, at) - 1
            positions.append(position)
            at = text.find(sought, starts[position + 1], last)
        return positions


def _fit(glob: Glob) -> Callable[[str], object]:
    """Function that tests whether a name matches, for names that begin with the glob's prefix."""
    if glob.simple:
        chunk, behind = glob.middle[0], len(glob.head)
        return lambda name: name.find(chunk, behind) >= 0
    if glob.ends_only:
        tail, least = glob.tail, len(glob.head) + len(glob.tail)
        return lambda name: len(name) >= least and name.endswith(tail)
    return glob.expression.fullmatch


def _run(low: int, high: int) -> int:
    return ((1 << (high - low)) - 1) << low if high > low else 0


def bits_of(indexes: Iterable[int]) -> int:
    """Bit set in which the bits at these indexes are set."""
    positions = [*indexes]
    if not positions:
        return 0
    low = min(positions)
    marks = bytearray(b"0" * (max(positions) - low + 1))
    for position in positions:
        marks[position - low] = _ONE
    return int(marks[::-1], 2) << low


def flags_of(bits: int, count: int) -> bytes:
    """One byte per bit, the lowest bit first: 1 if the bit is set. This is the format for `itertools.compress`."""
    return bin(bits | 1 << count)[3:][::-1].encode().translate(_FLAGS) if count else b""
