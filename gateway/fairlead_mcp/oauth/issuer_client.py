"""Sends the token requests of one client to one authorization server, with its authentication and its clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, OAuthSettings
from fairlead_mcp.oauth.client_authentication import ClientAuthentication
from fairlead_mcp.oauth.errors import INVALID_CLIENT, GrantFailed
from fairlead_mcp.oauth.exchanged_token import require_token_of_server
from fairlead_mcp.oauth.grants import token_form
from fairlead_mcp.oauth.provider_clock import clock_offset
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_answer import IssuedToken, TokenRequest, read_token, secret_mask
from fairlead_mcp.oauth.token_endpoint import ResolvedEndpoint, TokenEndpoint, endpoint_target
from fairlead_mcp.oauth.token_http import open_http


class TokenForm(NamedTuple):
    """Parameters of a token request, without the parameters of the client authentication, and the way to read its
    answer.
    """

    parameters: Mapping[str, str]
    """Parameters of the grant."""
    scopes: tuple[str, ...] = ()
    """Requested scopes."""
    secrets: tuple[str, ...] = ()
    """Texts that must not occur in messages."""
    subject_token: str = ""
    """The user's own token that is exchanged. The answer must not contain it."""
    expires_at: float = float("inf")
    """`exp` of the subject token, in seconds since the epoch. The access token expires at the latest then."""
    known_scopes: tuple[str, ...] = ()
    """Scopes of the token if neither request nor answer names any."""
    step: str = ""
    """Step of the profile IdJag: `refusal_advice.ASSERTION_STEP` or REDEMPTION_STEP; empty for all other grants."""


class IssuerClient:
    """The client of the settings at its authorization server."""

    def __init__(self, settings: OAuthSettings, credential: Credential, access: TokenAccess) -> None:
        """Raises GrantFailed if the authentication method is unknown, or its secret or key is missing."""
        self._settings = settings
        self._access = access
        self._authentication = ClientAuthentication(settings, credential)
        self._endpoint = TokenEndpoint(settings, access)
        self._offset = 0.0
        """Seconds by which the clock of the authorization server is ahead, for the times of client assertions."""

    async def prepare(self, resource_metadata: str = "") -> ResolvedEndpoint:
        """Read the key and find the endpoint. `resource_metadata` is the URL in the server's challenge. Raises
        GrantFailed.
        """
        self._authentication.prepare()
        return await self._endpoint.find(resource_metadata)

    async def request(self, form: TokenForm, resource_metadata: str = "") -> IssuedToken:
        """Request a token. Raises GrantFailed, also for a token with which the server could call the gateway.

        If the client is refused because of the clocks' difference, the request is sent again with the right time.
        """
        endpoint = await self.prepare(resource_metadata)
        offset = self._offset
        try:
            return await self._send(form, endpoint)
        except GrantFailed as error:
            # an assertion is valid for only a minute on the provider's clock
            if error.cause != INVALID_CLIENT or self._offset == offset:
                raise
        return await self._send(form, endpoint)

    async def revoke(self, url: str, refresh_token: str) -> bool:
        """Revoke a refresh token at the revocation endpoint `url` (RFC 7009); False if that is refused. Raises
        GrantFailed.
        """
        self._authentication.prepare()
        target = endpoint_target(self._settings, url, "revocation endpoint")
        client = self._authentication.parameters(url, self._access.clock() + self._offset)
        form = {"token": refresh_token, "token_type_hint": "refresh_token", **client}
        http = await open_http(target, self._access, self._settings.ca_bundle, "revocation endpoint")
        try:
            answer = await http.post(urlencode(form).encode("ascii"), self._authentication.header_line())
            if answer.status == 400 and "client_secret" not in form:
                # servers with the Python SDK require the parameter; empty means omitted (RFC 6749 section 3.1)
                form["client_secret"] = ""
                answer = await http.post(urlencode(form).encode("ascii"), self._authentication.header_line())
        finally:
            await http.aclose()
        return 200 <= answer.status < 300

    def invalidate_discovery(self) -> None:
        """Discover the endpoint again before the next request."""
        self._endpoint.invalidate_discovery()

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _send(self, form: TokenForm, endpoint: ResolvedEndpoint) -> IssuedToken:
        client = self._authentication.parameters(endpoint.url, self._access.clock() + self._offset)
        body = token_form(self._settings, form.parameters, form.scopes, client)
        secrets = (*self._authentication.secrets, client.get("client_assertion", ""), *form.secrets)
        answer = await endpoint.http.post(body, self._authentication.header_line())
        request = TokenRequest(
            endpoint.name,
            form.scopes or form.known_scopes,
            form.expires_at,
            secret_mask(secrets),
            endpoint.authentication_methods,
            form.step or self._settings.grant,
        )
        now = self._access.clock()
        if self._authentication.signs and answer.status >= 400:
            self._offset = clock_offset(answer.headers.get(b"date"), now)
        tokens = read_token(answer.status, answer.body, request, now)
        if self._settings.grant != CLIENT_CREDENTIALS:
            value = tokens.access.value
            require_token_of_server(value, form.subject_token, endpoint.name, self._access.is_own_audience)
        return tokens
