"""The ends of the last attempts of one tool, in 28 bytes each: as objects they would be seven times as much.

Written by `reports.samples` with every attempt, and read when an operator asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from fairlead_api.reports import BAD, NEUTRAL, OK, UNREADABLE

_RECORD: Final = struct.Struct("<QQdf")
"""Sequence; number and outcome in one; end; and milliseconds, of which seven digits are kept."""
_SIZE: Final = _RECORD.size
_pack_into: Final = _RECORD.pack_into
_OUTCOMES: Final = (OK, BAD, NEUTRAL, UNREADABLE)
_OUTCOME_BITS: Final = 2
_OUTCOME_MASK: Final = (1 << _OUTCOME_BITS) - 1
_CODES: Final = {outcome: code for code, outcome in enumerate(_OUTCOMES)}
FIRST_ROOM: Final = 8
"""Attempts that a ring has room for at first."""


class Ring:
    """Ring buffer of attempts, packed in bytes. `kept` of them at most."""

    __slots__ = ("_count", "_data", "_room", "_size", "last")

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        """Attempts that were ever added."""
        self._data = bytearray()
        self._room = 0
        """Attempts that `_data` has bytes for."""
        self.last = 0
        """Sequence of the newest; 0 while there is none."""

    def add(self, sequence: int, number: int, ended: float, took: float, outcome: str) -> None:
        """An attempt ended. `sequence` grows from one to the next; `ended`: seconds, `took`: milliseconds."""
        index = self._count % self._size
        if index >= self._room:
            self._grow()
        numbered = number << _OUTCOME_BITS | _CODES[outcome]
        _pack_into(self._data, index * _SIZE, sequence, numbered, ended, took)
        self._count += 1
        self.last = sequence

    def since(self, cursor: int) -> Iterator[tuple[int, float, float, str]]:
        """Number, end, milliseconds and outcome of those with a higher sequence, the oldest first."""
        if self._count > self._size:
            oldest = self._count % self._size * _SIZE
            ordered = self._data[oldest:] + self._data[:oldest]
        else:
            ordered = self._data[: self._count * _SIZE]
        for sequence, numbered, ended, took in _RECORD.iter_unpack(ordered):
            if sequence > cursor:
                yield numbered >> _OUTCOME_BITS, ended, took, _OUTCOMES[numbered & _OUTCOME_MASK]

    def _grow(self) -> None:
        # In two steps: of many thousand tools most are called a few times, and buffers that grow with each attempt,
        # a thousand of them in turn, leave a third as much again between them that nothing fits into.
        self._room = self._size if self._room else min(FIRST_ROOM, self._size)
        self._data += bytes(self._room * _SIZE - len(self._data))
