"""Ends sessions: deletes their records, rejects their access tokens, and has the provider's refresh tokens revoked.

The end of a session is recorded until its last access token has expired, so that a replica that starts meanwhile
rejects these tokens too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fairlead_authorization.sessions.session_record import session_id_of, session_of
from fairlead_authorization.sessions.temporary_records import TemporaryRecords
from fairlead_gateway.identity.own_tokens import MAX_SECONDS, SKEW_SECONDS
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

log = logging.getLogger(__name__)

PREFIX: Final = "ended:"
"""Prefix of the keys of records about ended sessions (`GrantKey.server`)."""


class SessionEnds:
    """Ends sessions in `store`. `reject_tokens` rejects the tokens of a session at this replica; other replicas learn
    of the end from the store. `revoke` is called with sessions whose refresh tokens the provider should revoke. `now`
    returns seconds since the epoch.
    """

    def __init__(
        self,
        store: GrantStore,
        reject_tokens: Callable[[str], None],
        revoke: Callable[[GrantKey, StoredGrant], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._reject_tokens = reject_tokens
        self._revoke = revoke
        self._end_records = TemporaryRecords(store, PREFIX, now)
        self._now = now

    async def end(self, key: GrantKey, grant: StoredGrant, version: str | None = None) -> bool:
        """End a session; with `version`, only if its record still has this version. Returns False if the session does
        not exist any more. Raises GrantStoreError.
        """
        if not await self._store.delete(key, version):
            return False
        self._reject_tokens(session_id_of(key))
        session, now = session_of(grant), self._now()
        # a session that is not active has no tokens, and no token is valid longer than its session
        if session.state == "active" and now < session.ends_at:
            await self._remember(key, now)
        if grant.refresh_token:
            self._revoke(key, grant)
        return True

    async def _remember(self, key: GrantKey, now: float) -> None:
        await self._end_records.tidy()
        try:
            await self._end_records.add(session_id_of(key), now + MAX_SECONDS + SKEW_SECONDS)
        except GrantStoreError as error:
            log.warning(
                "A gateway that starts within ten minutes will not know of a client's session that it has ended: %s",
                error,
            )
