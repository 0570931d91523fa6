"""Decides which callers are users, who can sign in at servers in a browser. Pure module.

A gateway without authentication that serves only its own machine has one user: the machine's owner, `local` (`LOCAL`,
`peer_owner`). Any other gateway without authentication has no users, because anybody could use the grants of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead_gateway.core.identity import JWT_PREFIX, LOCAL, Identity
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed

MAX_NAME_CHARS: Final = 64
"""Maximum characters of an account's name on a page; a longer name is shortened."""
_NAME_CLAIMS: Final = ("preferred_username", "email", "name")
_WANTS: Final = "this server wants each user to sign in, but"
_NOBODY: Final = (
    f"{_WANTS} the gateway cannot tell who calls: call it with a token of its identity provider or an API key; a "
    "gateway without authentication has to listen on 127.0.0.1 alone, and then knows only programs of the user that "
    "runs it, and nobody whose request a proxy forwards"
)
_WORKLOAD: Final = (
    f"{_WANTS} the caller is a Kubernetes ServiceAccount, which has no browser: call the gateway as a user, or give "
    "the server a credential of its own"
)


def person_of(identity: Identity) -> bytes:
    """Key of a person (`GrantKey.person`); empty if the caller is not a user."""
    return b"" if identity.kind == "serviceAccount" else identity.person


def require_person(identity: Identity) -> bytes:
    """Key of a person. Raises GrantFailed, which says who can sign in."""
    person = person_of(identity)
    if not person:
        raise GrantFailed(_WORKLOAD if identity.kind == "serviceAccount" else _NOBODY, cause=SIGN_IN_REQUIRED)
    return person


def identity_of(person: bytes) -> Identity:
    """Identity of a person for the audit log, where the person's credential and agent are unknown."""
    if person == LOCAL.person:
        return LOCAL
    text = person.decode("utf-8", "replace")
    is_jwt = person.startswith(JWT_PREFIX)
    return Identity(kind="jwt" if is_jwt else "apiKey", principal=f"{text}/" if is_jwt else text)


def holder_of(identity: Identity) -> str:
    """Issuer and subject of the person at the provider, as text (`StoredGrant.holder`)."""
    issuer, subject = identity.claims.get("iss"), identity.claims.get("sub")
    if isinstance(issuer, str) and isinstance(subject, str):
        return f"{issuer} {subject}"
    return identity.person.decode("utf-8", "replace")


def name_of(identity: Identity) -> str:
    """Name of the caller for pages (`account_name`), or the holder, where the credential is not a person's token."""
    issuer, subject = identity.claims.get("iss"), identity.claims.get("sub")
    if isinstance(issuer, str) and isinstance(subject, str):
        return account_name(identity.claims, issuer, subject)
    return holder_of(identity)


def account_name(claims: Mapping[str, Any], issuer: str, subject: str) -> str:
    """Name and provider of a person, as people know them: `ada at login.example.com`. Where the claims have no name,
    the subject at the issuer.
    """
    names = (one_line(claims[claim]) for claim in _NAME_CLAIMS if isinstance(claims.get(claim), str))
    name = next(filter(None, names), "")
    return f"{name} at {urlsplit(issuer).netloc}" if name else f"{subject} at {issuer}"


def one_line(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Untrusted text on one line of at most `limit` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 2 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
