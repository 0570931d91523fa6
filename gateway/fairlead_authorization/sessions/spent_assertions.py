"""Assertions that any replica has taken: each is good once (RFC 7523 section 3, `jti`).

Who sends assertions has room for a number of them that are still valid, so that nobody can fill the store.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.session import SessionsAway
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

PREFIX: Final = "assertion:"
"""Begins the keys of the records (`GrantKey.server`)."""
MAX_ALIVE: Final = 8_192
"""Limit on the records of one lot that a replica has written and that are still needed: 130 in a second, if assertions
live for a minute.
"""
_DELETED_AT_ONCE: Final = 2
"""Records that are deleted with each that is written, so that there are never many that are over."""


class SpentAssertions:
    """Records in the store of grants. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._own: defaultdict[str, deque[tuple[float, GrantKey]]] = defaultdict(deque)
        """Records of this replica by lot, with their ends; those of others are deleted with expired sessions."""

    async def spend(self, issuer: str, name: str, ends_at: float, *, lot: str = "", room: int = MAX_ALIVE) -> bool:
        """Spend the assertion `name` (`jti`) of an issuer, which cannot be valid after `ends_at`, in seconds since the
        epoch; False if it was spent before. `lot` is what shares the room for `room` of them: by default the issuer.
        There must be few lots. Raises SessionsAway, also if there is no room left.
        """
        own = self._own[lot or issuer]
        await self._tidy(own)
        if len(own) >= room:
            raise SessionsAway("too many assertions of this sender are still valid: try again, with shorter lives")
        digest = hashlib.blake2b(msgspec.json.encode((issuer, name)), digest_size=16).hexdigest()
        key = GrantKey(b"", PREFIX + digest)
        record = StoredGrant("", "", granted_at=self._now(), expires_at=ends_at)
        try:
            version = await self._store.write(key, record, "")
        except GrantStoreError as error:
            raise SessionsAway(str(error)) from error
        if version is None:
            return False
        own.append((ends_at, key))
        return True

    async def _tidy(self, own: deque[tuple[float, GrantKey]]) -> None:
        """Delete some records that are over."""
        for _ in range(_DELETED_AT_ONCE):
            if not own or own[0][0] > self._now():
                return
            _, key = own.popleft()
            with contextlib.suppress(GrantStoreError):
                await self._store.delete(key)
