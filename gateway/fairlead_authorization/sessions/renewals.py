"""Renews the person of a session at the provider, at one replica at a time.

A provider that rotates refresh tokens accepts each token once, and may end the grant if it sees a token twice. So a
replica claims the session by compare-and-set before the request, and other replicas wait until the renewal is done or
the claim expires.

If a process is killed between the provider's answer and the write, the store still has the old refresh token. Many
providers accept this token again for some seconds; at other providers, the person has to sign in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead_authorization.sessions.record_store import SessionRecords
from fairlead_authorization.sessions.session import (
    IdentityProviderUnavailable,
    ProviderGrant,
    Renew,
    RenewalRefused,
    SessionRefused,
    SessionStoreUnavailable,
)
from fairlead_authorization.sessions.session_record import (
    SessionTimes,
    apply_renewal,
    has_grant_of,
    person_of_session,
    session_of,
)
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant, VersionedGrant

CLAIM_SECONDS: Final = 25.0
"""Lifetime of a replica's claim; longer than the requests and the write take."""
SKEW_SECONDS: Final = 120.0
"""Tolerated difference between the clocks of two replicas."""
PAUSE_SECONDS: Final = 0.1
"""Time between two reads of a session that another replica renews."""


class Renewals:
    """Renews sessions. `now` returns seconds since the epoch, `clock` is any monotonic clock, `pause` waits for a
    number of seconds.
    """

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
        self, key: GrantKey, generation: int, renew: Renew, latest_record: VersionedGrant
    ) -> VersionedGrant | None:
        """Renew the person of a session at the provider. `latest_record` is the session's record, read just before.
        Returns the changed record, which the caller has to write; it is claimed if the provider was asked. None if the
        session has ended, or if its refresh token was superseded meanwhile.

        Raises IdentityProviderUnavailable, SessionStoreUnavailable, and SessionRefused if the provider has ended the
        person's access, which also ends the session.
        """
        stored = await self._claim(key, generation, latest_record)
        if stored is None or not stored.grant.refresh_token:
            return stored
        try:
            answer = await renew(person_of_session(stored.grant), stored.grant.refresh_token)
        except RenewalRefused as error:
            # without the refresh token, so that it is not revoked: the provider has ended the grant already
            grant_without_token = msgspec.structs.replace(stored.grant, refresh_token="")
            if not await self._records.end(key, grant_without_token, stored.version):
                return None
            await self._end_others(key.person, stored.grant)
            raise SessionRefused("the provider has ended the person's access: sign in again") from error
        except Exception as error:
            await self._release(key, stored, error.grant if isinstance(error, IdentityProviderUnavailable) else None)
            raise
        try:
            grant = apply_renewal(stored.grant, answer.person, answer.grant, self._times, self._now())
        except SessionRefused:
            renewed_grant = msgspec.structs.replace(stored.grant, refresh_token=answer.grant.refresh_token)
            await self._records.end(key, renewed_grant, stored.version)
            raise
        return VersionedGrant(grant, stored.version)

    async def _claim(self, key: GrantKey, generation: int, latest_record: VersionedGrant) -> VersionedGrant | None:
        """Wait until no other replica renews the session, then claim it. None if the session has changed.

        The time in a claim comes from another replica's clock. So this replica considers a claim as expired when its
        record has not changed for CLAIM_SECONDS. The time only serves to recognize claims of replicas that stopped long
        ago.
        """
        seen_version, seen_at = "", 0.0
        stored: VersionedGrant | None = latest_record
        while True:
            if stored is None or session_of(stored.grant).generation > generation:
                return None
            if not stored.grant.refresh_token:
                return stored
            now = self._now()
            if stored.grant.renewing_until and abs(stored.grant.renewing_until - now) <= CLAIM_SECONDS + SKEW_SECONDS:
                if stored.version != seen_version:
                    seen_version, seen_at = stored.version, self._clock()
                if self._clock() < seen_at + CLAIM_SECONDS:
                    await self._pause(PAUSE_SECONDS)
                    stored = await self._records.read(key)
                    continue
            claim = msgspec.structs.replace(stored.grant, renewing_until=now + CLAIM_SECONDS)
            version = await self._records.write(key, claim, stored.version)
            if version is not None:
                return VersionedGrant(claim, version)
            stored = await self._records.read(key)

    async def _end_others(self, person: bytes, ended_grant: StoredGrant) -> None:
        """End the person's other sessions with a grant that the provider has ended."""
        for key, grant in await self._records.of_person(person):
            if grant.session is not None and has_grant_of(grant, ended_grant):
                await self._records.end(key, msgspec.structs.replace(grant, refresh_token=""))

    async def _release(self, key: GrantKey, claim: VersionedGrant, new_grant: ProviderGrant | None) -> None:
        """Give up the claim, so that other replicas can renew the session. `new_grant` is a grant that the provider has
        already issued; None without one.
        """
        grant = msgspec.structs.replace(claim.grant, renewing_until=0.0)
        if new_grant is not None:
            grant = apply_renewal(grant, person_of_session(grant), new_grant, self._times, self._now())
        try:
            await self._records.write(key, grant, claim.version)
        except SessionStoreUnavailable:  # the claim expires
            if new_grant is not None:
                self._records.write_later(key, grant, claim.version)
