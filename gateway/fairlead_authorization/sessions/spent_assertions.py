"""Assertions that any replica has taken: each is good once (RFC 7523 section 3, `jti`).

Who sends assertions has room for a number of them that are still valid, so that nobody can fill the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.passing_records import MAX_OWN, PassingRecords
from fairlead_authorization.sessions.session import SessionsAway
from fairlead_mcp.oauth.stored_grant import GrantStore, GrantStoreError

PREFIX: Final = "assertion:"
"""Begins the keys of the records (`GrantKey.server`)."""
MAX_ALIVE: Final = MAX_OWN
"""Limit on the records of one lot that a replica has written and that are still needed: 130 in a second, if assertions
live for a minute.
"""


class SpentAssertions:
    """Records in the store of grants. `now` is in seconds since the epoch."""

    def __init__(self, store: GrantStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._lots: dict[str, PassingRecords] = {}

    async def spend(self, issuer: str, name: str, ends_at: float, *, lot: str = "", room: int = MAX_ALIVE) -> bool:
        """Spend the assertion `name` (`jti`) of an issuer, which cannot be valid after `ends_at`, in seconds since the
        epoch; False if it was spent before. `lot` is what shares the room for `room` of them: by default the issuer.
        There must be few lots. Raises SessionsAway, also if there is no room left.
        """
        records = self._lots.get(lot or issuer)
        if records is None:
            records = self._lots[lot or issuer] = PassingRecords(self._store, PREFIX, self._now)
        await records.tidy()
        if records.count >= room:
            raise SessionsAway("too many assertions of this sender are still valid: try again, with shorter lives")
        digest = hashlib.blake2b(msgspec.json.encode((issuer, name)), digest_size=16).hexdigest()
        try:
            return await records.add(digest, ends_at)
        except GrantStoreError as error:
            raise SessionsAway(str(error)) from error
