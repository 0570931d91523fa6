"""Stored records of sessions: their states, and whether a refresh token is current, superseded or replayed. Pure
module.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.sessions.session import (
    ClientSession,
    ProviderGrant,
    RequestedAccess,
    SessionRefused,
    SignedInPerson,
)
from fairlead_gateway.identity.token_identity import jwt_person
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant
from fairlead_mcp.oauth.stored_session import SessionState, StoredSession

PREFIX: Final = "session:"
"""Prefix of the keys of sessions (`GrantKey.server`)."""
WAITING_SECONDS: Final = 600.0
"""Time for the person's consent."""
CODE_SECONDS: Final = 60.0
"""Lifetime of a code."""
MAX_CLAIMS_BYTES: Final = 3_072
"""Maximum number of bytes of a person's claims as JSON."""
MAX_REFRESH_BYTES: Final = 2_048
"""Maximum length of the provider's refresh token. A longer token is not stored, as if the provider had issued none."""
MAX_PERSON_BYTES: Final = 1_024
"""Maximum length of issuer and subject."""
_MAX_SUPERSEDED: Final = 4
"""Number of superseded refresh tokens whose time is stored."""

TokenStatus = Literal["current", "superseded", "replayed"]


class SessionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Lifetimes, in seconds."""

    grace: float = 60.0
    """Grace window: time in which a used refresh token gives the current one again."""
    renewed: float = 720 * 3_600.0
    """Longest session of a person for whom the provider gave a refresh token."""
    unrenewed: float = 12 * 3_600.0
    """Longest session of a person for whom the provider gave no refresh token."""


def session_key(person: bytes, session: str) -> GrantKey:
    """Key of a session in the store."""
    return GrantKey(person, f"{PREFIX}{session}")


def session_id_of(key: GrantKey) -> str:
    """Id of the session with a key; empty for keys of other records."""
    return key.server.removeprefix(PREFIX) if key.server.startswith(PREFIX) else ""


def new_session(
    person: SignedInPerson,
    client: RegisteredClient,
    access: RequestedAccess,
    grant: ProviderGrant,
    times: SessionTimes,
    now: float,
) -> StoredGrant:
    """A session that waits for the person's consent. Raises SessionRefused if it is too large to be stored."""
    check_person(person)
    refresh_token = storable_refresh_token(grant)
    stored = StoredGrant(
        issuer=person.issuer,
        client_id="",
        refresh_token=refresh_token,
        granted_at=now,
        expires_at=grant.expires_at if refresh_token else 0.0,
        holder=f"{person.issuer} {person.subject}",
        session=StoredSession(
            state="waiting",
            state_until=now + WAITING_SECONDS,
            ends_at=now + (times.renewed if refresh_token else times.unrenewed),
            client_id=client.id,
            subject=person.subject,
            claims=dict(person.claims),
            redirect_uri=access.redirect_uri,
            challenge=access.challenge,
            resource=access.resource,
            scopes=access.scopes,
            agent=client.agent,
            client_name=client.name,
        ),
    )
    if not stored.fits:
        raise SessionRefused("the request of the client is too long: its client id, redirect URI, resource or scopes")
    return stored


def check_person(person: SignedInPerson) -> None:
    """Raise SessionRefused if the provider's claims about a person are too long to be stored."""
    if len(jwt_person(person.issuer, person.subject)) > MAX_PERSON_BYTES:
        raise SessionRefused("the provider's subject (claim sub) is too long to be stored")
    size = len(msgspec.json.encode(dict(person.claims)))
    if size > MAX_CLAIMS_BYTES:
        raise SessionRefused(
            f"the provider's claims have {size} bytes, and {MAX_CLAIMS_BYTES} can be stored: ask an administrator to "
            "leave groups that this gateway's policies do not name out of the tokens for its client"
        )


def storable_refresh_token(grant: ProviderGrant) -> str:
    """The provider's refresh token; empty if it is too long to be stored."""
    return grant.refresh_token if len(grant.refresh_token.encode()) <= MAX_REFRESH_BYTES else ""


