"""Runs an asynchronous function once for all concurrent callers, who share its result.

If one caller is cancelled, the function continues for the other callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fairlead_mcp.errors import ConnectFailed

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares one run of `work` between concurrent callers. `work` has to limit its duration itself."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[T] | None = None

    @property
    def running(self) -> bool:
        """Whether the work is running."""
        return self._task is not None

    async def result(self) -> T:
        """Start the work, unless it is running, and await its result. Raises the exceptions of the work, and
        ConnectFailed if the work was stopped.
        """
        task = self._task
        if task is None:
            task = self._task = asyncio.get_running_loop().create_task(self._work(), name=self._name)
            task.add_done_callback(self._after_task)
        await asyncio.wait([task])
        if task.cancelled():
            raise ConnectFailed(f"{self._name} was stopped", reason="Closed")
        return task.result()

    async def stop(self) -> None:
        """Cancel the running work and wait for its end."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _after_task(self, task: asyncio.Task[T]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # retrieve the exception; otherwise asyncio logs it if all callers were cancelled
