"""Records how long a program's event loop makes others wait. It has to be imported before the program.

    async with started(FAIRLEAD_TEST_GAPS=str(file), …) as gateway:
        gap = Gaps(file); gap.reset(); …; gap.longest_ms()

It measures the process's CPU time between two runs of a timer: work of the event loop, and of threads that hold the
interpreter's lock. So other load of the machine has no effect.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

FILE = "FAIRLEAD_TEST_GAPS"
SECONDS = 0.001
_SIZE = 8


class Gaps:
    """The longest gap, in a file that a program and its test share."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), _SIZE)

    def reset(self) -> None:
        self._bytes[:] = bytes(_SIZE)

    def longest_ms(self) -> float:
        (longest,) = struct.unpack("<q", self._bytes[:])
        return float(longest) / 1e6

    def record(self, gap_ns: int) -> None:
        (longest,) = struct.unpack("<q", self._bytes[:])
        if gap_ns > longest:
            self._bytes[:] = struct.pack("<q", gap_ns)


async def _record_gaps(program: Coroutine[Any, Any, Any], gaps: Gaps) -> Any:
    loop = asyncio.get_running_loop()
    before = time.process_time_ns()

    def turn() -> None:
        nonlocal before
        now = time.process_time_ns()
        gaps.record(now - before)
        before = now
        loop.call_later(SECONDS, turn)

    turn()
    return await program


def install(path: Path) -> None:
    """Record the gaps of the loop that the program runs."""
    import uvloop

    begin: Any = uvloop.run
    module: Any = uvloop
    module.run = lambda program, **options: begin(_record_gaps(program, Gaps(path)), **options)


if file := os.environ.get(FILE):
    install(Path(file))
