"""Tasks that nobody awaits one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskSet(set[asyncio.Task[None]]):
    """Running tasks of one owner; each leaves the set when it is done."""

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` as a task of the running loop."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def cancel(self) -> None:
        """Cancel all, and return when they are done."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)
