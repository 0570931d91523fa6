"""Batches of calls: runs a batch with a limit on concurrency, and predicts how long the batch takes. No I/O."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


async def run_all(works: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run `works`, at most `at_once` at a time, and return their results in order.

    If one of the works raises, the other works are canceled, and an ExceptionGroup is raised. If `run_all` is canceled,
    all works are canceled.
    """
    if len(works) == 1:  # without a task, which would cost as much as everything else here
        try:
            return [await works[0]()]
        except Exception as error:  # noqa: BLE001  # raised again, as a TaskGroup does
            raise ExceptionGroup("a call of a batch failed", [error]) from None
    slots = None if at_once >= len(works) else asyncio.Semaphore(at_once)

    async def run_one(work: Callable[[], Awaitable[Result]]) -> Result:
        if slots is None:
            return await work()
        async with slots:
            return await work()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_one(work), name="call of a batch") for work in works]
    return [task.result() for task in tasks]


def makespan(durations: Sequence[float], at_once: int) -> float:
    """Predict the duration of a batch by list scheduling: calls start in order, at most `at_once` at a time.

    The result has the unit of `durations`; it is 0 for an empty batch.
    """
    if at_once >= len(durations):
        return max(durations, default=0.0)
    ends: list[float] = [0.0] * at_once
    for duration in durations:
        heapq.heappush(ends, heapq.heappop(ends) + duration)
    return max(ends)
