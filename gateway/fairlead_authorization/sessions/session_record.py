"""Sessions as they are stored: decides which state follows which, and what a refresh token is worth. Pure module."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

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
"""Begins the keys of sessions (`GrantKey.server`)."""
WAITING_SECONDS: Final = 600.0
"""Time for the person's consent."""
CODE_SECONDS: Final = 60.0
"""Lifetime of a code."""
MAX_CLAIMS_BYTES: Final = 3_072
"""Limit on a person's claims as JSON."""
MAX_REFRESH_BYTES: Final = 2_048
"""Limit on the provider's refresh token; a longer one is not kept, as if the provider had given none."""
MAX_PERSON_BYTES: Final = 1_024
"""Limit on issuer and subject."""
_REMEMBERED: Final = 4
"""Superseded refresh tokens whose time is known."""

Standing = Literal["current", "superseded", "replayed"]


class SessionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Lifetimes, in seconds."""

    grace: float = 60.0
    """Time in which a refresh token that was used gives the current one again."""
    renewed: float = 720 * 3_600.0
    """Longest session of a person whom the provider renews."""
    unrenewed: float = 12 * 3_600.0
    """Longest session of a person for whom the provider gave no refresh token."""


def session_key(person: bytes, session: str) -> GrantKey:
    """Place of a session."""
    return GrantKey(person, f"{PREFIX}{session}")


def session_id_of(key: GrantKey) -> str:
    """Id of the session at a place; empty if there is something else."""
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
    refresh_token = kept_refresh_token(grant)
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
        ),
    )
    if not stored.fits:
        raise SessionRefused("the request of the client is too long: its client id, redirect URI, resource or scopes")
    return stored


def check_person(person: SignedInPerson) -> None:
    """Raises SessionRefused if the provider says too much of a person to be stored."""
    if len(jwt_person(person.issuer, person.subject)) > MAX_PERSON_BYTES:
        raise SessionRefused("the provider's subject (claim sub) is too long to be stored")
    size = len(msgspec.json.encode(dict(person.claims)))
    if size > MAX_CLAIMS_BYTES:
        raise SessionRefused(
            f"the provider's claims have {size} bytes, and {MAX_CLAIMS_BYTES} can be stored: ask an administrator to "
            "leave groups that this gateway's policies do not name out of the tokens for its client"
        )


def kept_refresh_token(grant: ProviderGrant) -> str:
    """The provider's refresh token; empty if it is too long to be stored."""
    return grant.refresh_token if len(grant.refresh_token.encode()) <= MAX_REFRESH_BYTES else ""


def client_session(key: GrantKey, grant: StoredGrant) -> ClientSession:
    """A stored session, as the authorization server uses it."""
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
    """The session that a grant is for."""
    assert grant.session is not None, "the record of a session has one"
    return grant.session


def person_of_session(grant: StoredGrant) -> SignedInPerson:
    """The person of a session."""
    session = session_of(grant)
    return SignedInPerson(issuer=grant.issuer, subject=session.subject, claims=session.claims)


def is_in(grant: StoredGrant, state: SessionState, now: float) -> bool:
    """Whether a session is in a state, which has not ended."""
    session = session_of(grant)
    return session.state == state and not has_ended(grant, now)


def has_ended(grant: StoredGrant, now: float) -> bool:
    """Whether a session has ended by time."""
    session = session_of(grant)
    return now >= min(session.state_until, session.ends_at)


def with_code(grant: StoredGrant, digest: bytes, now: float) -> StoredGrant:
    """The session after the consent, with a code."""
    return _changed(grant, state="code", code_sha256=digest, state_until=now + CODE_SECONDS)


def activated(grant: StoredGrant, secret: bytes, now: float) -> StoredGrant:
    """The session after its code was redeemed, with its first refresh token."""
    active = _changed(grant, state="active", secret=secret, generation=1, state_until=session_of(grant).ends_at)
    return msgspec.structs.replace(active, used_at=now)


def standing(session: StoredSession, generation: int, now: float, grace: float) -> Standing:
    """Standing of a refresh token by its number: current, or superseded so recently that its successor is given again,
    or replayed. One of a later number is current: the store has lost what was written last.
    """
    age = session.generation - generation
    if age <= 0:
        return "current"
    if age <= len(session.superseded_at) and now < session.superseded_at[-age] + grace:
        return "superseded"
    return "replayed"


def rotated(grant: StoredGrant, generation: int, now: float) -> StoredGrant:
    """The session after the refresh token with a number was used: the next one is current."""
    superseded = (*session_of(grant).superseded_at, now)[-_REMEMBERED:]
    after = _changed(grant, generation=generation + 1, superseded_at=superseded)
    return msgspec.structs.replace(after, used_at=now, renewing_until=0.0)


def renewed(
    grant: StoredGrant, person: SignedInPerson, provider: ProviderGrant, times: SessionTimes, now: float
) -> StoredGrant:
    """The session after the provider has renewed its person: with the claims of now, and the refresh token that
    replaces the old one. Raises SessionRefused if it is another person, or if the claims are too many to be stored.
    """
    if (person.issuer, person.subject) != (grant.issuer, session_of(grant).subject):
        raise SessionRefused("the provider has renewed the access of another person")
    check_person(person)
    refresh_token = grant.refresh_token
    if provider.refresh_token not in ("", refresh_token):
        refresh_token = kept_refresh_token(provider)
    ends_at = session_of(grant).ends_at if refresh_token else min(session_of(grant).ends_at, now + times.unrenewed)
    after = msgspec.structs.replace(
        _changed(grant, claims=dict(person.claims), ends_at=ends_at, state_until=ends_at),
        refresh_token=refresh_token,
        renewed_at=now if refresh_token != grant.refresh_token else grant.renewed_at,
        expires_at=provider.expires_at or (grant.expires_at if refresh_token == grant.refresh_token else 0.0),
        renewing_until=0.0,
    )
    if not after.fits:
        raise SessionRefused("what the provider says of the person is too long to be stored")
    return after


def has_grant_of(grant: StoredGrant, other: StoredGrant) -> bool:
    """Whether two sessions are by the same grant of the provider."""
    return (grant.issuer, grant.refresh_token) == (other.issuer, other.refresh_token)


def redirect_host(uri: str) -> str:
    """Host of a redirect URI, whatever its port; the scheme of an app that is not on the web."""
    parts = urlsplit(uri)
    return (parts.hostname or "") if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _changed(grant: StoredGrant, **members: object) -> StoredGrant:
    """The grant with other members of its session."""
    return msgspec.structs.replace(grant, session=msgspec.structs.replace(session_of(grant), **members))
