"""Sign-in of users at an OpenID provider, where the gateway is a client, and renewal of their claims.

The claims are taken from the token that a user would present without this authorization server: from the access token,
if the gateway accepts it, else from the ID token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_authorization.sessions.session import (
    IdentityProviderUnavailable,
    ProviderGrant,
    RenewalRefused,
    RenewedPerson,
    SignedInPerson,
)
from fairlead_gateway.core.identity import Identity, SubjectToken
from fairlead_gateway.identity.id_tokens import id_token_fault
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import json_of, time_of
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_mcp.oauth.authorization_request import new_secret
from fairlead_mcp.oauth.client_authentication import BASIC, NONE, POST
from fairlead_mcp.oauth.consent import OFFLINE_ACCESS, Authorization, ConsentFlow
from fairlead_mcp.oauth.discovery import discover_issuer
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    PROVIDER_ERROR,
    TIMEOUT,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.grants import ACCESS_TOKEN_TYPE, ID_TOKEN_TYPE, JWT_TYPE
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata
from fairlead_mcp.oauth.stored_grant import StoredGrant
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_answer import IssuedToken
from fairlead_mcp.oauth.token_endpoint import DISCOVERY_SECONDS, RETRY_SECONDS

if TYPE_CHECKING:
    from fairlead_gateway.identity.jwt_authenticator import Tokens

log = logging.getLogger(__name__)

OPENID: Final = "openid"
RENEWAL_SECONDS: Final = 12.0
"""Time limit of a renewal's request, including discovery. Other replicas wait for it."""
KEYS_SECONDS: Final = 5.0
"""Time limit for fetching the keys that verify the tokens of a renewal. By then, the old refresh token is used up."""
_REFUSED_CAUSES: Final = frozenset({INVALID_GRANT, INTERACTION_REQUIRED, ACCESS_DENIED, INVALID_REQUEST})
"""Causes that mean that the grant has ended at the provider. Dex answers `invalid_request` for a refresh token that was
revoked or has expired.
"""
_UNAVAILABLE_CAUSES: Final = frozenset({UNREACHABLE, TIMEOUT, PROVIDER_ERROR})
# no `prompt` is sent by default: metadata do not tell whether a provider needs it for a refresh token, and
# Entra, which offers offline_access too, would ask each person at each sign-in (OpenID Connect Core 1.0 section 11)
_UNRENEWED: Final = (
    "%s gave no refresh token, so sign-ins end after unrenewedHours of authorizationServer: allow refresh tokens there "
    "for the client %s; if it gives them only after its own consent page, set prompt: consent in providers; or leave "
    "offline_access out of scopes"
)
_REJECTED: Final = (
    "%s rejects the client %s (invalid_client), so nobody can sign in there and no sign-in is renewed: compare "
    "clientId and clientSecretFile (chart: clientSecret) of authorizationServer with the client's registration there"
)
_OPTIONAL_SCOPES: Final = frozenset({"profile", "email", "groups", OFFLINE_ACCESS})
"""Default scopes; not every provider knows them."""
PROTOCOL_CLAIMS: Final = frozenset(
    {
        *("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "sid", "scope", "scp"),
        *("azp", "client_id", "at_hash", "c_hash", "s_hash"),
        *("cid", "appid", "appidacr", "azpacr", "uti"),  # Okta and Entra
    }
)
"""Claims about the provider's token and client. They are left out, as they are not true of the gateway's token."""


class IdentityProviderClient(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway as a client of a provider. `repr` does not show the secret."""

    name: str
    """Name of the provider in the path of the redirect URI."""
    issuer: Issuer
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    """Scopes besides `openid`."""
    prompt: str = ""
    """`prompt` of authorization requests; empty to send none."""
    ca_bundle: str | None = None
    """PEM certificates that verify the provider's TLS certificate; None for the system's CAs."""

    @property
    def display_name(self) -> str:
        """Name of the provider for users: its host."""
        return urlsplit(self.issuer.issuer).netloc

    def __repr__(self) -> str:
        return f"IdentityProviderClient({self.client_id!r} of {self.issuer.issuer!r})"


class ProviderSignIn(NamedTuple):
    """Authorization request to the provider."""

    authorization: Authorization
    nonce: str


class SignedIn(NamedTuple):
    """A person who has signed in, and the provider's grant, by which the person's claims are renewed."""

    person: SignedInPerson
    grant: ProviderGrant


class SignInFailed(Exception):
    """The provider did not sign the person in. The message is one sentence for the person, without secrets."""


class PersonDeclined(SignInFailed):
    """The person or the provider declined (`access_denied`)."""


class OpenIdProvider:
    """Client of one OpenID provider."""

    def __init__(self, client: IdentityProviderClient, tokens: Tokens, redirect_uri: str, access: TokenAccess) -> None:
        """`tokens` verifies the provider's tokens. `access` has no server."""
        self.client = client
        self._tokens = tokens
        self._redirect_uri = redirect_uri
        self._access = access
        self._flow: ConsentFlow | None = None
        self._metadata: AuthorizationServerMetadata | None = None
        self._failure: GrantFailed | None = None
        """Error of the last discovery, at `_failed_at`; None if metadata are available."""
        self._failed_at = float("-inf")
        self._discover_at = float("-inf")
        """Monotonic seconds of the next discovery."""
        self._lock = asyncio.Lock()
        self._has_warned = False
        self._has_logged_rejection = False
        """Whether it was logged that the provider rejects the gateway as its client."""

    async def begin(self) -> ProviderSignIn:
        """Prepare the sign-in of a person. Raises IdentityProviderUnavailable."""
        nonce = new_secret()
        try:
            flow = await self._ready_flow()
            authorization = await flow.begin(
                self._redirect_uri,
                optional_scopes=_OPTIONAL_SCOPES,
                nonce=nonce,
                prompt=self.client.prompt,
                metadata=self._metadata,
            )
        except GrantFailed as error:
            raise IdentityProviderUnavailable(self._sentence(error)) from error
        return ProviderSignIn(authorization, nonce)

    async def finish(self, request: ProviderSignIn, answer: Mapping[str, str]) -> SignedIn:
        """Redeem the answer that the browser has brought from the provider. Raises SignInFailed,
        IdentityProviderUnavailable.
        """
        try:
            flow = await self._ready_flow()
            grant, issued_token = await flow.redeem(request.authorization, answer)
        except GrantFailed as error:
            if error.cause == ACCESS_DENIED:
                raise PersonDeclined(self._sentence(error)) from error
            if error.cause in _UNAVAILABLE_CAUSES:
                raise IdentityProviderUnavailable(self._sentence(error)) from error
            raise SignInFailed(self._sentence(error)) from error
        self._has_logged_rejection = False
        claims = await self._verify(issued_token.id_token)
        fault = id_token_fault(claims, self.client.client_id, request.nonce)
        if fault is not None:
            raise SignInFailed(f"the answer of {self.client.display_name} does not belong to this sign-in: {fault}")
        person = await self._person(issued_token, claims)
        if not grant.refresh_token and OFFLINE_ACCESS in self.client.scopes and not self._has_warned:
            self._has_warned = True
            log.warning(_UNRENEWED, self.client.issuer.issuer, self.client.client_id)
        return SignedIn(person, ProviderGrant(grant.refresh_token, grant.expires_at))

    async def renew(self, person: SignedInPerson, refresh_token: str) -> RenewedPerson:
        """Renew a person's claims and tokens. Raises RenewalRefused, IdentityProviderUnavailable."""
        grant = StoredGrant(self.client.issuer.issuer, self.client.client_id, refresh_token=refresh_token)
        try:
            async with asyncio.timeout(RENEWAL_SECONDS):
                flow = await self._ready_flow()
                issued_token = await flow.renew(grant)
        except TimeoutError as error:
            message = f"{self.client.display_name} did not answer within {RENEWAL_SECONDS:g} s: try again"
            raise IdentityProviderUnavailable(message) from error
        except GrantFailed as error:
            if error.cause in _REFUSED_CAUSES:
                raise RenewalRefused(self._sentence(error)) from error
            raise IdentityProviderUnavailable(self._sentence(error)) from error
        self._has_logged_rejection = False
        renewed_grant = ProviderGrant(issued_token.refresh_token or refresh_token, issued_token.refresh_expires_at)
        try:
            async with asyncio.timeout(KEYS_SECONDS):
                renewed_person = await self._read_renewed_person(issued_token, person)
        except TimeoutError as error:
            raise IdentityProviderUnavailable(self._keys_unavailable, renewed_grant) from error
        except SignInFailed as error:
            raise RenewalRefused(str(error)) from error
        except IdentityProviderUnavailable as error:
            raise IdentityProviderUnavailable(str(error), renewed_grant) from error
        return RenewedPerson(renewed_person, renewed_grant, _tokens_of(issued_token))

    async def revoke(self, refresh_token: str) -> bool:
        """Revoke a refresh token (RFC 7009); False if that fails. True if the provider does not support revocation."""
        try:
            flow = await self._ready_flow()
        except GrantFailed:
            return False
        if self._metadata is None or not self._metadata.revocation_endpoint:
            return True
        return await flow.revoke(
            StoredGrant(self.client.issuer.issuer, self.client.client_id, refresh_token=refresh_token)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._flow is not None:
            await self._flow.aclose()

    # Internals

    async def _ready_flow(self) -> ConsentFlow:
        """The consent flow, with the authentication method that the provider's metadata name. Raises GrantFailed."""
        called_at = self._access.monotonic()
        async with self._lock:
            if self._failure is not None and self._failed_at >= called_at:
                # otherwise, each waiting task would repeat the failed discovery and wait for its timeout
                raise self._failure.with_traceback(None)
            if self._access.monotonic() >= self._discover_at:
                await self._discover()
            assert self._metadata is not None, "there was a discovery"
            if self._flow is None:
                self._flow = self._make_flow(self._metadata)
            return self._flow

    async def _discover(self) -> None:
        """Read the metadata. While the provider cannot be reached, earlier metadata stay in use. Raises GrantFailed if
        there are none.
        """
        try:
            self._metadata = await discover_issuer(self._access, self.client.issuer.issuer, self.client.ca_bundle)
        except GrantFailed as error:
            if self._metadata is None:
                self._failure = error
                self._failed_at = self._access.monotonic()
                raise
            self._discover_at = self._access.monotonic() + RETRY_SECONDS
        else:
            self._discover_at = self._access.monotonic() + DISCOVERY_SECONDS

    def _make_flow(self, metadata: AuthorizationServerMetadata) -> ConsentFlow:
        client = self.client
        issuer = client.issuer.issuer
        methods = metadata.authentication_methods
        method = POST if POST in methods and BASIC not in methods else BASIC
        settings = OAuthSettings(
            grant=USER_CONSENT,
            client_id=client.client_id,
            client_authentication=method if client.client_secret else NONE,
            issuer=issuer,
            scopes=tuple(dict.fromkeys((OPENID, *client.scopes))),
            ca_bundle=client.ca_bundle,
        )
        credential = Credential(client_secret=client.client_secret)
        # an empty store suffices, because the client is registered already
        return ConsentFlow(settings, credential, self._access, MemoryGrants())

    async def _verify(self, id_token: str) -> Mapping[str, Any]:
        """Claims of an ID token. Raises SignInFailed, IdentityProviderUnavailable."""
        if not id_token:
            raise SignInFailed(
                f"{self.client.display_name} sent no ID token: "
                f"let the client {self.client.client_id} use the scope openid"
            )
        await asyncio.sleep(0)  # lets calls run, because reading the provider's answer has taken some time
        claims = await self._tokens.verify(id_token, self.client.issuer.issuer)
        if not isinstance(claims, CredentialRefusal):
            return claims
        if claims.status == 503:
            raise IdentityProviderUnavailable(self._keys_unavailable)
        raise SignInFailed(f"the ID token of {self.client.display_name} is not accepted: {claims.message}")

    @property
    def _keys_unavailable(self) -> str:
        return f"the keys of {self.client.display_name} cannot be fetched: try again in a moment"

    async def _person(self, issued_token: IssuedToken, id_claims: Mapping[str, Any]) -> SignedInPerson:
        token = issued_token.access.value
        identity = None
        if self._tokens.recognizes(token):
            await asyncio.sleep(0)  # lets calls run, because verifying the ID token has taken some time
            identity = self._tokens.check(token) or await self._tokens.look_up(token)
        if isinstance(identity, CredentialRefusal) and identity.status == 503:
            # the claims of the ID token may have other groups and, at some providers, another subject
            raise IdentityProviderUnavailable(self._keys_unavailable)
        issuer = self.client.issuer.issuer
        claims = id_claims
        if isinstance(identity, Identity) and identity.claims["iss"] == issuer:
            claims = identity.claims
        hidden_claims = PROTOCOL_CLAIMS.union(self.client.issuer.agent_claims)
        shown_claims = {name: value for name, value in claims.items() if name not in hidden_claims}
        return SignedInPerson(issuer=issuer, subject=claims["sub"], claims=shown_claims)

    async def _read_renewed_person(self, issued_token: IssuedToken, previous: SignedInPerson) -> SignedInPerson:
        """The renewed person; `previous` if the provider sends no claims. Raises SignInFailed,
        IdentityProviderUnavailable.
        """
        if issued_token.id_token:
            return await self._person(issued_token, await self._verify(issued_token.id_token))
        if self._tokens.recognizes(issued_token.access.value):
            return await self._person(issued_token, {"sub": previous.subject, **previous.claims})
        return previous

    def _sentence(self, error: GrantFailed) -> str:
        if error.cause != INVALID_CLIENT:
            return error.impersonal
        if not self._has_logged_rejection:
            self._has_logged_rejection = True
            log.warning(_REJECTED, self.client.issuer.issuer, self.client.client_id)
        name = self.client.display_name
        return f"{name} rejects the gateway as its client (invalid_client): tell the gateway's administrator"


def _tokens_of(issued_token: IssuedToken) -> dict[str, SubjectToken]:
    """Tokens in an answer, by type. The ID token was verified."""
    access = SubjectToken(issued_token.access.value, issued_token.access.expires_at)
    tokens = {ACCESS_TOKEN_TYPE: access, JWT_TYPE: access}
    claims = json_of(issued_token.id_token.split(".")[1]) if issued_token.id_token else None
    expires_at = time_of(claims.get("exp")) if claims is not None else None
    return tokens if expires_at is None else {**tokens, ID_TOKEN_TYPE: SubjectToken(issued_token.id_token, expires_at)}
