"""Open tasks of one server process (SEP-2663). A task is open until its end, or until its `ttlMs` has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_mcp.server_tasks import TERMINAL, Task


class _OpenTask:
    """One task. Its `ttlMs` counts from `started_at`, in seconds of the loop's clock."""

    __slots__ = ("started_at", "timer", "ttl_ms")

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.ttl_ms: int | None = None
        self.timer: asyncio.TimerHandle | None = None


class ProcessTasks:
    """Open tasks by the server's own id. `on_expiry` is called when the `ttlMs` of the last open task has passed."""

    __slots__ = ("_on_expiry", "_open_tasks")

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        self._on_expiry = on_expiry
        self._open_tasks: dict[str, _OpenTask] = {}

    def __len__(self) -> int:
        return len(self._open_tasks)

    def open(self, task_id: str, task: Task) -> None:
        """Record a new task."""
        if task.status not in TERMINAL:
            self._open_tasks[task_id] = _OpenTask(asyncio.get_running_loop().time())
            self._set_ttl(task_id, task.ttl_ms)

    def update(self, task_id: str, task: Task) -> None:
        """Record the state of a task, whose `ttlMs` may have changed."""
        if task.status in TERMINAL:
            self.close(task_id)
        elif task_id in self._open_tasks:
            self._set_ttl(task_id, task.ttl_ms)

    def close(self, task_id: str) -> None:
        """Record the end or cancellation of a task; no-op if it is not open."""
        task = self._open_tasks.pop(task_id, None)
        if task is not None and task.timer is not None:
            task.timer.cancel()

    def clear(self) -> None:
        """Drop all tasks, without calling `on_expiry`."""
        for task_id in [*self._open_tasks]:
            self.close(task_id)

    def _set_ttl(self, task_id: str, ttl_ms: int | None) -> None:
        task = self._open_tasks[task_id]
        if ttl_ms == task.ttl_ms:
            return
        task.ttl_ms = ttl_ms
        if task.timer is not None:
            task.timer.cancel()
        task.timer = None
        if ttl_ms is not None:
            expires_at = task.started_at + max(ttl_ms, 0) / 1000
            task.timer = asyncio.get_running_loop().call_at(expires_at, self._expire, task_id)

    def _expire(self, task_id: str) -> None:
        self.close(task_id)
        if not self._open_tasks:
            self._on_expiry()
