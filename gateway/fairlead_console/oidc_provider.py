"""Client of an OpenID provider: fetches its metadata and exchanges authorization codes for tokens.

Requests are limited in time, size and number, and redirects are not followed. A gateway has at most one provider.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote_plus, urlencode

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_console.oidc_answers import SignInFault, refusal, shorten
from fairlead_console.oidc_transactions import COOKIE_PATH, SignInTransaction
from fairlead_gateway.identity.console_client import ConsoleClient
from fairlead_gateway.identity.discovery import IssuerMetadata, decode, discover, issuer_http
from fairlead_gateway.identity.issuers_file import is_private
from fairlead_mcp.masking import Mask
from fairlead_mcp.oauth.errors import DISCOVERY, GrantFailed

log = logging.getLogger(__name__)

CALLBACK: Final = f"{COOKIE_PATH}/callback"
FRESH_SECONDS: Final = 300.0
"""Seconds for which metadata is cached."""
COOL_DOWN_SECONDS: Final = 3.0
"""Seconds after a failed request for metadata during which no other request for metadata is sent."""
MAX_EXCHANGES: Final = 8
"""Maximum number of authorization codes that are exchanged at the same time."""
MAX_WAITING: Final = 64
"""Maximum number of authorization codes that wait for their exchange; further sign-ins are refused."""


class ProviderMetadata(IssuerMetadata, frozen=True):
    """Provider metadata (OpenID Connect Discovery 1.0 section 3, RP-Initiated Logout 1.0 section 2.1, RFC 9207
    section 3).
    """

    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)
    authorization_response_iss_parameter_supported: bool = False


class TokenAnswer(msgspec.Struct, frozen=True):
    """Token response (OpenID Connect Core 1.0 section 3.1.3.3), without the refresh token."""

    access_token: str
    id_token: str


class _TokenError(msgspec.Struct):
    error: str = ""
    error_description: str = ""


class OidcProvider:
    """OpenID provider at which the console is registered as a client."""

    def __init__(self, client: ConsoleClient, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self.client = client
        self._clock = clock
        spellings = {"secret": client.client_secret, "quoted": quote_plus(client.client_secret)}
        secrets = Credential(headers={"authorization": _basic(client)}, env=spellings)
        self._mask = Mask(secrets if client.client_secret else None)
        """Masks the client secret in errors, as some providers quote the request."""
        self._metadata: ProviderMetadata | None = None
        self._requested_at = float("-inf")
        """Time of the last request for metadata, by `clock`."""
        self._metadata_lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(MAX_EXCHANGES)
        self._pending_count = 0
        """Number of codes that are being exchanged or wait for their exchange."""

    @property
    def redirect_uri(self) -> str:
        """URL to which the provider redirects browsers."""
        return self.client.base + CALLBACK

    async def metadata(self) -> ProviderMetadata:
        """Return the provider's metadata, cached for FRESH_SECONDS. Raises SignInFault."""
        async with self._metadata_lock:
            age = self._clock() - self._requested_at
            if self._metadata is not None and age < FRESH_SECONDS:
                return self._metadata
            if self._metadata is None and age < COOL_DOWN_SECONDS:
                raise self._unavailable_fault()
            self._metadata = None
            try:
                self._metadata = await self._discover()
            except (GrantFailed, ValueError) as error:  # ValueError: an endpoint is not a URL
                log.warning("Signing in to the console with %s is not possible: %s", self.client.issuer.issuer, error)
                raise self._unavailable_fault() from error
            finally:
                self._requested_at = self._clock()
            return self._metadata

    async def authorization_url(self, transaction: SignInTransaction) -> str:
        """Make the URL of the authorization request. Raises SignInFault."""
        fields = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.client.scopes),
            "state": transaction.state,
            "nonce": transaction.nonce,
            "code_challenge": transaction.challenge,
            "code_challenge_method": "S256",
        }
        if self.client.resource:
            fields["resource"] = self.client.resource
        if transaction.silent:
            fields["prompt"] = "none"
        return _with_query(((await self.metadata()).authorization_endpoint), fields)

    async def sign_out_url(self, hint: str) -> str:
        """Make the URL that ends the session at the provider; empty if the provider does not support that.

        `hint` is the session's ID token. Without a hint, some providers ask the user for a confirmation, and do not
        redirect back. Raises SignInFault.
        """
        endpoint = (await self.metadata()).end_session_endpoint
        return_url = f"{self.client.base}/console/sign-in"
        fields = {"client_id": self.client.client_id, "post_logout_redirect_uri": return_url}
        return endpoint and _with_query(endpoint, {**fields, "id_token_hint": hint} if hint else fields)

    async def exchange(self, code: str, verifier: str) -> TokenAnswer:
        """Exchange an authorization code for tokens. Raises SignInFault."""
        metadata = await self.metadata()
        if self._pending_count >= MAX_EXCHANGES + MAX_WAITING:
            raise SignInFault("Too many people are signing in at the same time. Try again in a few seconds.", 503)
        self._pending_count += 1
        try:
            async with self._slots:
                return await self._tokens(metadata, code, verifier)
        finally:
            self._pending_count -= 1

    async def _tokens(self, metadata: ProviderMetadata, code: str, verifier: str) -> TokenAnswer:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
        }
        if self.client.resource:
            fields["resource"] = self.client.resource
        authorization = self._authenticate(metadata, fields)
        try:
            async with issuer_http(self.client.issuer, metadata.token_endpoint) as http:
                answer = await http.post(urlencode(fields).encode(), authorization)
            if answer.status == 200:
                return decode(answer.body, metadata.token_endpoint, TokenAnswer)
        except GrantFailed as error:
            log.warning("A sign-in to the console failed at %s: %s", self.client.issuer.issuer, error)
            raise self._unavailable_fault() from error
        raise self._fault(answer.status, answer.body)

    def _authenticate(self, metadata: ProviderMetadata, fields: dict[str, str]) -> bytes:
        """Return the header line that authenticates the client (RFC 6749 section 2.3.1), or add fields that do."""
        client, methods = self.client, metadata.token_endpoint_auth_methods_supported
        if not client.client_secret:
            fields["client_id"] = client.client_id
            return b""
        if "client_secret_basic" not in methods and "client_secret_post" in methods:
            fields |= {"client_id": client.client_id, "client_secret": client.client_secret}
            return b""
        return f"Authorization: {_basic(client)}\r\n".encode()

    def _fault(self, status: int, data: bytes) -> SignInFault:
        provider = self.client.provider
        try:
            token_error = msgspec.json.decode(data, type=_TokenError)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            token_error = _TokenError()
        token_error = _TokenError(self._mask.text(token_error.error), self._mask.text(token_error.error_description))
        details = f"{shorten(token_error.error, 64)!r}, {shorten(token_error.error_description, 240)!r}"
        log.warning("%s refused to exchange a code for tokens: %d %s", self.client.issuer.issuer, status, details)
        if status >= 500 or not token_error.error:
            return self._unavailable_fault()
        return SignInFault(refusal(provider, token_error.error, token_error.error_description), 502)

    def _unavailable_fault(self) -> SignInFault:
        return SignInFault(
            f"{self.client.provider} sends no valid answers, so signing in there is not possible. Try again in a "
            "moment, or sign in with a key; the gateway's log has the reason.",
            503,
        )

    async def _discover(self) -> ProviderMetadata:
        """Fetch and check the provider's metadata. Raises GrantFailed, and ValueError for an endpoint that is not a
        URL.
        """
        url, metadata = await discover(self.client.issuer, ProviderMetadata)
        for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.end_session_endpoint):
            is_plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
            if endpoint and not (is_plain and is_private(endpoint, self.client.issuer)):
                message = f"{url} has the endpoint {endpoint[:200]!r}, which must be a valid https URL"
                raise GrantFailed(message, cause=DISCOVERY)
        if "S256" not in metadata.code_challenge_methods_supported:
            message = f"{url} does not have S256 (PKCE) in code_challenge_methods_supported"
            raise GrantFailed(message, cause=DISCOVERY)
        return metadata


def _basic(client: ConsoleClient) -> str:
    """Make the value of `Authorization` that authenticates the client (RFC 6749 section 2.3.1)."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    """Add query parameters to a URL, and keep those that the URL already has (RFC 6749 section 3.1)."""
    base_url, _, _ = url.partition("#")
    return base_url + ("&" if "?" in base_url else "?") + urlencode(fields)
