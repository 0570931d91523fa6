"""Ends the grants of persons with which nobody has made a call for a long time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from fairlead_gateway.grants.accounts import Accounts
from fairlead_mcp.oauth.stored_grant import GrantStoreError

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 6 * 3_600.0
"""Time between two looks, of which each reads all grants."""
FIRST_SECONDS: Final = 300.0
"""Time until the first look, as a start has other work."""


class UnusedGrants:
    """Looks for unused accounts, from `start` to `aclose`. `wall` is in seconds since the epoch."""

    def __init__(self, accounts: Accounts, wall: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._wall = wall
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._run(), name="unused grants")

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            try:
                await self.look()
            except GrantStoreError as error:
                log.warning("Unused grants of persons were not looked for: %s", error)
            except Exception:
                log.exception("Ending unused grants failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """End the accounts that are due, and revoke their grants where that is possible. Raises GrantStoreError."""
        now = self._wall()
        for account in await self._accounts.everybodys():
            if 0 < self._accounts.unused_until(account) <= now:
                await self._accounts.end(account.server, account.person)
                log.info("A grant of a person for the server %s was deleted, as no call used it", account.server)
