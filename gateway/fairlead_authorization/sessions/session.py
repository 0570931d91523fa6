"""Session: the access of a client in the name of a person; and the interface of the session store. Declarations only.

A session begins when the person has signed in at the provider. It ends when it expires, or when the person, the
provider or the client ends it. It is stored as a grant of the provider (`StoredGrant`), so that it is sealed, listed
and ended like other grants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_gateway.core.identity import SubjectToken
from fairlead_mcp.oauth.stored_grant import VersionedGrant


class SignedInPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person with the claims of the provider."""

    issuer: str
    """`iss` of the provider."""
    subject: str
    claims: Mapping[str, Any]
    """Claims of the provider's token, without claims of the protocol."""


class ProviderGrant(NamedTuple):
    """Refresh token of the provider for a person."""

    refresh_token: str = ""
    expires_at: float = 0.0
    """Expiry of the refresh token, in seconds since the epoch; 0 if unknown."""


class RequestedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Validated authorization request (RFC 6749 section 4.1.1, RFC 7636, RFC 8707)."""

    redirect_uri: str
    challenge: str
    """`code_challenge` of the method S256."""
    resource: str
    """The gateway's URL, or a URL below it, in canonical form."""
    scopes: tuple[str, ...] = ()


class ClientSession(msgspec.Struct, frozen=True, kw_only=True):
    """Access of a client in the name of a person."""

    id: str
    person: SignedInPerson
    client_id: str
    agent: str | None
    access: RequestedAccess
    began_at: float
    """Seconds since the epoch."""
    used_at: float
    ends_at: float
    """End of the session, in seconds since the epoch. No token is valid longer."""


class WaitingSession(NamedTuple):
    """A session that waits for the person's consent."""

    session: ClientSession
    record: VersionedGrant
    """Stored record of the session."""
    has_consent: bool = False
    """Whether an earlier consent of the person covers this client (with the same digest), redirect host and scopes. If
    not, the consent page is shown.
    """


class IssuedRefreshToken(NamedTuple):
    """A session with its current refresh token."""

    session: ClientSession
    refresh_token: str


class RenewedPerson(NamedTuple):
    """Answer of the provider to a renewal."""

    person: SignedInPerson
    grant: ProviderGrant
    tokens: Mapping[str, SubjectToken] = {}
    """Tokens of the provider, by type (RFC 8693 section 3)."""


class RenewalRefused(Exception):
    """The provider refuses the renewal, because the person or the grant no longer exists there."""


class IdentityProviderUnavailable(Exception):
    """The provider cannot be reached. The session stays unchanged, except that `grant`, if the provider has already
    issued one, replaces the earlier grant. The message is one sentence.
    """

    def __init__(self, message: str, grant: ProviderGrant | None = None) -> None:
        super().__init__(message)
        self.grant = grant


class SessionRefused(Exception):
    """`invalid_grant` (RFC 6749 section 5.2): a code or refresh token is unknown, expired, was used twice, or belongs
    to another client or an ended session; or a session cannot be stored, because the provider's claims about the person
    are too long. The message is one sentence.
    """


class NotRenewable(Exception):
    """The session has no refresh token of the provider. The message is one sentence."""


class SessionStoreUnavailable(Exception):
    """The store of sessions cannot be reached. The message is one sentence."""


Renew = Callable[[SignedInPerson, str], Awaitable[RenewedPerson]]
"""Renews a person at the provider with a refresh token. Raises RenewalRefused, IdentityProviderUnavailable."""


class SessionStore(Protocol):
    """Sessions of all replicas. All methods raise SessionStoreUnavailable."""

    async def begin(
        self, person: SignedInPerson, client: RegisteredClient, access: RequestedAccess, grant: ProviderGrant
    ) -> WaitingSession:
        """Store a session that waits for the person's consent, for at most ten minutes. Raises SessionRefused if the
        request, or the provider's claims about the person, are too long to be stored.
        """
        ...

    async def find_waiting(self, person: SignedInPerson, session_id: str) -> WaitingSession | None:
        """The session with an id that waits for consent; None if there is none."""
        ...

    async def consent(self, session: ClientSession, client: RegisteredClient) -> None:
        """Remember the person's consent."""
        ...

    async def issue_code(self, waiting: WaitingSession) -> str:
        """Authorization code of a session, valid once within 60 s. Raises SessionRefused if the session is no longer
        waiting.
        """
        ...

    async def redeem(self, code: str, client_id: str) -> IssuedRefreshToken:
        """Redeem a code. The caller checks redirect URI, verifier and resource against the session. A second use of the
        code ends the session. Raises SessionRefused.
        """
        ...

    async def refresh(self, refresh_token: str, client_id: str, renew: Renew) -> IssuedRefreshToken:
        """Rotate a refresh token. Within the grace window, a used token gives the same successor again; after it, the
        use of an old token ends the session (RFC 9700 section 4.14.2). One replica asks the provider, others wait for
        it. Raises SessionRefused, IdentityProviderUnavailable.
        """
        ...

    async def renew(self, person: bytes, session_id: str, renew: Renew) -> RenewedPerson:
        """Renew the person of an active session at the provider, like `refresh`, without rotating the client's refresh
        token. Raises SessionRefused, NotRenewable, IdentityProviderUnavailable.
        """
        ...

    async def revoke(self, token: str, client_id: str) -> None:
        """End the session of a refresh token of the client (RFC 7009); no-op for any other token."""
        ...

    async def end(self, person: bytes, session_id: str) -> bool:
        """End a session; False if there is none."""
        ...
