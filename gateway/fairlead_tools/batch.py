"""Batches of calls: running them, a number at a time, and predicting how long that takes. Pure module."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


async def run_all(works: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run `works`, at most `at_once` at a time, begun in their order; results in their order. An exception of one
    cancels the others and is raised in an ExceptionGroup; cancelling cancels all.
    """
    slots = asyncio.Semaphore(at_once)

    async def run_one(work: Callable[[], Awaitable[Result]]) -> Result:
        async with slots:
            return await work()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_one(work), name="call of a batch") for work in works]
    return [task.result() for task in tasks]


def makespan(durations: Sequence[float], at_once: int) -> float:
    """Time until the last call of a batch has ended, by list scheduling: calls begin in their order, at most `at_once`
    run at a time. In the unit of the durations; 0 for none.
    """
    if at_once >= len(durations):
        return max(durations, default=0.0)
    ends: list[float] = [0.0] * at_once
    for duration in durations:
        heapq.heappush(ends, heapq.heappop(ends) + duration)
    return max(ends)
