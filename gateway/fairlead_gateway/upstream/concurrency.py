"""Limit on the requests in progress over one connection or at one process; `with limit:` is one request."""

from __future__ import annotations

import asyncio

from fairlead_mcp.errors import PoolFull
from fairlead_mcp.waiting import wait_until_set


class ConcurrencyLimit:
    """Counter that refuses what exceeds its limit, without a queue. `name` of the server is for the error."""

    __slots__ = ("_limit", "_name", "_quiet", "busy")

    def __init__(self, limit: int, name: object) -> None:
        self._limit = limit
        self._name = name
        self._quiet: asyncio.Event | None = None
        self.busy = 0

    def __enter__(self) -> None:
        """Raises PoolFull."""
        if self.busy >= self._limit:
            raise PoolFull(f"{self._limit} requests to {self._name} are running already")
        self.busy += 1

    def __exit__(self, *_: object) -> None:
        self.busy -= 1
        if self.busy == 0 and self._quiet is not None:
            self._quiet.set()

    async def quiet(self, grace: float) -> None:
        """Wait until no request is in progress, for `grace` seconds at the most."""
        if not self.busy or grace <= 0:
            return
        self._quiet = asyncio.Event()
        await wait_until_set(self._quiet, grace)
