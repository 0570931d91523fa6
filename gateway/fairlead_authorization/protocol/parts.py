"""Parts of one authorization server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fairlead_authorization.clients.client import ClientDirectory
from fairlead_authorization.clients.registration import Registrations
from fairlead_authorization.protocol.browser_state import BrowserStates
from fairlead_authorization.protocol.provider import OpenIdProvider
from fairlead_authorization.sessions.access_tokens import AccessTokens
from fairlead_authorization.sessions.session import SessionStore
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_authorization.sessions.spent_assertions import SpentAssertions
from fairlead_gateway.identity.authenticator import Authenticator
from fairlead_gateway.identity.own_tokens import OwnTokens

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
    now: Callable[[], float]
    """Seconds since the epoch."""
    clock: Callable[[], float]
    """Monotonic seconds."""
    assertions: IdentityAssertions | None = None
    """None: no assertions are taken."""
    workloads: Authenticator | None = None
    """Verifies tokens of ServiceAccounts that are exchanged; None: none are."""
    counts: SignInCounts = msgspec.field(default_factory=SignInCounts)
