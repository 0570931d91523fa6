"""Obtains users' consent for one server by the authorization code flow with PKCE (RFC 6749 section 4.1, RFC 7636).

    flow = ConsentFlow(settings, credential, access, store)
    authorization = await flow.begin(redirect_uri, challenge=challenge)
    ...                                       # the user's browser goes to authorization.url and returns
    grant, token = await flow.finish(authorization, parameters)
    await store.write(GrantKey(person, access.server), grant)
    source.adopt(person, token)

The caller must ensure that the browser that returns is the user's, that it returns to the redirect URI of the
authorization, and that each authorization is finished only once. Each server should have a redirect URI of its own,
because only the redirect URI distinguishes authorization servers that send no `iss` (RFC 9700 section 4.4.2.2).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.authorization_request import (
    new_secret,
    read_code,
    request_url,
    require_authorization_endpoint,
    s256,
)
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.client_authentication import NONE
from fairlead_mcp.oauth.client_registrations import ClientRegistrations
from fairlead_mcp.oauth.consented_clients import ConsentedClients, issuer_of
from fairlead_mcp.oauth.consented_grants import renewed_grant
from fairlead_mcp.oauth.discovery import discover_challenge, discover_issuer, discover_resource
from fairlead_mcp.oauth.errors import CLOSED, INVALID_CLIENT, TIMEOUT, UNAUTHORIZED_CLIENT, GrantFailed
from fairlead_mcp.oauth.grants import check_settings, code_parameters, refresh_parameters
from fairlead_mcp.oauth.issuer_client import TokenForm
from fairlead_mcp.oauth.metadata import (
    AuthorizationServerMetadata,
    ProtectedResourceMetadata,
    named_issuer,
    require_issuer,
)
from fairlead_mcp.oauth.named_hosts import guard_named_hosts
from fairlead_mcp.oauth.scopes import bounded_scopes
from fairlead_mcp.oauth.stored_grant import GrantStore, StoredGrant
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_answer import IssuedToken

FLOW_SECONDS: Final = 15.0
"""Time limit of each step, with its discovery and registration."""
UNKNOWN_CODE: Final = "-"
"""Authorization code that no authorization server issues."""
OFFLINE_ACCESS: Final = "offline_access"
"""Scope without which some authorization servers issue no refresh token (OpenID Connect Core 1.0 section 11)."""


class Authorization(msgspec.Struct, frozen=True, omit_defaults=True):
    """Authorization request that a user's browser takes to an authorization server, and everything that is needed to
    process the answer. `repr` hides the secrets.
    """

    url: str
    """URL that the browser opens."""
    state: str
    verifier: str
    """PKCE verifier (RFC 7636 section 4.1)."""
    issuer: str
    redirect_uri: str
    client_id: str
    client_secret: str = ""
    """Secret of a client that the gateway registered; else empty."""
    client_authentication: str = NONE
    client_expires_at: float = 0.0
    """Expiry of the registration, in seconds since the epoch; 0: none."""
    resource: str = ""
    scopes: tuple[str, ...] = ()
    """Requested scopes."""
    sends_issuer: bool = False
    """Whether the authorization server declares that its answers contain `iss`."""
    settings: str = ""
    """Digest of the server's settings and address at the start of the sign-in. They must be the same at its end."""

    def __repr__(self) -> str:
        return f"Authorization(issuer={self.issuer!r}, client_id={self.client_id!r}, scopes={self.scopes!r})"


class _Provider(NamedTuple):
    """Metadata of the authorization server, and of the MCP server if it has any."""

    metadata: AuthorizationServerMetadata
    resource: ProtectedResourceMetadata | None


class ConsentDestination(NamedTuple):
    """Authorization server to which a sign-in leads the user's browser."""

    url: str
    """Authorization endpoint."""
    issuer: str


