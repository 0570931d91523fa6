"""The ends of the last attempts of one tool, in 33 bytes each: as objects they would be six times as much.

Written by `reports.samples` with every attempt, and read when an operator asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from fairlead_api.reports import BAD, NEUTRAL, OK

_END: Final = struct.Struct("<QQddB")
_SIZE: Final = _END.size
_pack: Final = _END.pack
_pack_into: Final = _END.pack_into
_OUTCOMES: Final = (OK, BAD, NEUTRAL)
_CODES: Final = {outcome: code for code, outcome in enumerate(_OUTCOMES)}


class Ring:
    """Ring buffer of attempts, packed in bytes. `kept` of them at most."""

    __slots__ = ("_count", "_data", "_kept", "last")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._count = 0
        self._data = bytearray()
        self.last = 0
        """Sequence of the newest; 0 while there is none."""

    def add(self, sequence: int, number: int, ended: float, took: float, outcome: str) -> None:
        """An attempt ended. `sequence` grows from one to the next; `ended`: seconds, `took`: milliseconds."""
        count = self._count
        if count < self._kept:
            self._data += _pack(sequence, number, ended, took, _CODES[outcome])
        else:
            _pack_into(self._data, count % self._kept * _SIZE, sequence, number, ended, took, _CODES[outcome])
        self._count = count + 1
        self.last = sequence

    def since(self, cursor: int) -> Iterator[tuple[int, float, float, str]]:
        """Number, end, milliseconds and outcome of those with a higher sequence, the oldest first."""
        newest_in_front = self._count % self._kept * _SIZE if self._count > self._kept else 0
        ordered = self._data[newest_in_front:] + self._data[:newest_in_front]
        for sequence, number, ended, took, code in _END.iter_unpack(ordered):
            if sequence > cursor:
                yield number, ended, took, _OUTCOMES[code]
