"""Identity assertions that any replica has taken: each is good once (RFC 7523 section 3, `jti`)."""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.session import SessionsAway
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

PREFIX: Final = "assertion:"
"""Begins the keys of the records (`GrantKey.server`)."""
MAX_OWN: Final = 4_096
"""Limit on the records that a replica remembers to delete; others are deleted with expired sessions."""
_DELETED_AT_ONCE: Final = 2
"""Records that are deleted with each that is written, so that there are never many that are over."""


class SpentAssertions:
    """Records in the store of grants. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._own: deque[tuple[float, GrantKey]] = deque(maxlen=MAX_OWN)

    async def spend(self, issuer: str, name: str, ends_at: float) -> bool:
        """Spend the assertion `name` (`jti`) of an issuer, which cannot be valid after `ends_at`, in seconds since the
        epoch; False if it was spent before. Raises SessionsAway.
        """
        digest = hashlib.blake2b(msgspec.json.encode((issuer, name)), digest_size=16).hexdigest()
        key = GrantKey(b"", PREFIX + digest)
        record = StoredGrant(issuer, "", granted_at=self._now(), expires_at=ends_at)
        try:
            version = await self._store.write(key, record, "")
        except GrantStoreError as error:
            raise SessionsAway(str(error)) from error
        if version is None:
            return False
        self._own.append((ends_at, key))
        await self._tidy()
        return True

    async def _tidy(self) -> None:
        """Delete some records of this replica that are over."""
        for _ in range(_DELETED_AT_ONCE):
            if not self._own or self._own[0][0] > self._now():
                return
            _, key = self._own.popleft()
            with contextlib.suppress(GrantStoreError):
                await self._store.delete(key)
