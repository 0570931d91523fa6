"""Ends sessions: their records go, their tokens are rejected, and the provider hears of it.

A session that has ended stays known until its last access token has expired, so that a replica that starts meanwhile
rejects that too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fairlead_authorization.sessions.passing_records import PassingRecords
from fairlead_authorization.sessions.session_record import session_id_of, session_of
from fairlead_gateway.identity.own_tokens import MAX_SECONDS, SKEW_SECONDS
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

log = logging.getLogger(__name__)

PREFIX: Final = "ended:"
"""Begins the keys of what remains of sessions that have ended (`GrantKey.server`)."""


class SessionEnds:
    """Ends sessions in `store`. `ended` rejects the tokens of a session at this replica, to which others come by the
    store, and `revoke` takes sessions whose refresh tokens the provider should revoke; `now` is in seconds since the
    epoch.
    """

    def __init__(
        self,
        store: GrantStore,
        ended: Callable[[str], None],
        revoke: Callable[[GrantKey, StoredGrant], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._ended = ended
        self._revoke = revoke
        self._remembered = PassingRecords(store, PREFIX, now)
        self._now = now

    async def end(self, key: GrantKey, grant: StoredGrant, version: str | None = None) -> bool:
        """End a session, with `version` only if its record still has it; False if there is none any more. Raises
        GrantStoreError.
        """
        if not await self._store.delete(key, version):
            return False
        self._ended(session_id_of(key))
        session, now = session_of(grant), self._now()
        # before it is active a session has no tokens, and no token outlives it
        if session.state == "active" and now < session.ends_at:
            await self._remember(key, now)
        if grant.refresh_token:
            self._revoke(key, grant)
        return True

    async def _remember(self, key: GrantKey, now: float) -> None:
        await self._remembered.tidy()
        try:
            await self._remembered.add(session_id_of(key), now + MAX_SECONDS + SKEW_SECONDS)
        except GrantStoreError as error:
            log.warning(
                "A gateway that starts within ten minutes will not know of a client's session that it has ended: %s",
                error,
            )
