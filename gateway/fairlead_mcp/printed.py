"""Printed lines of one server's processes, over its restarts, bounded in bytes."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from fairlead_mcp.diagnosis import diagnosis

MOST_BYTES: Final = 128 << 10
"""Bytes of text that are kept per server."""
LINE_BYTES: Final = 100
"""Counted for each line beside its text: so many empty ones are bounded too."""

RECENT_SECONDS: Final = 10.0
"""Seconds before a server's end; lines that a running server printed earlier are not the reason for it."""
LINE_WIDTH: Final = 1000
"""Characters of a line."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escape sequences: colors, cursor movements, titles."""

Stream = Literal["stderr", "stdout", "run"]
"""`stdout` has anything but MCP messages, `run` has how runs of the process began and ended."""


class PrintedLine(NamedTuple):
    """One line. `number` counts up by one from 1 and is never used twice."""

    number: int
    run: int
    stream: Stream
    text: str
    at: float
    """Seconds since the epoch."""
    when: float
    """Seconds of a clock that only goes forward."""


class PrintedLines:
    """Ring of the last lines. `now` is a clock that only goes forward."""

    def __init__(
        self, now: Callable[[], float], most_bytes: int = MOST_BYTES, wall: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._wall = wall
        self._most = most_bytes
        self._size = 0
        self._lines: deque[PrintedLine] = deque()
        self.number = 0
        """Number of the last line that was added."""
        self.run = 0
        """Runs of the process that have begun."""

    def __repr__(self) -> str:
        return f"<PrintedLines: {len(self._lines)} of {self.number}, {self.run} runs>"

    def began(self) -> None:
        """Mark that the process is started."""
        self.run += 1
        self.add("run", "started" if self.run == 1 else "started again")

    def add(self, stream: Stream, text: str) -> None:
        """Take in a line of the run that goes on."""
        self.number += 1
        self._lines.append(PrintedLine(self.number, self.run, stream, text, self._wall(), self._now()))
        self._size += _cost(text)
        while self._size > self._most:
            self._size -= _cost(self._lines.popleft().text)

    def after(self, number: int = 0) -> tuple[PrintedLine, ...]:
        """The lines that are kept with a greater number, oldest first."""
        return tuple(line for line in self._lines if line.number > number)

    def stderr(self) -> tuple[str, ...]:
        """Kept lines of standard error, over all runs."""
        return tuple(line.text for line in self._lines if line.stream == "stderr")

    def telling(self, *, recent: bool = False, back: int = 0) -> str:
        """Line that says why the last run ended, or the one `back` runs before it; empty where none does. `recent`: out
        of its last `RECENT_SECONDS`.

        Standard error comes first. Some programs print their error to standard output, where only MCP messages belong.
        """
        since = self._now() - RECENT_SECONDS if recent else float("-inf")
        lines = [line for line in self._lines if line.run == self.run - back and line.when >= since]
        cause = diagnosis(line.text for line in lines if line.stream == "stderr")
        return cause or diagnosis(
            line.text for line in lines if line.stream == "stdout" and not line.text.startswith(("{", "["))
        )


def _cost(text: str) -> int:
    return LINE_BYTES + len(text.encode("utf-8", "replace"))


def printable(line: bytes) -> str:
    """A logged line without control characters and cut to a width: it ends up on terminals and in conditions."""
    text = _ESCAPES.sub("", line[: LINE_WIDTH * 4].decode("utf-8", "replace"))
    return "".join(c if c.isprintable() else " " for c in text)[:LINE_WIDTH]
