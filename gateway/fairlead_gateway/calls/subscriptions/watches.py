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
    """Asyncio tasks of subscriptions by `holder`, any key that identifies a subscription.

    Beyond MAX_WATCHES, the oldest task of the agent with the most tasks is cancelled.
    """

    def __init__(self) -> None:
        self._running = TaskSet()
        self._watches: dict[object, _AgentWatch] = {}
        """Running tasks by `holder`, the oldest first."""

    def __len__(self) -> int:
        return len(self._watches)

    def hold(self, holder: object, agent: str, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task, in place of an earlier task of `holder`. The task counts for `agent`."""
        self.drop(holder)
        task = self._running.start(work, name)
        self._watches[holder] = _AgentWatch(agent, task)
        task.add_done_callback(lambda done: self._remove_ended(holder, done))
        if len(self._watches) > MAX_WATCHES:
            [oldest] = oldest_of_largest(((key, watch.agent, 1) for key, watch in self._watches.items()), 1)
            self.drop(oldest)

    def drop(self, holder: object) -> None:
        """Cancel the task of a holder; no-op if it has none."""
        watch = self._watches.pop(holder, None)
        if watch is not None:
            watch.task.cancel()

    def _remove_ended(self, holder: object, task: asyncio.Task[None]) -> None:
        watch = self._watches.get(holder)
        if watch is not None and watch.task is task:
            del self._watches[holder]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("The background task %r failed because of a defect", task.get_name(), exc_info=error)

    async def cancel(self) -> None:
        """Cancel all tasks, and wait for their end."""
        self._watches.clear()
        await self._running.cancel()
