"""Records samples: the duration of every attempt, for the last hundred attempts of each tool.

Pure module. Recording costs two dictionary operations and a write to a ring buffer; all other work is done when a
report is created. A sample takes 28 bytes, a seventh of what a Python object would take. Memory is limited by the
number of tools, because new samples of a tool overwrite its oldest samples.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final
from weakref import WeakValueDictionary

from fairlead_api.meta import ServerKey
from fairlead_api.reports import BAD, NEUTRAL, OK, RUNNING, UNREADABLE, Attempt
from fairlead_gateway.aggregates.tally import Tally
from fairlead_gateway.core import ports
from fairlead_gateway.reports.history import History

MAX_ATTEMPTS: Final = 100
"""Number of attempts that are stored per tool."""
_RECORD: Final = struct.Struct("<QQdf")
"""Sequence number; attempt number and outcome in one integer; end in seconds; duration in milliseconds (7 digits)."""
_SIZE: Final = _RECORD.size
_pack_into: Final = _RECORD.pack_into
_OUTCOMES: Final = (OK, BAD, NEUTRAL, UNREADABLE)
_OUTCOME_BITS: Final = 2
_OUTCOME_MASK: Final = (1 << _OUTCOME_BITS) - 1
_CODES: Final = {outcome: code for code, outcome in enumerate(_OUTCOMES)}
FIRST_CAPACITY: Final = 8
"""Number of attempts for which a ring allocates memory at first."""


class Ring:
    """Ring buffer of at most `size` attempts, packed in bytes."""

    __slots__ = ("_capacity", "_count", "_data", "_size", "last")

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        """Number of all attempts that were added."""
        self._data = bytearray()
        self._capacity = 0
        """Number of attempts that fit into `_data`."""
        self.last = 0
        """Sequence number of the newest attempt; 0 if the ring is empty."""

    def add(self, sequence: int, number: int, ended_at: float, duration_ms: float, outcome: str) -> None:
        """Add a finished attempt, with an increasing `sequence`. `ended_at` is in seconds."""
        index = self._count % self._size
        if index >= self._capacity:
            self._grow()
        number_and_outcome = number << _OUTCOME_BITS | _CODES[outcome]
        _pack_into(self._data, index * _SIZE, sequence, number_and_outcome, ended_at, duration_ms)
        self._count += 1
        self.last = sequence

    def since(self, cursor: int) -> Iterator[tuple[int, float, float, str]]:
        """Number, end, milliseconds and outcome of the attempts with a higher sequence number, oldest first."""
        if self._count > self._size:
            oldest = self._count % self._size * _SIZE
            records = self._data[oldest:] + self._data[:oldest]
        else:
            records = self._data[: self._count * _SIZE]
        for sequence, number_and_outcome, ended_at, duration_ms in _RECORD.iter_unpack(records):
            if sequence > cursor:
                number, code = number_and_outcome >> _OUTCOME_BITS, number_and_outcome & _OUTCOME_MASK
                yield number, ended_at, duration_ms, _OUTCOMES[code]

    def _grow(self) -> None:
        # The buffer grows in only two steps. Most tools are called only a few times, but if thousands of buffers grew
        # with each attempt, fragmentation would waste a third of their memory.
        self._capacity = self._size if self._capacity else min(FIRST_CAPACITY, self._size)
        self._data += bytes(self._capacity * _SIZE - len(self._data))


class Meter(ports.AttemptMeter):
    """Measures the attempts of one tool and records them in the history that all routes of the tool share."""

    __slots__ = ("_attempts", "_history", "_log")

    def __init__(self, log: SampleLog, history: History) -> None:
        self._log = log
        self._history = history
        self._attempts = history.attempts

    @property
    def tally(self) -> Tally | None:
        """Histogram of all attempts; None if the installation collects no aggregates."""
        return self._history.tally

    def begin(self, now: float) -> int:
        """Start an attempt and return its number, for `end`. `now` is in seconds of the gateway's clock."""
        log = self._log
        log.attempts = number = log.attempts + 1
        log.running[number] = (self._history, now)
        return number

    def end(self, number: int, now: float, outcome: str) -> None:
        """End the attempt with this number, and record it."""
        log = self._log
        started = log.running[number][1]
        del log.running[number]
        log.sequence = sequence = log.sequence + 1
        duration_ms = (now - started) * 1000
        self._attempts.add(sequence, number, now, duration_ms, outcome)
        if log.tallying:
            tally = self._history.tally
            if tally is not None and outcome == OK:
                tally.observe(duration_ms)
        if duration_ms > log.late_ms:
            log.on_late()

    def forget(self, number: int) -> None:
        """Discard the attempt with this number: it is not recorded."""
        del self._log.running[number]


class SampleLog:
    """Samples of all tools. `late_ms` is the limit of the fastest tier in milliseconds; `on_late` is called for each
    attempt that takes longer, so that it is reported at once.
    """

    def __init__(self, on_late: Callable[[], None] = lambda: None, *, tallying: bool = False) -> None:
        """Create an empty log. `on_late` is called when a late attempt ends. With `tallying`, the log also collects
        histograms of all attempts.
        """
        self.tallying = tallying
        self.late_ms = float("inf")
        self.sequence = 0
        """Sequence number of the last finished attempt."""
        self.running: dict[int, tuple[History, float]] = {}
        """Running attempts by number, with their history and start, in the order of their starts."""
        self.on_late = on_late
        self.attempts = 0
        self._histories: WeakValueDictionary[tuple[ServerKey, str], History] = WeakValueDictionary()

    def set_late_ms(self, late_ms: float) -> None:
        """Set the duration in milliseconds above which `on_late` is called."""
        self.late_ms = late_ms

    def meter(self, server: ServerKey, tool: str, definition: str = "") -> Meter:
        """Create a meter of a tool. All meters of a tool share one history. `definition` is the hash of the tool's
        definition; a changed definition starts a new histogram.
        """
        history = self._histories.get((server, tool))
        if history is None:
            history = self._histories[server, tool] = History(server, tool, Ring(MAX_ATTEMPTS))
        if self.tallying and (history.tally is None or history.tally.definition != definition):
            history.tally = Tally(definition)
        return Meter(self, history)

    def tally(self, server: ServerKey, tool: str) -> Tally | None:
        """Histogram of a tool; None if the tool has no histogram."""
        history = self._histories.get((server, tool))
        return None if history is None else history.tally

    def overdue_count(self, now: float) -> int:
        """Number of running attempts that have exceeded the limit of the fastest tier."""
        count = 0
        for _, started in self.running.values():
            if (now - started) * 1000 <= self.late_ms:
                break
            count += 1
        return count

    def since(self, cursor: int, now: float, epoch: float) -> list[tuple[History, list[Attempt]]]:
        """Attempts that ended after `cursor`, and running attempts that are overdue at `now`. Adding `epoch` to a time
        of the gateway's clock gives seconds since the epoch.
        """
        attempts: dict[History, list[Attempt]] = {}
        for history in list(self._histories.values()):
            if history.attempts.last > cursor:
                attempts[history] = [
                    Attempt(number, ended_at + epoch, duration_ms, outcome)
                    for number, ended_at, duration_ms, outcome in history.attempts.since(cursor)
                ]
        for number, (history, started) in self.running.items():
            duration_ms = (now - started) * 1000
            if duration_ms <= self.late_ms:
                break
            attempts.setdefault(history, []).append(Attempt(number, now + epoch, duration_ms, RUNNING))
        return list(attempts.items())
