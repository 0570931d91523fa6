"""Rejects the access tokens of sessions that ended, here or at another replica, within a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fairlead_authorization.sessions.session_record import session_id_of
from fairlead_gateway.grants.reviewed_changes import ReviewedChanges
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, UnreadableGrant

log = logging.getLogger(__name__)


class EndedSessions:
    """Watches `store`, from `start` to `aclose`. `end` rejects the tokens of a session, `pause` waits for seconds."""

    def __init__(
        self,
        store: GrantStore,
        end: Callable[[str], None],
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._end = end
        # a sign-in writes six times, and to read each of them again, at all replicas, was a sixth of its cost
        self._changes = ReviewedChanges(store, self._review, "ended sessions", pause, deletions=True)

    def start(self) -> None:
        self._changes.start()

    async def aclose(self) -> None:
        await self._changes.aclose()

    async def _review(self, key: GrantKey) -> bool:
        """Reject the tokens of a changed session if it has ended; False if that is not known."""
        session = session_id_of(key)
        if not session:
            return True
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:
            stored = None
        except GrantStoreError as error:
            log.warning("Whether a client's session has ended is not known yet: %s", error)
            return False
        if stored is None:
            self._end(session)
        return True
