"""Ends grants that no call has used for a long time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fairlead_gateway.grants.accounts import Accounts
from fairlead_gateway.grants.periodic_check import PeriodicCheck

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 6 * 3_600.0
"""Seconds between two checks. Each check reads all grants."""


class UnusedGrants:
    """Checks for unused accounts, from `start` to `aclose`. `wall` returns seconds since the epoch."""

    def __init__(self, accounts: Accounts, wall: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._wall = wall
        self._periodic = PeriodicCheck(self.check, "unused grants", CHECK_SECONDS)

    def start(self) -> None:
        self._periodic.start()

    async def aclose(self) -> None:
        await self._periodic.aclose()

    async def check(self) -> None:
        """End unused accounts, and revoke their grants if possible. Raises GrantStoreError."""
        now = self._wall()
        for account in await self._accounts.of_everybody():
            if 0 < self._accounts.unused_until(account) <= now:
                reason = f"your sign-in at {account.server} was ended, because no call used it"
                await self._accounts.end(account.server, account.person, reason)
                log.info("A user's grant for the server %s was deleted, because no call used it", account.server)
