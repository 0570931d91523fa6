"""Long work in the loop, done in turns with everything else that the loop has to do.

Used by what prepares views, compares snapshots and lets go of them. A call that comes meanwhile waits for one turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Final

TURN: Final = 0.001
"""Seconds of work between two turns of the loop."""


async def in_turns(steps: Iterable[object]) -> None:
    """Take every step; each should take much less than a turn."""
    until = time.perf_counter() + TURN
    for _ in steps:
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN


async def let_go(parts: list[object]) -> None:
    """Empty the list from its end. What nobody else holds is torn down with that: 10,000 tools in one go would hold up
    every call for 20 ms, and no thread could help.
    """
    await in_turns(_emptied(parts))


def _emptied(parts: list[object]) -> Iterator[None]:
    while parts:
        parts.pop()
        yield
