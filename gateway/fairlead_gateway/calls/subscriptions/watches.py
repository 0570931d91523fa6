"""Background work of subscriptions: one asyncio task per subscription, in a limited number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_mcp.asyncio_tasks import TaskSet

log = logging.getLogger(__name__)

MAX_WATCHES: Final = 1024
"""Limit on the asyncio tasks of all agents."""


class _AgentWatch(NamedTuple):
    agent: str
    task: asyncio.Task[None]


class WatchTasks:
    """Asyncio tasks of subscriptions, by the key of the subscription: any hashable value.

    Beyond MAX_WATCHES, the oldest task of the agent with the most tasks is cancelled.
    """

    def __init__(self) -> None:
        self._tasks = TaskSet()
        self._watches: dict[object, _AgentWatch] = {}
        """Running tasks by key, the oldest first."""

    def __len__(self) -> int:
        return len(self._watches)

    def start(self, key: object, agent: str, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task, which counts for `agent`. Cancels an earlier task with an equal key."""
        self.stop(key)
        task = self._tasks.start(work, name)
        self._watches[key] = _AgentWatch(agent, task)
        task.add_done_callback(lambda done: self._remove_ended(key, done))
        if len(self._watches) > MAX_WATCHES:
            [oldest_key] = oldest_of_largest(((other, watch.agent, 1) for other, watch in self._watches.items()), 1)
            self.stop(oldest_key)

    def stop(self, key: object) -> None:
        """Cancel the task with a key; no-op if there is none."""
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.task.cancel()

    def _remove_ended(self, key: object, task: asyncio.Task[None]) -> None:
        watch = self._watches.get(key)
        if watch is not None and watch.task is task:
            del self._watches[key]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("The background task %r failed because of a defect", task.get_name(), exc_info=error)

    async def cancel(self) -> None:
        """Cancel all tasks, and wait for their end."""
        self._watches.clear()
        await self._tasks.cancel()
