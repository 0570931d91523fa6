"""Asks the provider about the person of a session, one replica at a time.

A provider that rotates refresh tokens gives each one once, and may end a person's grant whose refresh token it sees
twice. So a replica claims the session by compare-and-set before it asks, and others wait until it is done or the claim
ends.

A process that is killed between the provider's answer and the write leaves the old refresh token in the store. A
provider that takes it once more, as many do for some seconds, gives another one; at the others the person signs in
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.record_store import SessionRecords
from fairlead_authorization.sessions.session import (
    PersonGone,
    ProviderAway,
    ProviderGrant,
    Renew,
    SessionRefused,
    SessionsAway,
)
from fairlead_authorization.sessions.session_record import (
    SessionTimes,
    has_grant_of,
    person_of_session,
    renewed,
    session_of,
)
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant, VersionedGrant

CLAIM_SECONDS: Final = 25.0
"""Time for which a replica renews a session alone; longer than the requests and the write take."""
SKEW_SECONDS: Final = 120.0
"""Difference between the clocks of two replicas that is tolerated."""
PAUSE_SECONDS: Final = 0.1
"""Time between two reads of a session that another replica renews."""


class Renewals:
    """Renews sessions. `now` is in seconds since the epoch, `clock` any monotonic clock, `pause` waits for seconds."""

    def __init__(
        self,
        records: SessionRecords,
        times: SessionTimes,
        now: Callable[[], float],
        clock: Callable[[], float],
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._records = records
        self._times = times
        self._now = now
        self._clock = clock
        self._pause = pause

    async def renew(
        self, key: GrantKey, generation: int, renew: Renew, latest: VersionedGrant
    ) -> VersionedGrant | None:
        """The session, whose record was `latest` a moment ago, with the person as the provider says now, claimed if the
        provider was asked; its caller writes it next. None if its refresh token was superseded meanwhile, or if it has
        ended. Raises SessionRefused if the provider has ended the person's access, which ends the session,
        ProviderAway, and SessionsAway.
        """
        stored = await self._claim(key, generation, latest)
        if stored is None or not stored.grant.refresh_token:
            return stored
        try:
            answer = await renew(person_of_session(stored.grant), stored.grant.refresh_token)
        except PersonGone as error:
            gone = msgspec.structs.replace(stored.grant, refresh_token="")  # so that nobody asks for its revocation
            if not await self._records.end(key, gone, stored.version):
                return None
            await self._end_others(key.person, stored.grant)
            raise SessionRefused("the provider has ended the person's access: sign in again") from error
        except Exception as error:
            await self._release(key, stored, error.grant if isinstance(error, ProviderAway) else None)
            raise
        try:
            grant = renewed(stored.grant, answer.person, answer.grant, self._times, self._now())
        except SessionRefused:
            given = msgspec.structs.replace(stored.grant, refresh_token=answer.grant.refresh_token)
            await self._records.end(key, given, stored.version)
            raise
        return VersionedGrant(grant, stored.version)

    async def _claim(self, key: GrantKey, generation: int, latest: VersionedGrant) -> VersionedGrant | None:
        """Wait until no other replica renews the session, and let others wait from now on. None if it has changed.

        The time in a claim is that of another clock. So a claim ends here when its record has not changed for
        CLAIM_SECONDS; the time only tells one of now from one that was left long ago.
        """
        seen, seen_at = "", 0.0
        stored: VersionedGrant | None = latest
        while True:
            if stored is None or session_of(stored.grant).generation > generation:
                return None
            if not stored.grant.refresh_token:
                return stored
            now = self._now()
            if stored.grant.renewing_until and abs(stored.grant.renewing_until - now) <= CLAIM_SECONDS + SKEW_SECONDS:
                if stored.version != seen:
                    seen, seen_at = stored.version, self._clock()
                if self._clock() < seen_at + CLAIM_SECONDS:
                    await self._pause(PAUSE_SECONDS)
                    stored = await self._records.read(key)
                    continue
            claim = msgspec.structs.replace(stored.grant, renewing_until=now + CLAIM_SECONDS)
            version = await self._records.write(key, claim, stored.version)
            if version is not None:
                return VersionedGrant(claim, version)
            stored = await self._records.read(key)

    async def _end_others(self, person: bytes, ended: StoredGrant) -> None:
        """End the sessions by a grant that the provider has ended."""
        for key, grant in await self._records.of_person(person):
            if grant.session is not None and has_grant_of(grant, ended):
                await self._records.end(key, msgspec.structs.replace(grant, refresh_token=""))

    async def _release(self, key: GrantKey, claimed: VersionedGrant, given: ProviderGrant | None) -> None:
        """Let other replicas renew the session, with the grant that the provider has issued already."""
        grant = msgspec.structs.replace(claimed.grant, renewing_until=0.0)
        if given is not None:
            grant = renewed(grant, person_of_session(grant), given, self._times, self._now())
        try:
            await self._records.write(key, grant, claimed.version)
        except SessionsAway:  # the claim ends by itself
            if given is not None:
                self._records.write_later(key, grant, claimed.version)
