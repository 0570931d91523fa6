"""Several calls of one message: all at once, a few at a time, or one after the other.

Used by the REST plane. Pure scheduling: what a call is, is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


async def run_all(works: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run `works`, at most `at_once` at a time, begun in their order; results in their order. An exception of one
    cancels the others and is raised in an ExceptionGroup; cancelling cancels all.
    """
    places = asyncio.Semaphore(at_once)

    async def one(work: Callable[[], Awaitable[Result]]) -> Result:
        async with places:
            return await work()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(work), name="call of a batch") for work in works]
    return [task.result() for task in tasks]
