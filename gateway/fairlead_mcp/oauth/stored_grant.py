"""Grants that users made, as they are kept to renew access tokens without the person, and the port of their store.

A grant is found by the person and the server. Access tokens are not stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from fairlead_mcp.oauth.stored_session import StoredSession, StoredTokenKeys

MAX_GRANT_BYTES: Final = 2_048
"""Limit on a grant as JSON."""
MAX_SESSION_BYTES: Final = 8_192
"""Limit on a grant with a session, which has the claims of the person too."""
USED_SECONDS: Final = 86_400.0
"""Time within which the use of a grant is written once."""


class StoredGrant(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Consent of one person for one server, the key of one person for it, or the gateway's registration at one issuer;
    at most `max_bytes` as JSON. Its text never shows a secret.
    """

    issuer: str
    """Authorization server that gave it (RFC 8414); empty for a key."""
    client_id: str
    """Client that it was given to; empty for a key."""
    client_secret: str = ""
    """Secret of a client that the gateway registered; that of the settings is not stored."""
    client_authentication: str = "none"
    """How a client that the gateway registered authenticates at the token endpoint."""
    client_expires_at: float = 0.0
    """End of the registration, in seconds since the epoch; 0: none."""
    refresh_token: str = ""
    """Empty for a registration, or if the authorization server gave none that can be stored: then the person is asked
    again when the access token expires.
    """
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """`resource` of its requests (RFC 8707); empty: not sent."""
    granted_at: float = 0.0
    """When the person consented or entered the key, in seconds since the epoch."""
    renewed_at: float = 0.0
    """When the refresh token was last replaced, in seconds since the epoch."""
    used_at: float = 0.0
    """Last renewal for a call, or for a key its last use, in seconds since the epoch and to within a day; 0: there was
    none after the first day.
    """
    renewing_until: float = 0.0
    """Seconds since the epoch until which a replica renews the access token alone, for a provider may end a consent
    whose refresh token it sees twice; 0: none does.
    """
    steady_until: float = 0.0
    """Seconds since the epoch until which replicas renew at once and without a write, for the last renewal did not
    replace the refresh token; 0: they may not.
    """
    expires_at: float = 0.0
    """End of the refresh token, in seconds since the epoch, where the authorization server says it; 0: unknown."""
    server_address: str = ""
    """`TokenAccess.address` of the server that the person consented to; its tokens are sent to no other."""
    server_uid: str = ""
    """`TokenAccess.server_uid` of that server."""
    token_url: str = ""
    """Token endpoint of the settings, which alone gets the refresh token; empty: that which the issuer names."""
    holder: str = ""
    """The person, in words of the person's provider: issuer and subject; `local` on a laptop."""
    user_key: str = ""
    """Key that the person entered (`auth: userKey`); empty for a consent or registration."""
    redirect_uri: str = ""
    """Redirect URI of the client that the gateway registered."""
    session: StoredSession | None = None
    """Access of a client of the gateway for which the person granted it; None for a grant for a server."""
    token_keys: StoredTokenKeys | None = None
    """Keys with which the gateway makes tokens of its own; None for all other records."""

    @property
    def max_bytes(self) -> int:
        """Limit on the bytes of the grant as JSON."""
        return MAX_GRANT_BYTES if self.session is None else MAX_SESSION_BYTES

    @property
    def fits(self) -> bool:
        """Whether it is small enough to be stored."""
        return len(msgspec.json.encode(self)) <= self.max_bytes

    def used(self, now: float) -> StoredGrant:
        """The grant, with a use at `now`; the same object if one within the last day is known."""
        if now - max(self.granted_at, self.used_at) < USED_SECONDS:
            return self
        return msgspec.structs.replace(self, used_at=now)

    def has_client_of(self, other: StoredGrant) -> bool:
        """Whether both are of one client: to revoke one then may end the other, as authorization servers may end all
        that a client has of a person.
        """
        return (self.issuer, self.client_id) == (other.issuer, other.client_id)

    def __repr__(self) -> str:
        return f"StoredGrant(issuer={self.issuer!r}, client_id={self.client_id!r}, scopes={self.scopes!r})"


class GrantKey(NamedTuple):
    """Place of a grant."""

    person: bytes
    """Key of the person (`Identity.person`); empty for what belongs to the gateway itself, as its registrations."""
    server: str
    """`NAMESPACE/NAME`; for a registration `registration:ISSUER REDIRECT_URI`, for the session of a client
    `session:ID`, for the consent to a client `consent:DIGEST`, for the keys of the gateway's tokens `token-keys`.
    """


class VersionedGrant(NamedTuple):
    """A grant with the version of its record, by which a writer notices that another one was faster."""

    grant: StoredGrant
    version: str


class GrantStoreError(Exception):
    """The store is away or full, or a record cannot be read with any known key. The message says what to do."""


class UnreadableGrant(GrantStoreError):
    """The record cannot be opened: its key is lost, or it was changed. The person has to sign in again."""


class GrantStore(Protocol):
    """Store of grants, shared by all replicas. All methods raise GrantStoreError."""

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        """The grant, or None."""
        ...

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        """Store a grant and return its version. With `replaces`, only if the record still has that version (empty: if
        there is none); else None, and nothing is changed.
        """
        ...

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        """Delete a grant, with `version` only if the record still has it; False if nothing was deleted."""
        ...

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        """All grants of a person."""
        ...

    async def everything(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        """All grants that can be read, or those for some servers (`GrantKey.server`); others are not opened."""
        ...

    def changes(self, *, deletions: bool = False) -> AsyncIterator[GrantKey]:
        """Keys whose grants were written or deleted, here or at another replica, within a second. Ends with the store.
        With `deletions` those that were only written are left out.

        Each renewal of an access token writes the grant, so a change alone must not end the use of a token:
        `TokenSource.review` tells a renewal from another consent.
        """
        ...
