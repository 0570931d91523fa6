"""Ring buffer of the lines that one server's processes printed, across restarts."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from fairlead_mcp.diagnosis import diagnosis
from fairlead_mcp.refusals import without_advice, without_numbers

MOST_BYTES: Final = 128 << 10
"""Limit for the stored text of one server, in bytes."""
LINE_BYTES: Final = 100
"""Bytes that are counted per line in addition to its text, so that empty lines are limited too."""

RECENT_SECONDS: Final = 10.0
"""Seconds before the end of a server that had been running; the reason of the end is searched in the lines of this
time.
"""
LINE_WIDTH: Final = 1000
"""Limit for the length of a line, in characters."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escape sequences: colors, cursor movements, titles."""

Stream = Literal["stderr", "stdout", "run"]
"""`stdout` has lines other than MCP messages; `run` has starts and ends of the process."""


class PrintedLine(NamedTuple):
    """Printed line. `number` is consecutive from 1."""

    number: int
    run: int
    """Number of the start of the process that printed the line, from 1."""
    stream: Stream
    text: str
    at: float
    """Wall-clock time, seconds since the epoch."""
    when: float
    """Monotonic time in seconds."""


class PrintedLines:
    """Ring buffer of the last lines. `now` is a monotonic clock, `wall` the wall clock."""

    def __init__(
        self, now: Callable[[], float], most_bytes: int = MOST_BYTES, wall: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._wall = wall
        self._max_bytes = most_bytes
        self._size = 0
        self._lines: deque[PrintedLine] = deque()
        self.number = 0
        """Number of the last line."""
        self.run = 0
        """Starts of the process so far."""

    def __repr__(self) -> str:
        return f"<PrintedLines: {len(self._lines)} of {self.number}, {self.run} runs>"

    def record_start(self) -> None:
        """Record a start of the process."""
        self.run += 1
        self.add("run", "started" if self.run == 1 else "started again")

    def add(self, stream: Stream, text: str) -> None:
        """Store a line of the current run."""
        self.number += 1
        self._lines.append(PrintedLine(self.number, self.run, stream, text, self._wall(), self._now()))
        self._size += _cost(text)
        while self._size > self._max_bytes:
            self._size -= _cost(self._lines.popleft().text)

    def drop_repetition(self) -> None:
        """Drop the output of the second to last run if the last run printed the same, apart from numbers. The last line
        of that run then says so. Otherwise a server that cannot start would fill the buffer with copies.
        """
        previous, last = self._output_of(self.run - 1), self._output_of(self.run)
        if not last or len(previous) != len(last):
            return
        if any(without_numbers(a.text) != without_numbers(b.text) for a, b in zip(previous, last, strict=True)):
            return
        lines = [line for line in self._lines if line.run != self.run - 1 or line.stream == "run"]
        end = max((index for index, line in enumerate(lines) if line.run == self.run - 1), default=None)
        if end is not None:
            lines[end] = lines[end]._replace(text=f"{lines[end].text}, having printed the same as run {self.run}")
        self._lines = deque(lines)
        self._size = sum(_cost(line.text) for line in lines)

    def _output_of(self, run: int) -> list[PrintedLine]:
        return [line for line in self._lines if line.run == run and line.stream != "run"]

    def after(self, number: int = 0) -> tuple[PrintedLine, ...]:
        """Return the stored lines with a number greater than `number`, oldest first."""
        return tuple(line for line in self._lines if line.number > number)

    def stderr(self) -> tuple[str, ...]:
        """Return the stored lines of standard error, of all runs."""
        return tuple(line.text for line in self._lines if line.stream == "stderr")

    def find_failure_line(self, *, recent: bool = False, back: int = 0) -> str:
        """Return the line that says why the last run ended, or the run `back` runs before the last; empty if no line
        does.

        `recent` considers only the last `RECENT_SECONDS`. Standard output is read if standard error says nothing, as
        some programs print errors on standard output, where only MCP messages belong.
        """
        since = self._now() - RECENT_SECONDS if recent else float("-inf")
        lines = [line for line in self._lines if line.run == self.run - back and line.when >= since]
        cause = diagnosis(line.text for line in lines if line.stream == "stderr")
        cause = cause or diagnosis(
            line.text for line in lines if line.stream == "stdout" and not line.text.startswith(("{", "["))
        )
        return without_advice(cause)


def _cost(text: str) -> int:
    return LINE_BYTES + len(text.encode("utf-8", "replace"))


def printable(line: bytes) -> str:
    """Make a printed line safe for terminals and conditions: without control characters and cut to LINE_WIDTH."""
    text = _ESCAPES.sub("", line[: LINE_WIDTH * 4].decode("utf-8", "replace"))
    return "".join(c if c.isprintable() else " " for c in text)[:LINE_WIDTH]
