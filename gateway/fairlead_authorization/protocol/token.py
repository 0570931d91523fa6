"""Token endpoint (RFC 6749 section 3.2): redeems codes, rotates refresh tokens, and exchanges
assertions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.protocol.assertion_grant import AssertionGrant
from fairlead_authorization.protocol.client_requests import (
    AuthenticatedRequest,
    ClientRequests,
    names_client,
    unavailable_error,
)
from fairlead_authorization.protocol.grants import SessionGrant
from fairlead_authorization.protocol.metadata import JWT_BEARER, TOKEN
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.resources import canonical_resource
from fairlead_authorization.protocol.responses import OAuthRefusal, json_answer
from fairlead_authorization.sessions.session import (
    IdentityProviderUnavailable,
    IssuedRefreshToken,
    SessionRefused,
    SessionStoreUnavailable,
)
from fairlead_gateway.core.identity import Identity

CODE: Final = "authorization_code"
REFRESH: Final = "refresh_token"
_METRIC_NAMES: Final = {CODE: CODE, REFRESH: REFRESH, JWT_BEARER: "jwt_bearer"}
"""Names of grants in metrics."""

RecordSignIn = Callable[[Scope, Identity, str, str], None]
"""Records that a token was issued. Parameters: the request, the identity, the client's id, and a text about the
assertion."""


class ClientTokenEndpoint:
    """Answers `POST /oauth/token`."""

    def __init__(self, parts: AuthorizationParts, record: RecordSignIn) -> None:
        self._parts = parts
        self._requests = ClientRequests(parts, TOKEN)
        self._assertions = AssertionGrant(parts)
        self._record = record

    async def answer(self, request: Request) -> Response:
        """Answer a client. Raises OAuthRefusal."""
        loaded_request = await self._requests.load(request)
        grant = loaded_request.form.get("grant_type", "")
        metric_name = _METRIC_NAMES.get(grant, "other")
        is_of_workload = grant == JWT_BEARER and self._parts.workloads is not None and not names_client(loaded_request)
        authenticated = None if is_of_workload else await self._requests.authenticate(loaded_request)
        record = functools.partial(self._record, request.scope)
        try:
            if authenticated is None:
                content = await self._assertions.exchange_workload(loaded_request.form, record)
            elif grant == CODE:
                content = await self._redeem(authenticated)
            elif grant == REFRESH:
                content = await self._refresh(authenticated)
            elif grant == JWT_BEARER:
                content = await self._assertions.exchange(authenticated, record)
            else:
                raise OAuthRefusal("unsupported_grant_type", "this server does not support the grant type")
        except (SessionStoreUnavailable, IdentityProviderUnavailable) as error:
            self._parts.counts.tokens[metric_name, "unavailable"] += 1
            raise unavailable_error(error) from error
        except SessionRefused as error:
            self._parts.counts.tokens[metric_name, "refused"] += 1
            raise OAuthRefusal("invalid_grant", str(error)) from error
        except OAuthRefusal:
            self._parts.counts.tokens[metric_name, "refused"] += 1
            raise
        self._parts.counts.tokens[metric_name, "issued"] += 1
        return json_answer(content)

    async def _redeem(self, authenticated: AuthenticatedRequest) -> dict[str, Any]:
        form, client = authenticated.form, authenticated.client.client
        if "code" not in form or "code_verifier" not in form:
            raise OAuthRefusal("invalid_request", "the request needs code and code_verifier (PKCE)")
        issued_token = await self._parts.sessions.redeem(form["code"], client.id)
        try:
            scopes = self._requests.check(authenticated, SessionGrant(issued_token.session))
            self._check_resource(form.get("resource"), issued_token)
            return await self._content(issued_token, client, scopes)
        except OAuthRefusal:
            # the code may be in the hands of somebody else
            with contextlib.suppress(SessionStoreUnavailable):
                await self._parts.sessions.revoke(issued_token.refresh_token, client.id)
            raise

    async def _refresh(self, authenticated: AuthenticatedRequest) -> dict[str, Any]:
        form, client = authenticated.form, authenticated.client.client
        if "refresh_token" not in form:
            raise OAuthRefusal("invalid_request", "the request needs refresh_token")
        rotated_token = await self._parts.sessions.refresh(form["refresh_token"], client.id, self._parts.renew)
        # compare with the agent name in the current settings, which may have belonged to another client before
        issued_token = rotated_token._replace(
            session=msgspec.structs.replace(rotated_token.session, agent=client.agent)
        )
        # a refused request has used up its refresh token, which gives the same successor again within the grace window
        scopes = self._requests.check(authenticated, SessionGrant(issued_token.session))
        self._check_resource(form.get("resource"), issued_token)
        return await self._content(issued_token, client, scopes)

    def _check_resource(self, resource: str | None, issued_token: IssuedRefreshToken) -> None:
        """Raise OAuthRefusal unless a request names the session's own resource, or none (RFC 8707 section 2.2)."""
        own_resource = issued_token.session.access.resource
        if resource is not None and canonical_resource(resource, self._parts.issuer) != own_resource:
            raise OAuthRefusal("invalid_target", f"the person has signed in only for the resource {own_resource}")

    async def _content(
        self, issued_token: IssuedRefreshToken, client: RegisteredClient, scopes: tuple[str, ...]
    ) -> dict[str, Any]:
        token = await self._parts.tokens.issue(issued_token.session, scopes, of_anybody=not client.is_named)
        content = {
            "access_token": token.value,
            "token_type": "Bearer",
            "expires_in": token.expires_in,
            "refresh_token": issued_token.refresh_token,
        }
        return {**content, "scope": " ".join(scopes)} if scopes else content
