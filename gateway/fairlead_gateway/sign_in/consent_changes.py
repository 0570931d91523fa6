"""Waits for consents that persons give at other replicas, by the changes that the store of grants tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from fairlead_mcp.oauth.shared_task import SharedTask
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, UnreadableGrant

RETRY_SECONDS: Final = 1.0
"""Pause after a read that failed."""


class ConsentChanges:
    """Consents in `store`. All who wait for one person at one server share the reads: one at first, and one for each
    change of the grant.
    """

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._looks: dict[GrantKey, SharedTask[None]] = {}
        self._changed: dict[GrantKey, asyncio.Event] = {}
        """Set when the grant of a look was written or deleted."""
        self._watching: asyncio.Task[None] | None = None

    async def another(self, key: GrantKey) -> None:
        """Wait until the stored grant is of another consent than at the beginning. A renewal is none."""
        if self._watching is None:
            changes = self._store.changes()
            self._watching = asyncio.get_running_loop().create_task(self._watch(changes), name="changes of consents")
        look = self._looks.get(key)
        if look is None or not look.running:
            changed = self._changed[key] = asyncio.Event()
            look = self._looks[key] = SharedTask(self._look(key, changed), "look for another consent")
        try:
            await look.result()
        finally:
            if not look.running and self._looks.get(key) is look:
                del self._looks[key], self._changed[key]

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for look in list(self._looks.values()):
            await look.aclose()

    async def _watch(self, changes: AsyncIterator[GrantKey]) -> None:
        async for key in changes:
            changed = self._changed.get(key)
            if changed is not None:
                changed.set()

    async def _look(self, key: GrantKey, changed: asyncio.Event) -> None:
        before = await self._granted_at(key)
        while True:
            await changed.wait()
            changed.clear()
            if await self._granted_at(key) not in (0.0, before):  # not `>`: another replica's clock may be slow
                return

    async def _granted_at(self, key: GrantKey) -> float:
        """When the stored grant was made, in seconds since the epoch; 0 without one that can be opened. While the
        store is away nothing is known, so it is read again.
        """
        while True:
            try:
                stored = await self._store.read(key)
            except UnreadableGrant:
                return 0.0
            except GrantStoreError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return 0.0 if stored is None else stored.grant.granted_at
