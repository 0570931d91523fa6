"""Set of background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskSet(set[asyncio.Task[None]]):
    """Running tasks of one owner. A task is removed when it is done."""

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task of the running event loop."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they are done."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)
