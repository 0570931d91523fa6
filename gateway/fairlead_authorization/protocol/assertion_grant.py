"""Exchange of assertions for access tokens (grant `urn:ietf:params:oauth:grant-type:jwt-bearer`, RFC 7523).

An assertion is either issued by an identity provider for a person and a client (ID-JAG), or is the token of a
ServiceAccount, which a workload sends for itself. No refresh tokens are issued, because the sender can get another
assertion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_authorization.protocol.assertions import (
    ASSERTION_TYPES,
    RequestedToken,
    assertion_refusal,
    check_assertion,
    check_client,
    requested_resource,
)
from fairlead_authorization.protocol.client_assertions import claims_of
from fairlead_authorization.protocol.client_requests import AuthenticatedRequest, unavailable_error
from fairlead_authorization.protocol.parts import AuthorizationParts, IdentityAssertions
from fairlead_authorization.protocol.responses import OAuthRefusal
from fairlead_authorization.sessions.access_tokens import IssuedAccessToken
from fairlead_authorization.sessions.session import ClientSession, RequestedAccess
from fairlead_authorization.sessions.session_record import check_person
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.own_tokens import MAX_SECONDS
from fairlead_gateway.identity.persons import identity_of
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.token_identity import jwt_person

REVIEW_SECONDS: Final = 10.0
"""Time limit of the TokenReview of a ServiceAccount's token."""

RecordIdentity = Callable[[Identity, str, str], None]
"""Records that a token was issued. Parameters: the identity, the client's id, and a text about the assertion."""


class AssertionGrant:
    """Exchanges the kinds of assertions that the settings allow."""

    def __init__(self, parts: AuthorizationParts) -> None:
        self._parts = parts

    async def exchange(self, authenticated: AuthenticatedRequest, record: RecordIdentity) -> dict[str, Any]:
        """Exchange the assertion of an identity provider. Raises OAuthRefusal, SessionStoreUnavailable,
        SessionRefused.
        """
        assertions, parts = self._parts.assertions, self._parts
        if assertions is None:
            raise _unsupported_grant()
        form, client = authenticated.form, authenticated.client.client
        check_client(client)
        claims = await self._verify(_assertion(form), assertions)
        requested_token = RequestedToken(form.get("resource"), form.get("scope"))
        now = parts.now()
        access = check_assertion(claims, client, requested_token, issuer=parts.issuer, scopes=parts.scopes, now=now)
        check_person(access.person)
        session = ClientSession(
            id="",
            person=access.person,
            client_id=client.id,
            agent=client.agent,
            access=RequestedAccess(redirect_uri="", challenge="", resource=access.resource, scopes=access.scopes),
            began_at=now,
            used_at=now,
            ends_at=now + MAX_SECONDS,
        )
        token = await parts.tokens.issue(session, of_anybody=not client.is_named)
        # the last check, so that an assertion is not used up by a request that fails for another reason
        if not await assertions.spent_assertions.spend(access.person.issuer, access.id, access.ends_at):
            raise assertion_refusal("the assertion was used before (claim jti): get a new one for each request")
        person = jwt_person(access.person.issuer, access.person.subject)
        record(identity_of(person), client.id, f"by an assertion of {access.person.issuer}")
        return _content(token, access.scopes)

    async def exchange_workload(self, form: Mapping[str, str], record: RecordIdentity) -> dict[str, Any]:
        """Exchange the token of a ServiceAccount. Raises OAuthRefusal, SessionStoreUnavailable."""
        workloads = self._parts.workloads
        if workloads is None:
            raise _unsupported_grant()
        assertion = _assertion(form)
        if not workloads.recognizes(assertion):
            raise assertion_refusal("without a client, the assertion must be the token of a Kubernetes ServiceAccount")
        resource = requested_resource(form.get("resource"), self._parts.issuer)
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                verdict = await workloads.look_up(assertion)
        except TimeoutError:
            raise unavailable_error("the API server did not answer in time") from None
        if isinstance(verdict, CredentialRefusal):
            raise unavailable_error(verdict.message) if verdict.status == 503 else assertion_refusal(verdict.message)
        token = await self._parts.tokens.issue_to_workload(verdict, resource)
        record(verdict, "", "by the token of a ServiceAccount")
        return _content(token, ())

    async def _verify(self, assertion: str, assertions: IdentityAssertions) -> Mapping[str, Any]:
        """Claims of an assertion that a trusted issuer signed. Raises OAuthRefusal."""
        issuer = claims_of(assertion).get("iss")
        if not isinstance(issuer, str) or issuer not in assertions.issuers:
            raise assertion_refusal("this gateway does not accept assertions of this issuer (claim iss)")
        claims = await assertions.tokens.verify(assertion, issuer, ASSERTION_TYPES)
        if isinstance(claims, CredentialRefusal):
            raise (
                unavailable_error(claims.message)
                if claims.status == 503
                else assertion_refusal(f"assertion: {claims.message}")
            )
        return claims


def _assertion(form: Mapping[str, str]) -> str:
    if "assertion" not in form:
        raise OAuthRefusal("invalid_request", "the request needs assertion")
    return form["assertion"]


def _content(token: IssuedAccessToken, scopes: tuple[str, ...]) -> dict[str, Any]:
    content = {"access_token": token.value, "token_type": "Bearer", "expires_in": token.expires_in}
    return {**content, "scope": " ".join(scopes)} if scopes else content


def _unsupported_grant() -> OAuthRefusal:
    return OAuthRefusal("unsupported_grant_type", "this server does not support the grant type")
