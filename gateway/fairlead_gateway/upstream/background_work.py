"""Background messages of one upstream: responses to the server's requests, cancellations, and ends of sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Final

from fairlead_gateway.upstream.session_authorization import SessionAuthorization
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.target import with_body

POST_SECONDS: Final = 5.0
"""Timeout of a message in the background."""
MAX_POSTS: Final = 256
"""Limit on messages in progress; further messages are dropped."""
ANSWER_BYTES: Final = 1 << 20
"""Limit on the bytes of the answer to a message."""


class BackgroundTasks:
    """Background tasks, which are cancelled when the upstream closes. `host` is part of the tasks' names; `clock` is
    the clock of the upstream's connection pools, in seconds.
    """

    def __init__(self, host: str, clock: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._tasks = TaskSet()

    def run(self, work: Coroutine[object, object, None], task_name: str) -> asyncio.Task[None]:
        return self._tasks.start(work, f"{task_name} {self._host}")

    def post(self, pool: Pool, head: bytes, body: bytes, authorization: SessionAuthorization) -> None:
        """Send a message in the background and ignore its outcome. The message is dropped while MAX_POSTS are in
        progress. `authorization` completes the head. If the server refuses the token, the message is sent once more
        with another token.
        """
        if len(self._tasks) < MAX_POSTS:
            self.run(self._post_authorized(pool, head, body, authorization), "post to")

    async def post_and_wait(
        self, pool: Pool, head: bytes, body: bytes, authorization: SessionAuthorization, seconds: float
    ) -> None:
        """Send a message like `post`, and wait up to `seconds` for its answer; errors are ignored."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._post_authorized(pool, head, body, authorization)

    async def _post_authorized(self, pool: Pool, head: bytes, body: bytes, authorization: SessionAuthorization) -> None:
        with contextlib.suppress(McpError):  # the request that the message belongs to fails too if the error persists
            refused_line = b""
            for _ in range(2):
                line = await authorization.valid_line(self._clock() + POST_SECONDS, refused_line)
                data, deadline = with_body(head + line, body), self._clock() + POST_SECONDS
                answer = await pool.exchange(data, deadline=deadline, max_bytes=ANSWER_BYTES)
                if answer.status != 401 or not line:
                    return
                refused_line = line

    async def aclose(self) -> None:
        await self._tasks.cancel()
