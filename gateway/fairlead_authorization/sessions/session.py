"""Access of a client for a person, and the port of the sessions. Declarations only.

A session begins when the person has signed in at the provider. It ends when it expires, or when the person, the
provider or the client ends it. It is stored as a grant of the provider (`StoredGrant`), so that it is sealed, listed
and ended like all grants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_gateway.core.identity import SubjectToken
from fairlead_mcp.oauth.stored_grant import VersionedGrant


class SignedInPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person, as the provider describes them."""

    issuer: str
    """`iss` of the provider."""
    subject: str
    claims: Mapping[str, Any]
    """Claims of the token with which a direct login would come, without those of the protocol."""


class ProviderGrant(NamedTuple):
    """Refresh token of the provider for a person."""

    refresh_token: str = ""
    expires_at: float = 0.0
    """End of the refresh token, in seconds since the epoch; 0: unknown."""


class RequestedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Checked authorization request (RFC 6749 section 4.1.1, RFC 7636, RFC 8707)."""

    redirect_uri: str
    challenge: str
    """`code_challenge` by S256."""
    resource: str
    """URL of the gateway or below it, canonical."""
    scopes: tuple[str, ...] = ()


class ClientSession(msgspec.Struct, frozen=True, kw_only=True):
    """A client's access for a person."""

    id: str
    person: SignedInPerson
    client_id: str
    agent: str | None
    access: RequestedAccess
    began_at: float
    """Seconds since the epoch."""
    used_at: float
    ends_at: float
    """Seconds since the epoch; no token outlives it."""


class WaitingSession(NamedTuple):
    """A session that waits for the person's consent."""

    session: ClientSession
    record: VersionedGrant
    """As it is stored."""
    has_consent: bool = False
    """Whether the person had consented before to this client, redirect host and scopes, and the client's digest is the
    same. One that a page asks about had not.
    """


class IssuedRefreshToken(NamedTuple):
    """A session with the refresh token that continues it."""

    session: ClientSession
    refresh_token: str


class RenewedPerson(NamedTuple):
    """Answer of the provider to a renewal."""

    person: SignedInPerson
    grant: ProviderGrant
    tokens: Mapping[str, SubjectToken] = {}
    """Tokens that the provider gave, by type (RFC 8693 section 3)."""


class PersonGone(Exception):
    """The provider refuses to renew, because the person or the grant does not exist there any more."""


class ProviderAway(Exception):
    """The provider cannot be reached. The session stays as it is, except that `grant`, if the provider issued one
    already, replaces the earlier grant. The message is one sentence.
    """

    def __init__(self, message: str, grant: ProviderGrant | None = None) -> None:
        super().__init__(message)
        self.grant = grant


class SessionRefused(Exception):
    """`invalid_grant` (RFC 6749 section 5.2): a code or refresh token is unknown, of another client, expired, used
    twice, or its session has ended; or a session cannot be stored, because the provider's claims about the person are
    too long. The message is one sentence.
    """


class NotRenewable(Exception):
    """The provider gave no refresh token with a session. The message is one sentence."""


class SessionsAway(Exception):
    """The store cannot be reached: try again. The message is one sentence."""


Renew = Callable[[SignedInPerson, str], Awaitable[RenewedPerson]]
"""Asks the provider with a refresh token. Raises PersonGone, ProviderAway."""


class SessionStore(Protocol):
    """Sessions of all replicas. All methods raise SessionsAway."""

    async def begin(
        self, person: SignedInPerson, client: RegisteredClient, access: RequestedAccess, grant: ProviderGrant
    ) -> WaitingSession:
        """Store a session that waits for the person's consent, ten minutes at most. Raises SessionRefused if the
        request, or the provider's claims about the person, are too long to be stored.
        """
        ...

    async def waiting(self, person: SignedInPerson, session_id: str) -> WaitingSession | None:
        """A session that waits for consent."""
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
        """Redeem a code; the caller checks redirect URI, verifier and resource by the session. A second use ends the
        session. Raises SessionRefused.
        """
        ...

    async def refresh(self, refresh_token: str, client_id: str, renew: Renew) -> IssuedRefreshToken:
        """Rotate a refresh token: the predecessor gives the same successor within the grace window, and ends the
        session after it (RFC 9700 section 4.14.2). One replica asks the provider, others wait for it. Raises
        SessionRefused, ProviderAway.
        """
        ...

    async def renew(self, person: bytes, session_id: str, renew: Renew) -> RenewedPerson:
        """Ask the provider for the person of an active session, as `refresh` does; the client's refresh token stays
        current. Raises SessionRefused, NotRenewable, ProviderAway.
        """
        ...

    async def revoke(self, token: str, client_id: str) -> None:
        """End the session of a refresh token of the client (RFC 7009); nothing for any other text."""
        ...

    async def end(self, person: bytes, session_id: str) -> bool:
        """End a session; False if there is none."""
        ...
