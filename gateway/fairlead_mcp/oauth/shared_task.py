"""A task for whose result several callers wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TaskStopped(Exception):
    """The task was cancelled by something else than its waiters."""


class SharedTask(Generic[T]):
    """Starts `work` at once, and lets several callers wait for its result.

    The work is cancelled when its last waiter is cancelled. If `completes` is True, it runs to its end instead, because
    its request must not be repeated.
    """

    def __init__(self, work: Coroutine[Any, Any, T], name: str, *, completes: bool = False) -> None:
        self._completes = completes
        self._task = asyncio.get_running_loop().create_task(work, name=name)
        self._task.add_done_callback(_retrieve)
        self._waiters = 0
        self._stopping = False

    @property
    def running(self) -> bool:
        """Whether more callers can wait for the result."""
        return not self._stopping and not self._task.done()

    def is_run_by(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether `task` is the task that runs the work."""
        return self._task is task

    async def result(self) -> T:
        """Wait for the result. Raises the exceptions of the work, and TaskStopped."""
        self._waiters += 1
        try:
            await asyncio.wait([self._task])
        finally:
            self._waiters -= 1
            if not self._waiters and not self._completes:
                self._stop()
        if self._task.cancelled():
            raise TaskStopped
        return self._task.result()

    async def aclose(self, seconds: float = 0.0) -> None:
        """Wait for the end of the work; cancel it after `seconds`."""
        if seconds:
            await asyncio.wait([self._task], timeout=seconds)
        self._stop()
        await asyncio.wait([self._task])

    def _stop(self) -> None:
        if not self._task.done():
            self._stopping = True
            self._task.cancel()


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task, which asyncio would log if no waiter is left."""
    if not task.cancelled():
        task.exception()
