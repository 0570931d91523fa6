"""Checks identity assertions (ID-JAG), by which a client gets a token for a person without a browser. Pure module.

An identity provider issues an assertion to a client for one authorization server, which exchanges the assertion for an
access token (draft-ietf-oauth-identity-assertion-authz-grant section 4.4, RFC 7523 section 3). The caller has already
checked type, algorithm, signature and times of the assertion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.protocol.provider import PROTOCOL_CLAIMS
from fairlead_authorization.protocol.resources import canonical_resource
from fairlead_authorization.protocol.responses import OAuthRefusal
from fairlead_authorization.sessions.session import SignedInPerson
from fairlead_gateway.identity.audiences import is_at
from fairlead_gateway.identity.jwt_authenticator import time_of
from fairlead_gateway.identity.token_identity import words_of

ASSERTION_TYPES: Final = frozenset({"oauth-id-jag+jwt", "application/oauth-id-jag+jwt"})
"""`typ` of the header, in lower case."""
MAX_SECONDS: Final = 3_600.0
"""Maximum number of seconds until `exp`, because used assertions have to be remembered until then."""
SKEW_SECONDS: Final = 300.0
"""Largest leeway of an issuer: seconds after `exp` for which an assertion may still be accepted."""
MAX_ID: Final = 256
"""Maximum number of characters of `jti`."""
MAX_RESOURCES: Final = 16
_ASSERTION_CLAIMS: Final = PROTOCOL_CLAIMS | {"resource", "authorization_details", "cnf"}


class AcceptedAssertion(NamedTuple):
    """Access that an assertion grants."""

    id: str
    """`jti`; an assertion can be used once."""
    ends_at: float
    """When the assertion is certainly invalid, in seconds since the epoch."""
    person: SignedInPerson
    resource: str
    """Canonical URL of the resource of the access token."""
    scopes: tuple[str, ...]


class RequestedToken(NamedTuple):
    """Resource and scopes that a request names in addition to the assertion."""

    resource: str | None
    """Value in the request; None if the request does not name one."""
    scope: str | None


def assertion_refusal(message: str) -> OAuthRefusal:
    """Refusal of an assertion."""
    return OAuthRefusal("invalid_grant", message)


def check_client(client: RegisteredClient) -> None:
    """Raise OAuthRefusal for a client that others can impersonate: it does not authenticate, and its id is not the URL
    of its document.
    """
    if client.authentication == "none" and client.kind != "document":
        raise OAuthRefusal(
            "unauthorized_client",
            "this client is public: to exchange assertions, it needs a secret, keys, or a document at its client_id",
        )


def check_assertion(
    claims: Mapping[str, Any],
    client: RegisteredClient,
    requested_token: RequestedToken,
    *,
    issuer: str,
    scopes: Sequence[str],
    now: float,
) -> AcceptedAssertion:
    """Check the claims of an unexpired assertion that a trusted issuer signed. `issuer` is the URL of the gateway;
    `scopes` are all scopes of the gateway; `now` is in seconds since the epoch. Raises OAuthRefusal.
    """
    audience = claims.get("aud")
    names = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if len(names) != 1 or not isinstance(names[0], str) or names[0].rstrip("/") != issuer:
        raise assertion_refusal(f"the assertion must have one audience (claim aud), which is {issuer}")
    if claims.get("client_id") != client.id:
        raise assertion_refusal("the assertion was issued to another client (claim client_id)")
    expires_at, issued_at = time_of(claims.get("exp")), time_of(claims.get("iat"))
    if expires_at is None or issued_at is None:
        raise assertion_refusal("the assertion needs the claims iat and exp")
    if expires_at > now + MAX_SECONDS + SKEW_SECONDS:
        raise assertion_refusal(f"the assertion is valid for more than {MAX_SECONDS:g} s (claim exp)")
    if not _is_text(claims):
        raise assertion_refusal("the assertion has text that is not valid Unicode")
    name, subject = claims.get("jti"), claims.get("sub")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_ID:
        raise assertion_refusal(f"the assertion needs the claim jti, with at most {MAX_ID} characters")
    if not isinstance(subject, str) or not subject:
        raise assertion_refusal("the assertion has no subject (claim sub)")
    person = SignedInPerson(
        issuer=claims["iss"],
        subject=subject,
        claims={name: value for name, value in claims.items() if name not in _ASSERTION_CLAIMS},
    )
    return AcceptedAssertion(
        id=name,
        ends_at=expires_at + SKEW_SECONDS,
        person=person,
        resource=_resource(claims, requested_token.resource, issuer),
        scopes=_scopes(claims, requested_token.scope, scopes),
    )


def requested_resource(resource: str | None, issuer: str) -> str:
    """Resource that a request names; the gateway's URL if it names none. Raises OAuthRefusal."""
    resource_url = issuer if resource is None else canonical_resource(resource, issuer)
    if resource_url is None:
        raise OAuthRefusal("invalid_target", f"the resource must be {issuer} or a URL below it")
    return resource_url


def _is_text(claims: Mapping[str, Any]) -> bool:
    """Whether claims can be encoded as UTF-8: JSON may contain an escaped half of a surrogate pair."""
    try:
        msgspec.json.encode(dict(claims))
    except UnicodeEncodeError:
        return False
    return True


def _resource(claims: Mapping[str, Any], requested_url: str | None, issuer: str) -> str:
    """Resource of the access token: the requested resource, which must be at or below a resource of the assertion."""
    claim = claims.get("resource", issuer)
    claimed = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    urls = [canonical_resource(each, issuer) if isinstance(each, str) else None for each in claimed[:MAX_RESOURCES]]
    resources = [each for each in urls if each is not None]
    if not resources or len(resources) < len(claimed):
        raise assertion_refusal(f"the resource of the assertion (claim resource) must be {issuer} or a URL below it")
    if requested_url is None and len(resources) > 1:
        raise OAuthRefusal("invalid_target", "the assertion is for several resources: name one in resource")
    resource = resources[0] if requested_url is None else requested_resource(requested_url, issuer)
    if not any(is_at(resource, each) for each in resources):
        raise OAuthRefusal("invalid_target", f"the assertion is for {resources[0]} and what is below it")
    return resource


def _scopes(claims: Mapping[str, Any], requested_scope: str | None, supported: Sequence[str]) -> tuple[str, ...]:
    """Supported scopes that the assertion grants. If the request names scopes, only those."""
    granted = words_of(claims.get("scope"))
    requested_scopes = granted if requested_scope is None else requested_scope.split()
    scopes = tuple(scope for scope in supported if scope in granted and scope in requested_scopes)
    if supported and not scopes:
        raise assertion_refusal(
            f"the assertion grants no scope of this gateway (claim scope): {' '.join(supported)}"[:300]
        )
    return scopes
