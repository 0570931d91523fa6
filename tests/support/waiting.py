"""Bounded waiting, by polling, for effects of another process, or effects without an event.

To wait for work in this process, use an event instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
STEP = 0.05
LONGEST = 60.0
"""Default timeout in seconds. It is long, because a process may start slowly on a busy machine."""


def soon(seconds: float = LONGEST) -> float:
    """A deadline on the monotonic clock."""
    return time.monotonic() + seconds


def until(what: str, condition: Callable[[], T], *, seconds: float = LONGEST) -> T:
    """Wait for a truthy value of `condition`, and return it. Raises AssertionError with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s (last: {value!r})")
        time.sleep(STEP)
    return value


async def until_async(what: str, condition: Callable[[], Awaitable[T]], *, seconds: float = LONGEST) -> T:
    """Like `until`, for an asynchronous condition. The loop runs between the attempts."""
    end = time.monotonic() + seconds
    while not (value := await condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s (last: {value!r})")
        await asyncio.sleep(STEP)
    return value


async def eventually(condition: Callable[[], object], *, seconds: float = LONGEST) -> None:
    """Let this loop run until `condition` is true, for effects in this process without an event. Raises
    TimeoutError.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # the point of this helper
            await asyncio.sleep(0.005)
