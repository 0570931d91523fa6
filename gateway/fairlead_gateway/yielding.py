"""Long work in the event loop, interleaved with everything else that the loop has to do.

Building snapshots and selections, preparing views, comparing and freeing snapshots run like this. A call that arrives
meanwhile waits for one slice wherever it would wait for the loop: one on its way in, one for its answer. In a thread
the work would not be done earlier, for there is one interpreter, and each call would wait for its being handed over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

from fairlead_api.slices import empty_in_slices

Made = TypeVar("Made")

TURN: Final = 0.0003
"""Seconds of work between two turns of the loop."""


async def in_turns(steps: Generator[None, None, Made]) -> Made:
    """Take every step, and return what they made; each should take much less than a turn."""
    until = time.perf_counter() + TURN
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN


async def let_go(parts: list[object]) -> None:
    """Empty the list from its end. What nobody else holds is torn down with that: 10,000 tools in one go would hold up
    every call for 20 ms, and no thread could help.
    """
    await in_turns(empty_in_slices(parts, 1))
