"""Parts of one authorization server."""

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
from fairlead_authorization.sessions.session import PersonGone, RenewedPerson, SessionStore, SignedInPerson
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
        """By outcome: `begun`, `signed_in`, `denied`, `refused`, `unavailable`."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """By grant type and outcome: `issued`, `refused`, `unavailable`."""


class IdentityAssertions(NamedTuple):
    """Trust in assertions of identity providers (ID-JAG)."""

    issuers: frozenset[str]
    """Issuers whose assertions are taken."""
    tokens: Tokens
    """Verifies what the issuers sign."""
    spent: SpentAssertions


class AuthorizationParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that the endpoints share."""

    issuer: str
    """URL of the gateway, without a slash at the end."""
    scopes: tuple[str, ...]
    """Scopes that clients can ask for: those that every token must have."""
    clients: ClientDirectory
    takes_documents: bool
    """Whether a client id may be the URL of a document."""
    registrations: Registrations | None
    """None: clients cannot register themselves."""
    sessions: SessionStore
    tokens: AccessTokens
    keys: SigningKeys
    own_tokens: OwnTokens
    """Verifies the gateway's own tokens."""
    providers: Mapping[str, OpenIdProvider]
    """By name."""
    states: BrowserStates
    used: UsedAssertions
    """Assertions with which clients have authenticated."""
    now: Callable[[], float]
    """Seconds since the epoch."""
    clock: Callable[[], float]
    """Monotonic seconds."""
    assertions: IdentityAssertions | None = None
    """None: no assertions are taken."""
    workloads: Authenticator | None = None
    """Verifies tokens of ServiceAccounts that are exchanged; None: none are."""
    counts: SignInCounts = msgspec.field(default_factory=SignInCounts)

    def provider_of(self, issuer: str) -> OpenIdProvider | None:
        """The provider that is an issuer; None if the gateway signs nobody in there."""
        return next((each for each in self.providers.values() if each.client.issuer.issuer == issuer), None)

    async def renew(self, person: SignedInPerson, refresh_token: str) -> RenewedPerson:
        """Ask the provider of a person again. Raises PersonGone, ProviderAway."""
        provider = self.provider_of(person.issuer)
        if provider is None:
            raise PersonGone(f"this gateway signs nobody in at {person.issuer} any more")
        return await provider.renew(person, refresh_token)

    async def revoke(self, grant: StoredGrant) -> bool:
        """Revoke the refresh token of a session at its provider; False if the provider did not."""
        provider = self.provider_of(grant.issuer)
        return provider is None or await provider.revoke(grant.refresh_token)
