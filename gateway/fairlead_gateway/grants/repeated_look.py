"""Checks the store of grants periodically for grants that have to end because time has passed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantStoreError

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 300.0
"""Seconds until the first check of all grants: a starting gateway has other work."""


class RepeatedLook:
    """Calls `look` every `seconds` from `start` to `aclose`, for the first time after `first_seconds`. `name` says in
    log messages what is checked for, such as `unused grants`.
    """

    def __init__(
        self, look: Callable[[], Awaitable[None]], name: str, seconds: float, first_seconds: float = FIRST_SECONDS
    ) -> None:
        self._look = look
        self._name = name
        self._seconds = seconds
        self._first_seconds = first_seconds
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(self._first_seconds)
        while True:
            try:
                await self._look()
            except GrantStoreError as error:
                log.warning("The check for %s failed: %s", self._name, error)
            except Exception:
                log.exception("Looking for %s failed", self._name)
            await asyncio.sleep(self._seconds)
