"""Records of the gateway that are needed for a limited time, such as records of used assertions."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

MAX_RECORDS: Final = 8_192
"""Maximum number of records whose keys a replica remembers in order to delete them. Other records are deleted together
with expired sessions."""
_MAX_DELETIONS: Final = 2
"""Maximum number of expired records that are deleted whenever a record is written."""


class TemporaryRecords:
    """Records whose keys begin with `prefix`, written by one replica. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, prefix: str, now: Callable[[], float]) -> None:
        self._store = store
        self._prefix = prefix
        self._now = now
        self._own_records: deque[tuple[float, GrantKey]] = deque(maxlen=MAX_RECORDS)
        """Keys of these records, each with the time at which it expires."""

    @property
    def count(self) -> int:
        """Number of records that this object has written and not deleted yet."""
        return len(self._own_records)

    async def add(self, name: str, ends_at: float) -> bool:
        """Write a record that is needed until `ends_at` (seconds since the epoch). Returns False if a record with this
        name exists. Raises GrantStoreError.
        """
        key = GrantKey(b"", self._prefix + name)
        record = StoredGrant("", "", granted_at=self._now(), expires_at=ends_at)
        if await self._store.write(key, record, "") is None:
            return False
        self._own_records.append((ends_at, key))
        return True

    async def tidy(self) -> None:
        """Delete some expired records."""
        for _ in range(_MAX_DELETIONS):
            if not self._own_records or self._own_records[0][0] > self._now():
                return
            _, key = self._own_records.popleft()
            with contextlib.suppress(GrantStoreError):
                await self._store.delete(key)
