"""Renewed grants that the store did not take: they are in this process alone until it does, and it is tried until then.

The refresh token that the store still has was used, so a replica that uses it may end the person's consent.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from typing import Final

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.oauth.client_registrations import reading_grants
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, VersionedGrant

MOST_UNSAVED: Final = 1_024
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 5.0
"""Pauses between two tries to write all of them."""
CLOSE_SECONDS: Final = 10.0
"""Time limit of the last try."""


class UnsavedGrants:
    """Grants of one server with the versions that they replace, at most MOST_UNSAVED."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._grants: OrderedDict[GrantKey, VersionedGrant] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def add(self, key: GrantKey, renewed: VersionedGrant) -> None:
        self._grants[key] = renewed
        if len(self._grants) > MOST_UNSAVED:
            self._grants.popitem(last=False)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._save_all(), name="renewed grants")

    async def save(self, key: GrantKey) -> None:
        """Write what the store did not take of this key. Raises GrantFailed."""
        unsaved = self._grants.get(key)
        if unsaved is not None:
            with reading_grants():  # if the grant has changed, it is obsolete
                await self._store.write(key, unsaved.grant, unsaved.version)
            if self._grants.get(key) is unsaved:
                del self._grants[key]

    async def aclose(self) -> None:
        """Try once more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*map(self.save, self._grants), return_exceptions=True)
        except TimeoutError:
            pass  # the store is away: who is missing signs in again

    async def _save_all(self) -> None:
        pause = Backoff(random.random, base=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS)
        while self._grants:
            await asyncio.sleep(pause.after(0.0))
            for key in [*self._grants]:
                try:
                    await self.save(key)
                except GrantFailed:
                    continue  # the call whose renewal it was has failed with the reason
