"""Sign-in of users at an OpenID provider, whose client the gateway is, and the renewal of what the provider says.

The claims that count are those of the token with which a direct login would come: the access token where the gateway
accepts it, else the ID token.
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
    PersonGone,
    ProviderAway,
    ProviderGrant,
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
"""Time limit of the request of a renewal, with discovery; other replicas wait for it."""
KEYS_SECONDS: Final = 5.0
"""Time limit of the look-up of keys that verify what a renewal gave, when its refresh token is used up already."""
_GONE: Final = frozenset({INVALID_GRANT, INTERACTION_REQUIRED, ACCESS_DENIED, INVALID_REQUEST})
"""Causes for which the person is gone at the provider, and not the provider. Dex says `invalid_request` of a refresh
token that it has revoked or that has expired.
"""
_AWAY: Final = frozenset({UNREACHABLE, TIMEOUT, PROVIDER_ERROR})
# `prompt` is not set without the settings: no metadata say that a provider needs it, and Entra, which offers
# offline_access too, would ask each person at each sign-in (OpenID Connect Core 1.0 section 11 leaves it open)
_UNRENEWED: Final = (
    "%s gave no refresh token, so sign-ins end after unrenewedHours of authorizationServer: allow refresh tokens there "
    "for the client %s; if it gives them only after its own consent page, set prompt: consent in providers; or leave "
    "offline_access out of scopes"
)
_REJECTED: Final = (
    "%s rejects the client %s (invalid_client), so nobody can sign in there and no sign-in is renewed: compare "
    "clientId and clientSecretFile (chart: clientSecret) of authorizationServer with the client's registration there"
)
_OPTIONAL: Final = frozenset({"profile", "email", "groups", OFFLINE_ACCESS})
"""Scopes by default, which not every provider knows."""
PROTOCOL_CLAIMS: Final = frozenset(
    {
        *("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "sid", "scope", "scp"),
        *("azp", "client_id", "at_hash", "c_hash", "s_hash"),
        *("cid", "appid", "appidacr", "azpacr", "uti"),  # of Okta and Entra
    }
)
"""Claims about a token and its client, which are another token's and client's at the gateway."""


class IdentityProviderClient(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway as a client of a provider. Its text never shows the secret."""

    name: str
    """In the path of the redirect URI."""
    issuer: Issuer
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    """Scopes besides `openid`."""
    prompt: str = ""
    """`prompt` of its requests; empty: not sent."""
    ca_bundle: str | None = None
    """PEM certificates that verify the provider; None: the system's."""

    @property
    def shown(self) -> str:
        """Name for users: the host."""
        return urlsplit(self.issuer.issuer).netloc

    def __repr__(self) -> str:
        return f"IdentityProviderClient({self.client_id!r} of {self.issuer.issuer!r})"


class ProviderSignIn(NamedTuple):
    """Authorization request at the provider."""

    authorization: Authorization
    nonce: str


class SignedIn(NamedTuple):
    """A person who has signed in, and the grant that renews what the provider says."""

    person: SignedInPerson
    grant: ProviderGrant


class SignInFailed(Exception):
    """The provider did not sign the person in. The message is one sentence for the person, without secrets."""


class PersonDeclined(SignInFailed):
    """The person or the provider declined (`access_denied`)."""


