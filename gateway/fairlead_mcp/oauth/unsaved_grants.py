"""Keeps renewed grants that could not be stored in memory, and retries the write until it succeeds.

Until then, the store still has a refresh token that was used already. A replica that uses it again may end the person's
consent.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from typing import Final

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.oauth.client_registrations import translate_store_errors
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, VersionedGrant

MAX_UNSAVED: Final = 1_024
"""Maximum number of unsaved grants. Beyond it, the oldest is dropped."""
FIRST_PAUSE_SECONDS: Final = 0.2
"""First pause between two attempts to write all unsaved grants; it doubles with each attempt."""
LONGEST_PAUSE_SECONDS: Final = 5.0
"""Maximum pause between two attempts."""
CLOSE_SECONDS: Final = 10.0
"""Time limit of the last attempt, when the process ends."""


class UnsavedGrants:
    """Unsaved grants of one server, with the versions in the store that they replace."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._grants: OrderedDict[GrantKey, VersionedGrant] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def add(self, key: GrantKey, renewed: VersionedGrant) -> None:
        self._grants[key] = renewed
        if len(self._grants) > MAX_UNSAVED:
            self._grants.popitem(last=False)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._save_all(), name="renewed grants")

    async def save(self, key: GrantKey) -> None:
        """Write the unsaved grant of this key, if there is one. Raises GrantFailed."""
        unsaved = self._grants.get(key)
        if unsaved is not None:
            with translate_store_errors():  # no write if the stored grant has changed: the unsaved one is obsolete
                await self._store.write(key, unsaved.grant, unsaved.version)
            if self._grants.get(key) is unsaved:
                del self._grants[key]

    async def aclose(self) -> None:
        """Try once more to write all grants."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*map(self.save, self._grants), return_exceptions=True)
        except TimeoutError:
            pass  # the store is unavailable: persons whose grants are not stored have to sign in again

    async def _save_all(self) -> None:
        pause = Backoff(random.random, base=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS)
        while self._grants:
            await asyncio.sleep(pause.delay_after(0.0))
            for key in [*self._grants]:
                try:
                    await self.save(key)
                except GrantFailed:
                    continue  # the call that caused the renewal has already reported the failure
