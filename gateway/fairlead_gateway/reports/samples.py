"""Samples: the duration of every upstream attempt, the last hundred of each tool in 28 bytes each (as objects they
would be seven times as much).

Pure module. On the path of a call two dictionary operations and a place in a ring; everything else is done when a
report is made. Bounded by the number of tools: while nobody asks, older attempts fall out.
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

KEPT: Final = 100
"""Attempts of each tool."""
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


class Meter(ports.AttemptMeter):
    """Times the attempts of one tool, into a history that the routes of the tool share."""

    __slots__ = ("_attempts", "_history", "_log")

    def __init__(self, log: SampleLog, history: History) -> None:
        self._log = log
        self._history = history
        self._attempts = history.attempts

    @property
    def tally(self) -> Tally | None:
        """The aggregates of all attempts, where the installation keeps some."""
        return self._history.tally

    def begin(self, now: float) -> int:
        """An attempt leaves; the number to end it with. `now`: seconds of the gateway's clock."""
        log = self._log
        log.attempts = number = log.attempts + 1
        log.running[number] = (self._history, now)
        return number

    def end(self, number: int, now: float, outcome: str) -> None:
        """It is over."""
        log = self._log
        started = log.running[number][1]
        del log.running[number]
        log.sequence = sequence = log.sequence + 1
        took = (now - started) * 1000
        self._attempts.add(sequence, number, now, took, outcome)
        if log.tallying:
            tally = self._history.tally
            if tally is not None and outcome == OK:
                tally.observe(took)
        if took > log.late_ms:
            log.late()


class SampleLog:
    """All of them. `late_ms` is the limit of the fastest tier: whatever takes longer is worth telling at once."""

    def __init__(self, late: Callable[[], None] = lambda: None, *, tallying: bool = False) -> None:
        """`late` is called when an attempt ended late; `tallying` keeps aggregates of all attempts beside the last."""
        self.tallying = tallying
        self.late_ms = float("inf")
        self.sequence = 0
        """Sequence number of the newest end."""
        self.running: dict[int, tuple[History, float]] = {}
        """Attempt to what it belongs to and its start, in the order of their starts."""
        self.late = late
        self.attempts = 0
        self._histories: WeakValueDictionary[tuple[ServerKey, str], History] = WeakValueDictionary()

    def tell_beyond(self, late_ms: float) -> None:
        """Call `late` for attempts that take longer than this from now on."""
        self.late_ms = late_ms

    def meter(self, server: ServerKey, tool: str, definition: str = "") -> Meter:
        """A meter of a tool, whose history is the same for everybody who holds one; its aggregates are of one
        definition, by hash.
        """
        history = self._histories.get((server, tool))
        if history is None:
            history = self._histories[server, tool] = History(server, tool, Ring(KEPT))
        if self.tallying and (history.tally is None or history.tally.definition != definition):
            history.tally = Tally(definition)
        return Meter(self, history)

    def tally(self, server: ServerKey, tool: str) -> Tally | None:
        """The aggregates of a tool that is served; None where none are kept."""
        history = self._histories.get((server, tool))
        return None if history is None else history.tally

    def overdue(self, now: float) -> int:
        """How many attempts run longer than a call in the fastest tier may take."""
        count = 0
        for _, started in self.running.values():
            if (now - started) * 1000 <= self.late_ms:
                break
            count += 1
        return count

    def since(self, cursor: int, now: float, epoch: float) -> list[tuple[History, list[Attempt]]]:
        """Attempts that ended after `cursor`, and those that are overdue at `now`; `epoch` is what has to be added to
        the gateway's clock to get seconds since the epoch.
        """
        attempts: dict[History, list[Attempt]] = {}
        for history in list(self._histories.values()):
            if history.attempts.last > cursor:
                attempts[history] = [
                    Attempt(number, ended + epoch, took, outcome)
                    for number, ended, took, outcome in history.attempts.since(cursor)
                ]
        for number, (history, started) in self.running.items():
            took = (now - started) * 1000
            if took <= self.late_ms:
                break
            attempts.setdefault(history, []).append(Attempt(number, now + epoch, took, RUNNING))
        return list(attempts.items())
