"""Work that goes on for somebody who listens: one task of asyncio by holder, in a bounded number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from fairlead_gateway.limits.shares import oldest_of_largest
from fairlead_mcp.asyncio_tasks import TaskSet

log = logging.getLogger(__name__)

MAX_WATCHES: Final = 1024


class _AgentWatch(NamedTuple):
    agent: str
    task: asyncio.Task[None]


class WatchTasks:
    """Tasks by holder. Beyond MAX_WATCHES the oldest of the agent that has most is cancelled, so that none takes the
    room of others.
    """

    def __init__(self) -> None:
        self._running = TaskSet()
        self._held: dict[object, _AgentWatch] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: object, agent: str, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start `work` for a holder of an agent, in place of what the holder had before."""
        self.drop(holder)
        task = self._running.start(work, name)
        self._held[holder] = _AgentWatch(agent, task)
        task.add_done_callback(lambda done: self._over(holder, done))
        if len(self._held) > MAX_WATCHES:
            [oldest] = oldest_of_largest(((key, watch.agent, 1) for key, watch in self._held.items()), 1)
            self.drop(oldest)

    def drop(self, holder: object) -> None:
        """Cancel the task of a holder; no-op where there is none."""
        watch = self._held.pop(holder, None)
        if watch is not None:
            watch.task.cancel()

    def _over(self, holder: object, task: asyncio.Task[None]) -> None:
        watch = self._held.get(holder)
        if watch is not None and watch.task is task:
            del self._held[holder]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s ended by a defect", task.get_name(), exc_info=error)

    async def cancel(self) -> None:
        """Cancel all, and return when they are done."""
        self._held.clear()
        await self._running.cancel()
