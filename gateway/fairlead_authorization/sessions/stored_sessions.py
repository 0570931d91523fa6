"""Sessions of clients in the store of grants, which all replicas share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.sessions import consents, session_record
from fairlead_authorization.sessions.record_limits import records_to_delete
from fairlead_authorization.sessions.record_store import SessionRecords
from fairlead_authorization.sessions.renewals import CLAIM_SECONDS, Renewals
from fairlead_authorization.sessions.session import (
    ClientSession,
    IssuedRefreshToken,
    NotRenewable,
    ProviderGrant,
    Renew,
    RenewedPerson,
    RequestedAccess,
    SessionRefused,
    SessionStore,
    SessionStoreUnavailable,
    SignedInPerson,
    WaitingSession,
)
from fairlead_authorization.sessions.session_ends import SessionEnds
from fairlead_authorization.sessions.session_record import (
    SessionTimes,
    client_session,
    has_ended,
    is_in,
    session_id_of,
    session_key,
    session_of,
)
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_authorization.sessions.token_sealer import TokenContent, TokenSealer, code_digest, refresh_proof
from fairlead_gateway.identity.token_identity import jwt_person
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, StoredGrant, VersionedGrant
from fairlead_mcp.oauth.stored_session import StoredSession

MAX_SESSIONS: Final = 50
"""Maximum number of sessions of one person. At the limit, the least recently used session is ended."""
MAX_SESSIONS_BYTES: Final = 100_000
"""Maximum number of bytes of one person's sessions as JSON, with the same effect. Sealed sessions and consents of one
person then fit into the person's part of a Secret (`secret_room`).
"""
_SECRET_BYTES: Final = 32
_ATTEMPTS: Final = 8
"""Maximum number of attempts to rotate, each of which may conflict with another change of the session."""
_UNKNOWN: Final = "the code or refresh token is unknown, or its session has ended"
_OTHER_CLIENT: Final = "the code or refresh token belongs to another client"


class _Rotation(NamedTuple):
    """Rotation of a refresh token in progress at this replica."""

    generation: int
    task: asyncio.Task[IssuedRefreshToken | None]


class StoredSessions(SessionStore):
    """Sessions in `store`. `now` returns seconds since the epoch, `clock` is any monotonic clock, `pause` waits for a
    number of seconds.
    """

    def __init__(
        self,
        store: GrantStore,
        keys: SigningKeys,
        ends: SessionEnds,
        times: SessionTimes,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._records = SessionRecords(store, ends)
        self._keys = keys
        self._times = times
        self._now = now
        self._renewals = Renewals(self._records, times, now, clock, pause)
        self._rotations: dict[GrantKey, _Rotation] = {}

    async def aclose(self) -> None:
        """Wait for rotations in progress, and write the records that could not be written yet."""
        if self._rotations:
            tasks = [rotation.task for rotation in self._rotations.values()]
            _, late = await asyncio.wait(tasks, timeout=CLAIM_SECONDS)
            for task in late:
                task.cancel()
        await self._records.aclose()

    async def begin(
        self, person: SignedInPerson, client: RegisteredClient, access: RequestedAccess, grant: ProviderGrant
    ) -> WaitingSession:
        now = self._now()
        stored = session_record.new_session(person, client, access, grant, self._times, now)
        key = session_key(jwt_person(person.issuer, person.subject), secrets.token_hex(12))
        records = await self._records.of_person(key.person)
        await self._end_surplus(_sessions(records), stored, now)
        version = await self._records.write(key, stored, "")
        assert version is not None, "nobody else makes this random id"
        session = client_session(key, stored)
        has_consent = consents.covers(_consents(records), session, client, now)
        return WaitingSession(session, VersionedGrant(stored, version), has_consent)

    async def find_waiting(self, person: SignedInPerson, session_id: str) -> WaitingSession | None:
        key = session_key(jwt_person(person.issuer, person.subject), session_id)
        stored = await self._records.read(key)
        if stored is None or not is_in(stored.grant, "waiting", self._now()):
            return None
        return WaitingSession(client_session(key, stored.grant), stored)

    async def consent(self, session: ClientSession, client: RegisteredClient) -> None:
        key, consent = consents.new_consent(session, client, self._now())
        other_consents = [each for each in _consents(await self._records.of_person(key.person)) if each[0] != key]
        for other in consents.surplus(other_consents, consent):
            await self._records.delete(other)
        await self._records.write(key, consent, None)

    async def issue_code(self, waiting: WaitingSession) -> str:
        sealer = await self._keys.token_sealer()
        session, (grant, version), now = waiting.session, waiting.record, self._now()
        key = session_key(_person_of(session), session.id)
        proof = secrets.token_bytes(16)
        if is_in(grant, "waiting", now) and await self._records.write(
            key, session_record.with_code(grant, code_digest(proof), now), version
        ):
            return sealer.seal("code", TokenContent(key.person, session.id, 0, proof))
        raise SessionRefused("the sign-in was completed already, or has taken too long")

    async def redeem(self, code: str, client_id: str) -> IssuedRefreshToken:
        sealer = await self._keys.token_sealer()
        content = sealer.open("code", code)
        if content is None:
            raise SessionRefused(_UNKNOWN)
        key = session_key(content.person, content.session)
        stored, now = await self._records.read(key), self._now()
        if stored is None or not _has_code(session_of(stored.grant), content):
            raise SessionRefused(_UNKNOWN)
        session = session_of(stored.grant)
        if session.state == "code" and session.client_id != client_id:
            raise SessionRefused(_OTHER_CLIENT)
        if session.state == "code" and not has_ended(stored.grant, now):
            active = session_record.activate(stored.grant, secrets.token_bytes(_SECRET_BYTES), now)
            if await self._records.write(key, active, stored.version) is not None:
                return _issue_refresh_token(key, active, sealer)
        # the code has expired, or was used, perhaps just now at another replica (RFC 6749 section 4.1.2)
        latest = await self._records.read(key)
        if latest is not None:
            await self._records.end(key, latest.grant)
        raise SessionRefused("the code has expired or was used before, so its session has ended")

    async def refresh(self, refresh_token: str, client_id: str, renew: Renew) -> IssuedRefreshToken:
        sealer = await self._keys.token_sealer()
        content = sealer.open("refresh", refresh_token)
        if content is None:
            raise SessionRefused(_UNKNOWN)
        key = session_key(content.person, content.session)
        for _ in range(_ATTEMPTS):
            stored, now = await self._records.read(key), self._now()
            if stored is None or not _has_token(session_of(stored.grant), content):
                raise SessionRefused(_UNKNOWN)
            session = session_of(stored.grant)
            if session.client_id != client_id:
                raise SessionRefused(_OTHER_CLIENT)
            if has_ended(stored.grant, now):
                await self._records.end(key, stored.grant)
                raise SessionRefused(_UNKNOWN)
            status = session_record.token_status(session, content.generation, now, self._times.grace)
            if status == "superseded":
                return _issue_refresh_token(key, stored.grant, sealer)
            if status == "replayed":
                await self._records.end(key, stored.grant)
                raise SessionRefused("the refresh token was used before, so its session has ended: sign in again")
            rotation = self._rotations.get(key)
            if rotation is None:
                rotation = self._begin_rotation(key, stored, content.generation, renew, sealer)
            # shielded: if the rotation were cancelled, the provider's new refresh token could be lost
            issued_token = await asyncio.shield(rotation.task)
            if issued_token is not None and rotation.generation == content.generation:
                return issued_token
        raise SessionStoreUnavailable("the session changes all the time: try again")

    async def renew(self, person: bytes, session_id: str, renew: Renew) -> RenewedPerson:
        key = session_key(person, session_id)
        answers: list[RenewedPerson] = []

        async def renew_and_note(person: SignedInPerson, refresh_token: str) -> RenewedPerson:
            answers.append(await renew(person, refresh_token))
            return answers[-1]

        for _ in range(_ATTEMPTS):
            stored = await self._records.read(key)
            if stored is None or not is_in(stored.grant, "active", self._now()):
                raise SessionRefused("the sign-in of this token has ended: sign in again")
            if not stored.grant.refresh_token:
                raise NotRenewable("the identity provider gave no refresh token with this sign-in")
            renewed_record = await self._renewals.renew(
                key, session_of(stored.grant).generation, renew_and_note, stored
            )
            if renewed_record is None or not answers:
                continue
            if await self._write(key, renewed_record.grant, renewed_record) is not None:
                return answers[-1]
        raise SessionStoreUnavailable("the session changes all the time: try again")

    async def revoke(self, token: str, client_id: str) -> None:
        content = (await self._keys.token_sealer()).open("refresh", token)
        if content is None:
            return
        key = session_key(content.person, content.session)
        stored = await self._records.read(key)
        if stored is None or not _has_token(session_of(stored.grant), content):
            return
        if session_of(stored.grant).client_id == client_id:
            await self._records.end(key, stored.grant)

    async def end(self, person: bytes, session_id: str) -> bool:
        key = session_key(person, session_id)
        stored = await self._records.read(key)
        return await (self._records.delete(key) if stored is None else self._records.end(key, stored.grant))

    # Internals

    def _begin_rotation(
        self, key: GrantKey, stored: VersionedGrant, generation: int, renew: Renew, sealer: TokenSealer
    ) -> _Rotation:
        rotating = self._rotate(key, stored, generation, renew, sealer)
        task = asyncio.get_running_loop().create_task(rotating, name="refresh")
        rotation = self._rotations[key] = _Rotation(generation, task)
        task.add_done_callback(lambda done: self._end_rotation(key, done))
        return rotation

    def _end_rotation(self, key: GrantKey, task: asyncio.Task[IssuedRefreshToken | None]) -> None:
        del self._rotations[key]
        if not task.cancelled():
            task.exception()  # retrieved, because asyncio would log it if no waiter is left

    async def _rotate(
        self, key: GrantKey, stored: VersionedGrant, generation: int, renew: Renew, sealer: TokenSealer
    ) -> IssuedRefreshToken | None:
        """Replace the refresh token with the number `generation` by the next one; None if the session has changed
        meanwhile. Raises SessionRefused, IdentityProviderUnavailable, SessionStoreUnavailable.
        """
        renewed_record = await self._renewals.renew(key, generation, renew, stored)
        if renewed_record is None:
            return None
        rotated_grant = session_record.rotate(renewed_record.grant, generation, self._now())
        if await self._write(key, rotated_grant, renewed_record) is None:
            return None
        return _issue_refresh_token(key, rotated_grant, sealer)

    async def _write(self, key: GrantKey, grant: StoredGrant, renewed_record: VersionedGrant) -> str | None:
        try:
            return await self._records.write(key, grant, renewed_record.version)
        except Exception:
            if renewed_record.grant.refresh_token:
                # the client gets no new refresh token, so its old one stays current; only the provider's answer is kept
                self._records.write_later(key, renewed_record.grant, renewed_record.version)
            raise

    async def _end_surplus(
        self, records: Sequence[tuple[GrantKey, StoredGrant]], new_session: StoredGrant, now: float
    ) -> None:
        """End expired sessions of a person, and sessions that exceed the limits together with a new one."""
        expired_keys = {key for key, grant in records if has_ended(grant, now)}
        candidates = sorted(
            (record for record in records if record[0] not in expired_keys),
            # sessions without consent first, because any web page can begin them
            key=lambda each: (session_of(each[1]).state == "active", max(each[1].granted_at, each[1].used_at)),
        )
        to_end = expired_keys.union(records_to_delete(candidates, new_session, MAX_SESSIONS, MAX_SESSIONS_BYTES))
        for key, grant in records:
            if key in to_end:
                await self._records.end(key, grant)


def _person_of(session: ClientSession) -> bytes:
    return jwt_person(session.person.issuer, session.person.subject)


def _sessions(records: Sequence[tuple[GrantKey, StoredGrant]]) -> list[tuple[GrantKey, StoredGrant]]:
    return [(key, grant) for key, grant in records if session_id_of(key) and grant.session is not None]


def _consents(records: Sequence[tuple[GrantKey, StoredGrant]]) -> list[tuple[GrantKey, StoredGrant]]:
    return [(key, grant) for key, grant in records if key.server.startswith(consents.PREFIX)]


def _has_code(session: StoredSession, content: TokenContent) -> bool:
    """Whether a code belongs to a session."""
    return secrets.compare_digest(session.code_sha256, code_digest(content.proof))


def _has_token(session: StoredSession, content: TokenContent) -> bool:
    """Whether a refresh token, current or old, belongs to a session."""
    expected = refresh_proof(session.secret, content.generation)
    return session.state == "active" and secrets.compare_digest(expected, content.proof)


def _issue_refresh_token(key: GrantKey, grant: StoredGrant, sealer: TokenSealer) -> IssuedRefreshToken:
    """A session with its current refresh token."""
    session = session_of(grant)
    proof = refresh_proof(session.secret, session.generation)
    content = TokenContent(key.person, session_id_of(key), session.generation, proof)
    return IssuedRefreshToken(client_session(key, grant), sealer.seal("refresh", content))
