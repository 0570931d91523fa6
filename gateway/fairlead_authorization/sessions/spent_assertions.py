"""Records used assertions for all replicas, so that each assertion is used only once (RFC 7523 section 3, `jti`).

The number of records of unexpired assertions is limited per group of senders, so that nobody can fill the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.temporary_records import MAX_RECORDS, TemporaryRecords
from fairlead_mcp.oauth.stored_grant import GrantStore, GrantStoreError

PREFIX: Final = "assertion:"
"""Prefix of the keys of the records (`GrantKey.server`)."""
MAX_ALIVE: Final = MAX_RECORDS
"""Maximum number of records of one group that a replica has written and that are still needed: 130 per second, if
assertions are valid for a minute.
"""


class SpentAssertions:
    """Records in the store of grants. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._groups: dict[str, TemporaryRecords] = {}

    async def spend(self, issuer: str, name: str, ends_at: float, *, group: str = "", limit: int = MAX_ALIVE) -> bool:
        """Record the use of the assertion `name` (`jti`) of an issuer; False if it was used before. The assertion is
        invalid after `ends_at` (seconds since the epoch). The assertions of one `group` (by default, of the issuer)
        share `limit`; there must be few groups. Raises SessionStoreUnavailable, also if the limit is reached.
        """
        records = self._groups.get(group or issuer)
        if records is None:
            records = self._groups[group or issuer] = TemporaryRecords(self._store, PREFIX, self._now)
        await records.tidy()
        if records.count >= limit:
            raise SessionStoreUnavailable(
                "too many assertions of this sender are still valid: use assertions that expire sooner, and try again"
            )
        digest = hashlib.blake2b(msgspec.json.encode((issuer, name)), digest_size=16).hexdigest()
        try:
            return await records.add(digest, ends_at)
        except GrantStoreError as error:
            raise SessionStoreUnavailable(str(error)) from error
