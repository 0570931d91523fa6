"""Tasks that one process of a server has open (SEP-2663): each until its end, or until its `ttlMs` is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_mcp.server_tasks import TERMINAL, Task


class _Open:
    """One task. `began` is in seconds of the loop's clock, by which its `ttlMs` counts."""

    __slots__ = ("began", "timer", "ttl_ms")

    def __init__(self, began: float) -> None:
        self.began = began
        self.ttl_ms: int | None = None
        self.timer: asyncio.TimerHandle | None = None


class ProcessTasks:
    """Open tasks by the server's own id. `expired` is called when the last one is gone because its time is over."""

    __slots__ = ("_expired", "_open")

    def __init__(self, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, task_id: str, task: Task) -> None:
        """The process has made a task."""
        if task.status not in TERMINAL:
            self._open[task_id] = _Open(asyncio.get_running_loop().time())
            self._follow(task_id, task.ttl_ms)

    def update(self, task_id: str, task: Task) -> None:
        """The process has said how a task is; its `ttlMs` may have changed."""
        if task.status in TERMINAL:
            self.close(task_id)
        elif task_id in self._open:
            self._follow(task_id, task.ttl_ms)

    def close(self, task_id: str) -> None:
        """A task has ended, or is cancelled. No-op for one that is not open."""
        ended = self._open.pop(task_id, None)
        if ended is not None and ended.timer is not None:
            ended.timer.cancel()

    def clear(self) -> None:
        """Forget all of them; nothing is told."""
        for task_id in [*self._open]:
            self.close(task_id)

    def _follow(self, task_id: str, ttl_ms: int | None) -> None:
        task = self._open[task_id]
        if ttl_ms == task.ttl_ms:
            return
        task.ttl_ms = ttl_ms
        if task.timer is not None:
            task.timer.cancel()
        task.timer = None
        if ttl_ms is not None:
            due = task.began + max(ttl_ms, 0) / 1000
            task.timer = asyncio.get_running_loop().call_at(due, self._over, task_id)

    def _over(self, task_id: str) -> None:
        self.close(task_id)
        if not self._open:
            self._expired()
