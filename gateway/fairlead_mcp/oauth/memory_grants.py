"""Stores grants in the memory of one process. They are lost with it, and unknown to other replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container, Sequence
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant, VersionedGrant

MAX_GRANTS: Final = 8_192
_MAX_UNREAD: Final = 1_024
"""Maximum number of changes that a slow reader has not read yet. Beyond it, the reader misses the oldest."""


class MemoryGrants(GrantStore):
    """A store of at most `max_grants` grants."""

    def __init__(self, max_grants: int = MAX_GRANTS) -> None:
        self._max_grants = max_grants
        self._grants: dict[GrantKey, VersionedGrant] = {}
        self._writes = 0
        self._readers: set[asyncio.Queue[GrantKey | None]] = set()
        self._closed = False

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        return self._grants.get(key)

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        if replaces is not None and replaces != self._version(key):
            return None
        if key not in self._grants and len(self._grants) >= self._max_grants:
            raise GrantStoreError(
                f"the gateway already stores {self._max_grants} sign-ins, its maximum: remove some, or use a store"
            )
        self._writes += 1
        version = str(self._writes)
        self._grants[key] = VersionedGrant(grant, version)
        self._notify(key)
        return version

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        if key not in self._grants or version not in (None, self._version(key)):
            return False
        del self._grants[key]
        self._notify(key)
        return True

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return [(key, stored.grant) for key, stored in self._grants.items() if key.person == person]

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        keys = [key for key in self._grants if servers is None or key.server in servers]
        return [(key, self._grants[key].grant) for key in keys]

    async def changes(self, *, deletions: bool = False) -> AsyncGenerator[GrantKey, None]:
        if self._closed:
            return
        queue: asyncio.Queue[GrantKey | None] = asyncio.Queue()
        self._readers.add(queue)
        try:
            while (key := await queue.get()) is not None:
                if not (deletions and key in self._grants):
                    yield key
        finally:
            self._readers.discard(queue)

    async def aclose(self) -> None:
        """End the iterators of changes."""
        self._closed = True
        for queue in self._readers:
            queue.put_nowait(None)

    def _version(self, key: GrantKey) -> str:
        """Version of the record; empty if there is none."""
        stored = self._grants.get(key)
        return "" if stored is None else stored.version

    def _notify(self, key: GrantKey) -> None:
        for queue in self._readers:
            if queue.qsize() >= _MAX_UNREAD:
                queue.get_nowait()
            queue.put_nowait(key)