class OpenIdProvider:
    """One provider."""

    def __init__(self, client: IdentityProviderClient, tokens: Tokens, redirect_uri: str, access: TokenAccess) -> None:
        """`tokens` verifies the provider's tokens. `access` has no server."""
        self.client = client
        self._tokens = tokens
        self._redirect_uri = redirect_uri
        self._access = access
        self._flow: ConsentFlow | None = None
        self._metadata: AuthorizationServerMetadata | None = None
        self._failure: GrantFailed | None = None
        """Why there are no metadata, since `_failed_at`."""
        self._failed_at = float("-inf")
        self._discover_at = float("-inf")
        """Monotonic seconds of the next discovery."""
        self._turn = asyncio.Lock()
        self._warned = False
        self._rejected = False
        """Whether the provider has rejected the gateway as its client, which was logged."""

    async def begin(self) -> ProviderSignIn:
        """Prepare the sign-in of a person. Raises ProviderAway."""
        nonce = new_secret()
        try:
            flow = await self._ready()
            authorization = await flow.begin(
                self._redirect_uri,
                optional=_OPTIONAL,
                nonce=nonce,
                prompt=self.client.prompt,
                metadata=self._metadata,
            )
        except GrantFailed as error:
            raise ProviderAway(self._sentence(error)) from error
        return ProviderSignIn(authorization, nonce)

    async def finish(self, request: ProviderSignIn, answer: Mapping[str, str]) -> SignedIn:
        """Redeem the answer with which the browser came back. Raises SignInFailed, ProviderAway."""
        try:
            flow = await self._ready()
            grant, issued = await flow.redeem(request.authorization, answer)
        except GrantFailed as error:
            if error.cause == ACCESS_DENIED:
                raise PersonDeclined(self._sentence(error)) from error
            if error.cause in _AWAY:
                raise ProviderAway(self._sentence(error)) from error
            raise SignInFailed(self._sentence(error)) from error
        self._rejected = False
        claims = await self._verify(issued.id_token)
        fault = id_token_fault(claims, self.client.client_id, request.nonce)
        if fault is not None:
            raise SignInFailed(f"the answer of {self.client.shown} does not belong to this sign-in: {fault}")
        person = await self._person(issued, claims)
        if not grant.refresh_token and OFFLINE_ACCESS in self.client.scopes and not self._warned:
            self._warned = True
            log.warning(_UNRENEWED, self.client.issuer.issuer, self.client.client_id)
        return SignedIn(person, ProviderGrant(grant.refresh_token, grant.expires_at))

    async def renew(self, person: SignedInPerson, refresh_token: str) -> RenewedPerson:
        """Ask the provider for a person again. Raises PersonGone, ProviderAway."""
        grant = StoredGrant(self.client.issuer.issuer, self.client.client_id, refresh_token=refresh_token)
        try:
            async with asyncio.timeout(RENEWAL_SECONDS):
                flow = await self._ready()
                issued = await flow.renew(grant)
        except TimeoutError as error:
            message = f"{self.client.shown} did not answer within {RENEWAL_SECONDS:g} s: try again"
            raise ProviderAway(message) from error
        except GrantFailed as error:
            if error.cause in _GONE:
                raise PersonGone(self._sentence(error)) from error
            raise ProviderAway(self._sentence(error)) from error
        self._rejected = False
        renewed = ProviderGrant(issued.refresh_token or refresh_token, issued.refresh_expires_at)
        try:
            async with asyncio.timeout(KEYS_SECONDS):
                now = await self._renewed_person(issued, person)
        except TimeoutError as error:
            raise ProviderAway(self._keys_away, renewed) from error
        except SignInFailed as error:
            raise PersonGone(str(error)) from error
        except ProviderAway as error:
            raise ProviderAway(str(error), renewed) from error
        return RenewedPerson(now, renewed, _tokens_of(issued))

    async def revoke(self, refresh_token: str) -> bool:
        """Revoke a refresh token (RFC 7009), where the provider takes revocations; False if it fails."""
        try:
            flow = await self._ready()
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

    async def _ready(self) -> ConsentFlow:
        """The flow, whose client authenticates as the provider's metadata say. Raises GrantFailed."""
        arrived = self._access.monotonic()
        async with self._turn:
            if self._failure is not None and self._failed_at >= arrived:
                # or each would wait for the time limits of all before
                raise self._failure.with_traceback(None)
            if self._access.monotonic() >= self._discover_at:
                await self._discover()
            assert self._metadata is not None, "there was a discovery"
            if self._flow is None:
                self._flow = self._make_flow(self._metadata)
            return self._flow

    async def _discover(self) -> None:
        """Read the metadata; those of before stay in use while the provider is away. Raises GrantFailed."""
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
        # nothing is stored, as the client is registered already
        return ConsentFlow(settings, credential, self._access, MemoryGrants())

    async def _verify(self, id_token: str) -> Mapping[str, Any]:
        """Claims of an ID token. Raises SignInFailed, ProviderAway."""
        if not id_token:
            raise SignInFailed(
                f"{self.client.shown} sent no ID token: let the client {self.client.client_id} use the scope openid"
            )
        await asyncio.sleep(0)  # reading the provider's answer took time already, so let calls run
        claims = await self._tokens.verify(id_token, self.client.issuer.issuer)
        if not isinstance(claims, CredentialRefusal):
            return claims
        if claims.status == 503:
            raise ProviderAway(self._keys_away)
        raise SignInFailed(f"the ID token of {self.client.shown} is not accepted: {claims.message}")

    @property
    def _keys_away(self) -> str:
        return f"the keys of {self.client.shown} cannot be fetched: try again in a moment"

    async def _person(self, issued: IssuedToken, id_claims: Mapping[str, Any]) -> SignedInPerson:
        token = issued.access.value
        accepted = None
        if self._tokens.wants(token):
            await asyncio.sleep(0)  # verifying the ID token took time already, so let calls run
            accepted = self._tokens.check(token) or await self._tokens.look_up(token)
        if isinstance(accepted, CredentialRefusal) and accepted.status == 503:
            # those of the ID token might be of other groups, and at some providers of another subject
            raise ProviderAway(self._keys_away)
        issuer = self.client.issuer.issuer
        claims = id_claims
        if isinstance(accepted, Identity) and accepted.claims["iss"] == issuer:
            claims = accepted.claims
        hidden = PROTOCOL_CLAIMS.union(self.client.issuer.agent_claims)
        shown = {name: value for name, value in claims.items() if name not in hidden}
        return SignedInPerson(issuer=issuer, subject=claims["sub"], claims=shown)

    async def _renewed_person(self, issued: IssuedToken, before: SignedInPerson) -> SignedInPerson:
        """The person as the provider says; as before where it sends no claims. Raises SignInFailed, ProviderAway."""
        if issued.id_token:
            return await self._person(issued, await self._verify(issued.id_token))
        if self._tokens.wants(issued.access.value):
            return await self._person(issued, {"sub": before.subject, **before.claims})
        return before

    def _sentence(self, error: GrantFailed) -> str:
        if error.cause != INVALID_CLIENT:
            return error.impersonal
        if not self._rejected:
            self._rejected = True
            log.warning(_REJECTED, self.client.issuer.issuer, self.client.client_id)
        return (
            f"{self.client.shown} rejects the gateway as its client (invalid_client): tell the gateway's administrator"
        )


def _tokens_of(issued: IssuedToken) -> dict[str, SubjectToken]:
    """Tokens of an answer whose ID token was verified, by type."""
    access = SubjectToken(issued.access.value, issued.access.expires_at)
    tokens = {ACCESS_TOKEN_TYPE: access, JWT_TYPE: access}
    claims = json_of(issued.id_token.split(".")[1]) if issued.id_token else None
    ends = time_of(claims.get("exp")) if claims is not None else None
    return tokens if ends is None else {**tokens, ID_TOKEN_TYPE: SubjectToken(issued.id_token, ends)}
