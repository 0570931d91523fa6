"""Runs long work in the event loop in slices, interleaved with all other work of the loop.

Snapshots and selections are built, views prepared, and snapshots compared and freed in this way. A call that arrives
meanwhile waits for at most one slice each time it needs the loop. A thread would not finish the work earlier because of
the GIL, and each call would have to wait for the GIL.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

from fairlead_api.slices import empty_in_slices

ResultT = TypeVar("ResultT")

TURN: Final = 0.0003
"""Seconds of work between two iterations of the event loop."""


async def in_turns(steps: Generator[None, None, ResultT]) -> ResultT:
    """Run a generator to its end, and return its result. Each step should take much less than `TURN`."""
    turn_end = time.perf_counter() + TURN
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        if time.perf_counter() >= turn_end:
            await asyncio.sleep(0)
            turn_end = time.perf_counter() + TURN


async def free_in_turns(parts: list[object]) -> None:
    """Empty a list from its end, in slices. This frees objects without other references: freeing 10,000 tools at once
    would delay every call by 20 ms, in a thread too.
    """
    await in_turns(empty_in_slices(parts, 1))
