"""Components that the endpoints of an authorization server share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fairlead_authorization.clients.client import ClientDirectory
from fairlead_authorization.clients.registration import Registrations
from fairlead_authorization.protocol.browser_state import BrowserStates
from fairlead_authorization.protocol.client_assertions import UsedAssertions
from fairlead_authorization.protocol.provider import OpenIdProvider
from fairlead_authorization.sessions.access_tokens import AccessTokens
from fairlead_authorization.sessions.session import RenewalRefused, RenewedPerson, SessionStore, SignedInPerson
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_authorization.sessions.spent_assertions import SpentAssertions
from fairlead_gateway.identity.authenticator import Authenticator
from fairlead_gateway.identity.own_tokens import OwnTokens
from fairlead_mcp.oauth.stored_grant import StoredGrant

if TYPE_CHECKING:
    from fairlead_gateway.identity.jwt_authenticator import Tokens


class SignInCounts:
    """Outcomes of sign-ins and token requests, for metrics."""

    def __init__(self) -> None:
        self.sign_ins: Counter[str] = Counter()
        """Sign-ins by outcome: `begun`, `signed_in`, `denied`, `refused`, `unavailable`."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """Token requests by grant type and outcome: `issued`, `refused`, `unavailable`."""


class IdentityAssertions(NamedTuple):
    """Trust in assertions of identity providers (ID-JAG)."""

    issuers: frozenset[str]
    """Issuers whose assertions are accepted."""
    tokens: Tokens
    """Verifies assertions of these issuers."""
    spent_assertions: SpentAssertions


class AuthorizationParts(msgspec.Struct, frozen=True, kw_only=True):
    """Components that the endpoints share."""

    issuer: str
    """URL of the gateway, without a slash at the end."""
    scopes: tuple[str, ...]
    """Scopes that clients may request; every token must have all of them."""
    clients: ClientDirectory
    takes_documents: bool
    """Whether a client id may be the URL of a document."""
    registrations: Registrations | None
    """None if clients may not register themselves."""
    sessions: SessionStore
    tokens: AccessTokens
    keys: SigningKeys
    own_tokens: OwnTokens
    """Verifies the gateway's own tokens."""
    providers: Mapping[str, OpenIdProvider]
    """Providers by name."""
    states: BrowserStates
    used_assertions: UsedAssertions
    """Used assertions of clients."""
    now: Callable[[], float]
    """Seconds since the epoch."""
    clock: Callable[[], float]
    """Monotonic seconds."""
    assertions: IdentityAssertions | None = None
    """Trust in identity assertions; None if no assertions are accepted."""
    workloads: Authenticator | None = None
    """Verifies tokens of ServiceAccounts; None if they are not exchanged."""
    counts: SignInCounts = msgspec.field(default_factory=SignInCounts)

    def provider_of(self, issuer: str) -> OpenIdProvider | None:
        """The provider with an issuer URL; None if people do not sign in there."""
        return next((each for each in self.providers.values() if each.client.issuer.issuer == issuer), None)

    async def renew(self, person: SignedInPerson, refresh_token: str) -> RenewedPerson:
        """Renew a person's claims and tokens at the provider. Raises RenewalRefused, IdentityProviderUnavailable."""
        provider = self.provider_of(person.issuer)
        if provider is None:
            raise RenewalRefused(f"people no longer sign in at {person.issuer} for this gateway")
        return await provider.renew(person, refresh_token)

    async def revoke(self, grant: StoredGrant) -> bool:
        """Revoke the refresh token of a session at its provider; False if the provider did not."""
        provider = self.provider_of(grant.issuer)
        return provider is None or await provider.revoke(grant.refresh_token)
