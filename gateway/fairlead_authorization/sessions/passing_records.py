"""Records of the gateway itself that are needed for a limited time, such as those of used assertions."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

MAX_OWN: Final = 8_192
"""Maximum number of records that a replica remembers and deletes; others are deleted with expired sessions."""
_DELETED_AT_ONCE: Final = 2
"""Number of expired records that are deleted whenever one is written, so that there are never many of them."""


class PassingRecords:
    """Records whose keys begin with `prefix`, written by one replica. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, prefix: str, now: Callable[[], float]) -> None:
        self._store = store
        self._prefix = prefix
        self._now = now
        self._own: deque[tuple[float, GrantKey]] = deque(maxlen=MAX_OWN)
        """With their ends."""

    @property
    def count(self) -> int:
        """Number of records that were written here and are not deleted yet."""
        return len(self._own)

    async def add(self, name: str, ends_at: float) -> bool:
        """Write a record that is needed until `ends_at`, in seconds since the epoch; returns False if a record with
        this name exists. Raises GrantStoreError.
        """
        key = GrantKey(b"", self._prefix + name)
        record = StoredGrant("", "", granted_at=self._now(), expires_at=ends_at)
        if await self._store.write(key, record, "") is None:
            return False
        self._own.append((ends_at, key))
        return True

    async def tidy(self) -> None:
        """Delete some expired records."""
        for _ in range(_DELETED_AT_ONCE):
            if not self._own or self._own[0][0] > self._now():
                return
            _, key = self._own.popleft()
            with contextlib.suppress(GrantStoreError):
                await self._store.delete(key)