def client_session(key: GrantKey, grant: StoredGrant) -> ClientSession:
    """The session of a record."""
    session = session_of(grant)
    return ClientSession(
        id=session_id_of(key),
        person=person_of_session(grant),
        client_id=session.client_id,
        agent=session.agent,
        access=RequestedAccess(
            redirect_uri=session.redirect_uri,
            challenge=session.challenge,
            resource=session.resource,
            scopes=session.scopes,
        ),
        began_at=grant.granted_at,
        used_at=max(grant.granted_at, grant.used_at),
        ends_at=session.ends_at,
    )


def session_of(grant: StoredGrant) -> StoredSession:
    """The session members of a record."""
    assert grant.session is not None, "the record of a session has one"
    return grant.session


def person_of_session(grant: StoredGrant) -> SignedInPerson:
    """The person of a session."""
    session = session_of(grant)
    return SignedInPerson(issuer=grant.issuer, subject=session.subject, claims=session.claims)


def is_in(grant: StoredGrant, state: SessionState, now: float) -> bool:
    """Whether a session is in `state`, and has not ended."""
    session = session_of(grant)
    return session.state == state and not has_ended(grant, now)


def has_ended(grant: StoredGrant, now: float) -> bool:
    """Whether a session has expired, or its state has."""
    session = session_of(grant)
    return now >= min(session.state_until, session.ends_at)


def with_code(grant: StoredGrant, digest: bytes, now: float) -> StoredGrant:
    """The record after the consent, with an authorization code."""
    return _replace_session(grant, state="code", code_sha256=digest, state_until=now + CODE_SECONDS)


def activate(grant: StoredGrant, secret: bytes, now: float) -> StoredGrant:
    """The record after its code was redeemed, with the first refresh token."""
    active = _replace_session(grant, state="active", secret=secret, generation=1, state_until=session_of(grant).ends_at)
    return msgspec.structs.replace(active, used_at=now)


def token_status(session: StoredSession, generation: int, now: float, grace: float) -> TokenStatus:
    """Status of the refresh token with the number `generation`: current; superseded within the grace window, so
    that its successor is returned again; or replayed. A token with a later number counts as current: the store has then
    lost the last write.
    """
    age = session.generation - generation
    if age <= 0:
        return "current"
    if age <= len(session.superseded_at) and now < session.superseded_at[-age] + grace:
        return "superseded"
    return "replayed"


def rotate(grant: StoredGrant, generation: int, now: float) -> StoredGrant:
    """The record after the refresh token with the number `generation` was used: the next token is current."""
    superseded_at = (*session_of(grant).superseded_at, now)[-_MAX_SUPERSEDED:]
    changed_grant = _replace_session(grant, generation=generation + 1, superseded_at=superseded_at)
    return msgspec.structs.replace(changed_grant, used_at=now, renewing_until=0.0)


def apply_renewal(
    grant: StoredGrant, person: SignedInPerson, provider: ProviderGrant, times: SessionTimes, now: float
) -> StoredGrant:
    """The record after a renewal at the provider: with the new claims, and the provider's new refresh token. Raises
    SessionRefused if the provider has renewed another person, or if the claims are too long to be stored.
    """
    if (person.issuer, person.subject) != (grant.issuer, session_of(grant).subject):
        raise SessionRefused("the provider has renewed the access of another person")
    check_person(person)
    refresh_token = grant.refresh_token
    if provider.refresh_token not in ("", refresh_token):
        refresh_token = storable_refresh_token(provider)
    ends_at = session_of(grant).ends_at if refresh_token else min(session_of(grant).ends_at, now + times.unrenewed)
    changed_grant = msgspec.structs.replace(
        _replace_session(grant, claims=dict(person.claims), ends_at=ends_at, state_until=ends_at),
        refresh_token=refresh_token,
        renewed_at=now if refresh_token != grant.refresh_token else grant.renewed_at,
        expires_at=provider.expires_at or (grant.expires_at if refresh_token == grant.refresh_token else 0.0),
        renewing_until=0.0,
    )
    if not changed_grant.fits:
        raise SessionRefused("the provider's claims about the person are too long to be stored")
    return changed_grant


def has_grant_of(grant: StoredGrant, other: StoredGrant) -> bool:
    """Whether two sessions have the same grant of the provider."""
    return (grant.issuer, grant.refresh_token) == (other.issuer, other.refresh_token)


def _replace_session(grant: StoredGrant, **members: object) -> StoredGrant:
    """The record with changed members of its session."""
    return msgspec.structs.replace(grant, session=msgspec.structs.replace(session_of(grant), **members))
