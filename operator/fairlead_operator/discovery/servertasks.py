"""One task per server, kept while its subject stays equal; what `idleconnections` and `listening` have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from fairlead_api.meta import ServerKey

Subject = TypeVar("Subject")


class ServerTasks(Generic[Subject]):
    """The tasks, by server. `name` is what each is called, before the server's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[ServerKey, tuple[Subject, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def hold(self, key: ServerKey, subject: Subject, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have `work` done for the server, in place of what was done for another subject; no-op for an equal one."""
        held = self._tasks.get(key)
        if held is not None and held[0] == subject:
            return
        self.drop(key)
        self._tasks[key] = (subject, asyncio.create_task(work(), name=f"{self._name} {key}"))

    def drop(self, key: ServerKey) -> None:
        """End what is done for the server."""
        held = self._tasks.pop(key, None)
        if held is not None:
            held[1].cancel()

    async def aclose(self) -> None:
        """End everything and wait until it has."""
        tasks = [task for _, task in self._tasks.values()]
        for key in list(self._tasks):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)
