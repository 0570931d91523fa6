"""Bounded waiting for something that another process does, or that nothing tells of; tests and worlds use it.

For work in this process wait on its event instead: this polls, and only what cannot notify deserves that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
STEP = 0.05
LONGEST = 60.0
"""Seconds that only a failure takes: of a machine that is busy with much else, a process may need many to start."""


def soon(seconds: float = LONGEST) -> float:
    """A deadline on the monotonic clock."""
    return time.monotonic() + seconds


def until(what: str, condition: Callable[[], T], *, seconds: float = LONGEST) -> T:
    """The first truthy value of `condition`; AssertionError naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s (last: {value!r})")
        time.sleep(STEP)
    return value


async def until_async(what: str, condition: Callable[[], Awaitable[T]], *, seconds: float = LONGEST) -> T:
    """As `until`, for a condition that awaits; the loop runs on between the attempts."""
    end = time.monotonic() + seconds
    while not (value := await condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s (last: {value!r})")
        await asyncio.sleep(STEP)
    return value


async def eventually(condition: Callable[[], object], *, seconds: float = LONGEST) -> None:
    """Let this loop run until `condition` holds, for what happens here but tells nobody; TimeoutError otherwise."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # the point of this helper
            await asyncio.sleep(0.005)
