"""Work that runs once at a time, with one result for all callers that ask meanwhile.

A caller that gives up does not stop it for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fairlead_mcp.errors import ConnectFailed

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares one run of `work` between its callers. `work` bounds itself."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[T] | None = None

    @property
    def running(self) -> bool:
        """Whether the work is being done."""
        return self._task is not None

    async def result(self) -> T:
        """Result of the running work, which is begun where none is running. Raises its exceptions, and ConnectFailed
        where it was stopped.
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
        """Stop what is running and wait for its end."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _after_task(self, task: asyncio.Task[T]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # all callers may be gone; asyncio would log an exception that nobody retrieved
