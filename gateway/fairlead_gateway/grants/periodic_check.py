"""Repeats a check of the store of grants, such as for expired grants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantStoreError

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 300.0
"""Seconds until the first check of all grants: a starting gateway has other work."""


class PeriodicCheck:
    """Calls `check` every `seconds` from `start` to `aclose`, for the first time after `first_seconds`. `name` says in
    log messages what is checked for, such as `unused grants`.
    """

    def __init__(
        self, check: Callable[[], Awaitable[None]], name: str, seconds: float, first_seconds: float = FIRST_SECONDS
    ) -> None:
        self._check = check
        self._name = name
        self._seconds = seconds
        self._first_seconds = first_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(self._first_seconds)
        while True:
            try:
                await self._check()
            except GrantStoreError as error:
                log.warning("The check for %s failed: %s", self._name, error)
            except Exception:
                log.exception("Looking for %s failed", self._name)
            await asyncio.sleep(self._seconds)