class ConsentFlow:
    """Sign-ins of users for one server. `access.server` may be empty."""

    def __init__(self, settings: OAuthSettings, credential: Credential, access: TokenAccess, store: GrantStore) -> None:
        self._settings = settings
        self._access = access = guard_named_hosts(settings, access)
        self._digest = _digest_of(settings, access)
        self._registrations = ClientRegistrations(access, store)
        self._clients = ConsentedClients(settings, credential, access)

    async def destination(self, challenge: Challenge | None = None) -> ConsentDestination:
        """The authorization server to which `begin` would lead. Does not register the gateway. Raises GrantFailed."""
        check_settings(self._settings)
        async with _time_limit("the authorization server"):
            metadata = (await self._find_provider(challenge or await self._request_challenge())).metadata
        require_authorization_endpoint(metadata)
        return ConsentDestination(metadata.authorization_endpoint, metadata.issuer)

    async def begin(
        self,
        redirect_uri: str,
        *,
        challenge: Challenge | None = None,
        client_document_url: str = "",
        scopes: frozenset[str] = frozenset(),
        optional_scopes: frozenset[str] = frozenset(),
        nonce: str = "",
        prompt: str | None = None,
        metadata: AuthorizationServerMetadata | None = None,
    ) -> Authorization:
        """Prepare the authorization request of a user. Registers the gateway as a client if necessary.

        Raises GrantFailed.

        Args:
            challenge: The server's challenge to a refused request; None: request one from the server.
            client_document_url: https URL of a document that describes the gateway as a client, for authorization
                servers that support such documents.
            scopes: Scopes to request in addition, such as those of an earlier consent.
            optional_scopes: Scopes that are not requested if the authorization server lists its scopes without them.
            nonce: `nonce` of the ID token (OpenID Connect Core 1.0 section 3.1.2.1); empty: not sent.
            prompt: `prompt` (same section); empty: not sent; None: that of the settings.
            metadata: Metadata of the issuer, if it was discovered before.
        """
        check_settings(self._settings)
        async with _time_limit("the authorization server"):
            challenge = challenge or await self._request_challenge()
            provider = await self._find_provider(challenge) if metadata is None else _Provider(metadata, None)
            metadata = provider.metadata
            require_authorization_endpoint(metadata)
            supported = frozenset(metadata.scopes)
            unsupported = optional_scopes - supported if supported else frozenset()
            all_scopes = self._requested_scopes(challenge, provider, scopes)
            requested = tuple(scope for scope in all_scopes if scope not in unsupported)
            client = await self._find_client(metadata, redirect_uri, client_document_url, requested)
        state, verifier = new_secret(), new_secret()
        resource = self._resource(provider)
        parameters = self._request_parameters(client.client_id, redirect_uri, state, verifier, resource, requested)
        if nonce:
            parameters["nonce"] = nonce
        if prompt is not None:
            parameters.pop("prompt", None)
        if prompt:
            parameters["prompt"] = prompt
        return Authorization(
            request_url(metadata.authorization_endpoint, parameters),
            state,
            verifier,
            metadata.issuer,
            redirect_uri,
            client.client_id,
            client.client_secret,
            client.client_authentication,
            client.client_expires_at,
            resource,
            requested,
            metadata.sends_issuer,
            self._digest,
        )

    async def finish(self, authorization: Authorization, answer: Mapping[str, str]) -> tuple[StoredGrant, AccessToken]:
        """Redeem the code in `answer`, the parameters with which the browser returned. The caller has to set the
        grant's `holder`.

        Raises GrantFailed, also if the settings have changed since the sign-in was started.
        """
        grant, tokens = await self.redeem(authorization, answer)
        return grant, tokens.access

    async def redeem(self, authorization: Authorization, answer: Mapping[str, str]) -> tuple[StoredGrant, IssuedToken]:
        """Like `finish`, but returns all tokens of the answer."""
        if authorization.settings != self._digest:
            raise GrantFailed("the server's settings have changed in the meantime: sign in again", cause=CLOSED)
        code = read_code(
            answer,
            state=authorization.state,
            issuer=authorization.issuer,
            sends_issuer=authorization.sends_issuer,
        )
        grant = self._grant_of(authorization)
        form = TokenForm(
            code_parameters(code, authorization.verifier, authorization.redirect_uri, authorization.resource),
            secrets=(code, authorization.verifier),
            known_scopes=authorization.scopes,
        )
        try:
            async with _time_limit(f"the authorization server {grant.issuer}"):
                tokens = await self._clients.for_grant(grant).request(form)
        except GrantFailed as error:
            if error.cause in (INVALID_CLIENT, UNAUTHORIZED_CLIENT) and not self._settings.client_id:
                await self._registrations.forget(grant)
            raise
        return renewed_grant(grant, tokens, grant.granted_at), tokens

    async def renew(self, grant: StoredGrant) -> IssuedToken:
        """Obtain new tokens by the refresh token of a grant, which may be invalid afterwards. Raises GrantFailed."""
        parameters = refresh_parameters(grant.refresh_token, grant.resource)
        form = TokenForm(parameters, secrets=(grant.refresh_token,))
        async with _time_limit(f"the authorization server {grant.issuer}"):
            return await self._clients.for_grant(grant).request(form)

    async def revoke(self, grant: StoredGrant) -> bool:
        """See `ConsentedClients.revoke`."""
        return await self._clients.revoke(grant)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    async def _request_challenge(self) -> Challenge:
        """The MCP server's challenge to a request without token; empty if the server's metadata is not needed."""
        is_unneeded = self._settings.token_url or not self._access.server_url
        return Challenge() if is_unneeded else await discover_challenge(self._access)

    async def _find_provider(self, challenge: Challenge) -> _Provider:
        """The authorization server in the settings, or else the one that the MCP server names. Raises GrantFailed."""
        settings, access = self._settings, self._access
        if settings.token_url:
            endpoints = AuthorizationServerMetadata(
                issuer_of(settings), settings.token_url, authorization_endpoint=settings.authorization_url
            )
            return _Provider(endpoints, None)
        resource = await discover_resource(access, challenge.resource_metadata)
        if settings.issuer:
            if resource is not None:
                require_issuer(resource, settings.issuer, consent=True)
            return _Provider(await discover_issuer(access, settings.issuer, settings.ca_bundle), resource)
        issuer = named_issuer(resource, access.server_url)
        metadata = await discover_issuer(access, issuer, settings.ca_bundle, named_by_server=True)
        return _Provider(metadata, resource)

    async def _find_client(
        self,
        metadata: AuthorizationServerMetadata,
        redirect_uri: str,
        client_document_url: str,
        scopes: tuple[str, ...],
    ) -> StoredGrant:
        """The client that the gateway uses at the authorization server. Raises GrantFailed."""
        if self._settings.client_id:
            return StoredGrant(metadata.issuer, self._settings.client_id)
        if client_document_url and metadata.takes_documents:
            return StoredGrant(metadata.issuer, client_document_url)
        ca_bundle = self._settings.ca_bundle
        return await self._registrations.find_or_register(metadata, redirect_uri, scopes, ca_bundle, self._is_known)

    async def _is_known(self, client: StoredGrant) -> bool:
        """Whether the authorization server still knows a client that the gateway registered.

        Many authorization servers store clients in memory only, and report an unknown client only to the browser, which
        then does not return. A token request with an impossible code tells: the error for an unknown client differs.
        """
        form = TokenForm(code_parameters(UNKNOWN_CODE, new_secret(), client.redirect_uri, ""))
        try:
            await self._clients.for_grant(client).request(form)
        except GrantFailed as error:
            return error.cause not in (INVALID_CLIENT, UNAUTHORIZED_CLIENT)
        return True

    def _grant_of(self, authorization: Authorization) -> StoredGrant:
        """The grant that results from an authorization, without its refresh token."""
        access, now = self._access, self._access.clock()
        return StoredGrant(
            authorization.issuer,
            authorization.client_id,
            client_secret=authorization.client_secret,
            client_authentication=authorization.client_authentication,
            client_expires_at=authorization.client_expires_at,
            resource=authorization.resource,
            granted_at=now,
            renewed_at=now,
            server_address=access.address,
            server_uid=access.server_uid,
            token_url=self._settings.token_url,
            redirect_uri=authorization.redirect_uri,
        )

    def _requested_scopes(
        self, challenge: Challenge, provider: _Provider, additional: frozenset[str]
    ) -> tuple[str, ...]:
        """Scopes of the settings, or else of the challenge, or else of the server's metadata; then `additional`."""
        server_scopes = provider.resource.scopes if provider.resource is not None else ()
        scopes = [*(self._settings.scopes or challenge.scopes or server_scopes)]
        if challenge.lacks_scopes:
            scopes += challenge.scopes
        scopes += sorted(additional)
        if scopes and not self._settings.scopes and OFFLINE_ACCESS in provider.metadata.scopes:
            scopes.append(OFFLINE_ACCESS)
        return bounded_scopes(scopes)

    def _resource(self, provider: _Provider) -> str:
        """`resource` of the authorization and token requests (RFC 8707): of the settings, or else of the server's
        metadata, or else the server's URL.
        """
        if self._settings.resource:
            return self._settings.resource
        if provider.resource is not None:
            return provider.resource.resource
        if not self._access.server_url:
            return ""
        parts = urlsplit(self._access.server_url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"

    def _request_parameters(
        self, client_id: str, redirect_uri: str, state: str, verifier: str, resource: str, scopes: tuple[str, ...]
    ) -> dict[str, str]:
        """Parameters of the authorization request. Of these, the settings may replace only `prompt`."""
        standard = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
            "resource": resource,
            "scope": " ".join(scopes),
            "audience": self._settings.audience,
        }
        # OpenID providers ignore offline_access without prompt=consent
        prompt = {"prompt": "consent"} if OFFLINE_ACCESS in scopes else {}
        return {**prompt, **self._settings.parameters, **{name: value for name, value in standard.items() if value}}


def _digest_of(settings: OAuthSettings, access: TokenAccess) -> str:
    target = (settings, access.server, access.address, access.server_uid)
    return blake2b(msgspec.json.encode(target, order="deterministic"), digest_size=16).hexdigest()


@contextlib.asynccontextmanager
async def _time_limit(name: str) -> AsyncIterator[None]:
    """Raise GrantFailed if a step takes longer than FLOW_SECONDS."""
    try:
        async with asyncio.timeout(FLOW_SECONDS):
            yield
    except TimeoutError as error:
        raise GrantFailed(f"{name} did not answer within {FLOW_SECONDS:g} s: try again", cause=TIMEOUT) from error
