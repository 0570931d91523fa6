"""Runs the callbacks of a registry about its connections, in order and one at a time, without delaying tool calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from fairlead_mcp.errors import McpError

logger = logging.getLogger(__name__)

OnConnect: TypeAlias = Callable[[str], object]
"""Called with the name of a server after each handshake. May be a coroutine function."""
OnDisconnect: TypeAlias = Callable[[str, McpError | None], object]
"""Called with the name of a server and the error that ended the connection, or None if the registry closed it. May be a
coroutine function."""

CLOSE_SECONDS: Final = 5.0
"""Seconds for which queued callbacks may still run when the registry is closed."""


class Callbacks:
    """Queue of callbacks that run one after the other. Exceptions of callbacks are logged and have no other effect."""

    def __init__(self, on_connect: OnConnect | None = None, on_disconnect: OnDisconnect | None = None) -> None:
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._queued: asyncio.Queue[Callable[[], object] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def queue_connected(self, server: str) -> None:
        """Queue `on_connect` after a successful handshake."""
        if (callback := self._on_connect) is not None:
            self._queue(lambda: callback(server))

    def queue_disconnected(self, server: str, error: McpError | None) -> None:
        """Queue `on_disconnect` after the end of a connection that `queue_connected` has reported."""
        if (callback := self._on_disconnect) is not None:
            self._queue(lambda: callback(server, error))

    async def aclose(self) -> None:
        """Run the queued callbacks for at most `CLOSE_SECONDS` seconds."""
        task, self._task = self._task, None
        if task is None or task is asyncio.current_task():
            return
        self._queued.put_nowait(None)
        await asyncio.wait([task], timeout=CLOSE_SECONDS)
        task.cancel()
        await asyncio.wait([task])

    def _queue(self, callback: Callable[[], object]) -> None:
        self._queued.put_nowait(callback)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="callbacks of a tool registry")

    async def _run(self) -> None:
        while (callback := await self._queued.get()) is not None:
            try:
                outcome = callback()
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                logger.exception("a callback (on_connect or on_disconnect) of the tool registry failed")
