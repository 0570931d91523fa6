"""Deletes expired records of sessions, consents, used assertions and ended sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fairlead_authorization.sessions import consents, session_ends, session_record, spent_assertions
from fairlead_authorization.sessions.session_ends import SessionEnds
from fairlead_gateway.grants.periodic_check import PeriodicCheck
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant

CHECK_SECONDS: Final = 3_600.0
"""Time between two searches for expired records; each reads all sessions."""
_PREFIXES: Final = (session_record.PREFIX, consents.PREFIX, spent_assertions.PREFIX, session_ends.PREFIX)


class _TemporaryRecords:
    """Container of the values of `GrantKey.server` whose records are checked."""

    def __contains__(self, server: object) -> bool:
        return isinstance(server, str) and server.startswith(_PREFIXES)


class ExpiredSessions:
    """Deletes expired records, from `start` to `aclose`. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, ends: SessionEnds, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._ends = ends
        self._now = now
        self._periodic = PeriodicCheck(self.check, "expired sessions", CHECK_SECONDS)

    def start(self) -> None:
        self._periodic.start()

    async def aclose(self) -> None:
        await self._periodic.aclose()

    async def check(self) -> None:
        """Delete the expired records. Raises GrantStoreError."""
        now = self._now()
        for key, grant in await self._store.all_grants(_TemporaryRecords()):
            if not _is_over(key, grant, now):
                continue
            if grant.session is not None:
                await self._ends.end(key, grant)
            else:
                await self._store.delete(key)


def _is_over(key: GrantKey, grant: StoredGrant, now: float) -> bool:
    if key.server.startswith((spent_assertions.PREFIX, session_ends.PREFIX)):
        return now >= grant.expires_at
    if grant.session is not None:
        return session_record.has_ended(grant, now)
    return consents.has_lapsed(grant, now)
