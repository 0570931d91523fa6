"""Work of one upstream that no request waits for: answers to a server's questions, cancellations, ends of sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Final

from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.target import with_body

POST_SECONDS: Final = 5.0
"""Bound on a message that nobody waits for."""
MAX_POSTS: Final = 256
ANSWER_BYTES: Final = 1 << 20
"""Largest answer to one."""


class Background:
    """Tasks that end with their upstream. `clock` is that of its pools, in seconds."""

    def __init__(self, host: str, clock: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._tasks = TaskSet()

    def run(self, work: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
        return self._tasks.start(work, f"{what} {self._host}")

    def post(self, pool: Pool, head: bytes, body: bytes) -> None:
        """Send a message whose outcome is of no interest; dropped while MAX_POSTS are on their way."""
        if len(self._tasks) < MAX_POSTS:
            self.run(self.post_and_wait(pool, head, body, POST_SECONDS), "post to")

    async def post_and_wait(self, pool: Pool, head: bytes, body: bytes, seconds: float) -> None:
        """As `post`, to be waited for."""
        with contextlib.suppress(McpError):  # the request that it belongs to meets the same trouble, if it lasts
            deadline = self._clock() + seconds
            await pool.exchange(with_body(head, body), deadline=deadline, max_bytes=ANSWER_BYTES)

    async def aclose(self) -> None:
        await self._tasks.cancel()
