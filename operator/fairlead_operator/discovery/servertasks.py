"""Keeps one task per server, and replaces it when the server's target changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fairlead_api.meta import ServerKey

Target = TypeVar("Target")


class ServerTasks(Generic[Target]):
    """The tasks of all servers, each for the current target of its server: an endpoint, or the target of a stream.

    `name` is the beginning of each task's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[ServerKey, tuple[Target, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def ensure(self, key: ServerKey, target: Target, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Ensure that a task runs `work` for this target of the server. A task for another target is cancelled."""
        entry = self._tasks.get(key)
        if entry is not None and entry[0] == target:
            return
        self.drop(key)
        self._tasks[key] = (target, asyncio.create_task(work(), name=f"{self._name} {key}"))

    def drop(self, key: ServerKey) -> None:
        """Cancel the server's task."""
        entry = self._tasks.pop(key, None)
        if entry is not None:
            entry[1].cancel()

    async def aclose(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = [task for _, task in self._tasks.values()]
        for key in list(self._tasks):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)
