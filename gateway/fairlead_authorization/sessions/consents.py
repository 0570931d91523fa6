"""Consents of users to clients: their records, and the sessions that they cover. Pure module.

A consent is for one client (with its digest at that time), one redirect host, some scopes, and a resource with all
resources below it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.redirects import redirect_host
from fairlead_authorization.sessions.record_limits import records_to_delete
from fairlead_authorization.sessions.session import ClientSession
from fairlead_gateway.identity.audiences import is_at
from fairlead_gateway.identity.token_identity import jwt_person
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant

PREFIX: Final = "consent:"
"""Prefix of the keys of consents (`GrantKey.server`)."""
CONSENT_SECONDS: Final = 365 * 86_400.0
"""Time after which a person has to consent again."""
MAX_CONSENTS: Final = 100
"""Maximum number of consents of one person; at the limit, the oldest is deleted."""
MAX_CONSENT_BYTES: Final = 20_000
"""Maximum size of one person's consents in bytes of JSON; at the limit, the oldest are deleted."""


def new_consent(session: ClientSession, client: RegisteredClient, now: float) -> tuple[GrantKey, StoredGrant]:
    """The key and the record of a consent that a person gives now."""
    person = session.person
    consent = StoredGrant(
        issuer=person.issuer,
        client_id=client.id,
        redirect_uri=_redirect_host(session),
        resource=session.access.resource,
        scopes=tuple(sorted(session.access.scopes)),
        granted_at=now,
        holder=f"{person.issuer} {person.subject}",
    )
    return _consent_key(jwt_person(person.issuer, person.subject), consent, client.digest), consent


def covers(
    consents: Iterable[tuple[GrantKey, StoredGrant]], session: ClientSession, client: RegisteredClient, now: float
) -> bool:
    """Whether one of a person's consents covers a session of a client."""
    host = _redirect_host(session)
    return any(
        not has_lapsed(consent, now)
        and consent.redirect_uri == host
        and set(session.access.scopes) <= set(consent.scopes)
        and is_at(session.access.resource, consent.resource)
        and consent.client_id == client.id
        and key == _consent_key(key.person, consent, client.digest)
        for key, consent in consents
    )


def has_lapsed(consent: StoredGrant, now: float) -> bool:
    """Whether a consent has expired."""
    return now >= consent.granted_at + CONSENT_SECONDS


def surplus(consents: Iterable[tuple[GrantKey, StoredGrant]], new: StoredGrant) -> list[GrantKey]:
    """The oldest consents of a person that have to be deleted before `new` is stored."""
    oldest_first = sorted(consents, key=lambda each: each[1].granted_at)
    return records_to_delete(oldest_first, new, MAX_CONSENTS, MAX_CONSENT_BYTES)


def _redirect_host(session: ClientSession) -> str:
    """Host of a session's redirect URI; the URI itself if it has no recognizable host."""
    return redirect_host(session.access.redirect_uri) or session.access.redirect_uri


def _consent_key(person: bytes, consent: StoredGrant, digest: str) -> GrantKey:
    """Key of a consent to a client with this digest."""
    content = (consent.client_id, digest, consent.redirect_uri, consent.scopes, consent.resource)
    return GrantKey(person, PREFIX + hashlib.blake2b(msgspec.json.encode(content), digest_size=16).hexdigest())
