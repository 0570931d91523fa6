"""Limit on the concurrent requests over one connection or to one process; use `with limit:` around a request."""

from __future__ import annotations

import asyncio

from fairlead_mcp.errors import PoolFull
from fairlead_mcp.waiting import wait_until_set


class ConcurrencyLimit:
    """Counter that refuses requests beyond a limit, without a queue. `name` is the server's name, for the error."""

    __slots__ = ("_idle", "_limit", "_name", "busy")

    def __init__(self, limit: int, name: object) -> None:
        self._limit = limit
        self._name = name
        self._idle: asyncio.Event | None = None
        self.busy = 0

    def __enter__(self) -> None:
        """Count a request. Raises PoolFull at the limit."""
        if self.busy >= self._limit:
            raise PoolFull(
                f"{self._limit} requests to the server {self._name} are in progress, which is the limit: retry later"
            )
        self.busy += 1

    def __exit__(self, *_: object) -> None:
        self.busy -= 1
        if self.busy == 0 and self._idle is not None:
            self._idle.set()
            self._idle = None

    async def wait_until_idle(self, grace: float) -> None:
        """Wait until no request is in progress, for at most `grace` seconds."""
        if not self.busy or grace <= 0:
            return
        if self._idle is None:
            self._idle = asyncio.Event()
        await wait_until_set(self._idle, grace)
