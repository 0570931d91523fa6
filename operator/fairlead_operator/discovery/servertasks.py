"""One task per server, which runs until its target changes. Part of `loss_detection` and `list_change_streams`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fairlead_api.meta import ServerKey

Subject = TypeVar("Subject")


class ServerTasks(Generic[Subject]):
    """One task per server, for the server's current subject (an endpoint or a stream's target), which the task serves.

    `name` is the beginning of each task's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[ServerKey, tuple[Subject, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def hold(self, key: ServerKey, subject: Subject, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` for the server, replacing a task for another subject; no-op for an equal subject."""
        current = self._tasks.get(key)
        if current is not None and current[0] == subject:
            return
        self.drop(key)
        self._tasks[key] = (subject, asyncio.create_task(work(), name=f"{self._name} {key}"))

    def drop(self, key: ServerKey) -> None:
        """Cancel the server's task."""
        current = self._tasks.pop(key, None)
        if current is not None:
            current[1].cancel()

    async def aclose(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = [task for _, task in self._tasks.values()]
        for key in list(self._tasks):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)
