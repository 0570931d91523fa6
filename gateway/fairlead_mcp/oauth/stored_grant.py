"""Users' grants as they are stored, to renew access tokens without the user; and the port of their store.

The key of a grant consists of the person and the server. Access tokens are not stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from fairlead_mcp.oauth.stored_session import StoredSession, StoredTokenKeys

MAX_GRANT_BYTES: Final = 2_048
"""Maximum size of a grant as JSON."""
MAX_SESSION_BYTES: Final = 8_192
"""Maximum size of a grant with a session, which includes the person's claims."""
USED_SECONDS: Final = 86_400.0
"""Time within which the use of a grant is recorded only once."""


class StoredGrant(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A record of the grant store: the consent or the key of one person for one server, the gateway's registration at
    one issuer, a client's session, or the gateway's token keys. It has at most `max_bytes` as JSON. `repr` hides the
    secrets.
    """

    issuer: str
    """Authorization server of the consent or registration (RFC 8414); empty for a key."""
    client_id: str
    """Client of the consent or registration; empty for a key."""
    client_secret: str = ""
    """Secret of a client that the gateway registered. The secret in the settings is not stored."""
    client_authentication: str = "none"
    """Authentication method of a client that the gateway registered."""
    client_expires_at: float = 0.0
    """Expiry of the registration, in seconds since the epoch; 0: none."""
    refresh_token: str = ""
    """Empty for a registration, or if the authorization server sent none that can be stored: the person then has to
    sign in again when the access token expires.
    """
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """`resource` of token requests (RFC 8707); empty: not sent."""
    granted_at: float = 0.0
    """When the person consented or entered the key, in seconds since the epoch."""
    renewed_at: float = 0.0
    """When the refresh token was last replaced, in seconds since the epoch."""
    used_at: float = 0.0
    """Time of the last renewal for a call, or of the last use of a key, in seconds since the epoch with a precision of
    a day; 0: not used after the first day.
    """
    renewing_until: float = 0.0
    """Seconds since the epoch until which one replica has claimed the renewal of the access token; 0: no claim. A
    provider may end a consent if it receives the same refresh token twice.
    """
    steady_until: float = 0.0
    """Seconds since the epoch until which replicas renew without a claim, because the last renewal did not replace the
    refresh token; 0: a claim is necessary.
    """
    expires_at: float = 0.0
    """Expiry of the refresh token, in seconds since the epoch; 0: unknown."""
    server_address: str = ""
    """`TokenAccess.address` of the server for which the person consented. Tokens are sent to no other server."""
    server_uid: str = ""
    """`TokenAccess.server_uid` of that server."""
    token_url: str = ""
    """Token endpoint of the settings, the only one that gets the refresh token; empty: the endpoint of the issuer."""
    holder: str = ""
    """The person as issuer and subject of the person's provider; `local` on a laptop."""
    user_key: str = ""
    """Key that the person entered (`auth: userKey`); empty for other records."""
    redirect_uri: str = ""
    """Redirect URI of a client that the gateway registered."""
    session: StoredSession | None = None
    """Session of a client of the gateway, to which the person has granted access; None for other records."""
    token_keys: StoredTokenKeys | None = None
    """Keys with which the gateway issues its own tokens; None for other records."""

    @property
    def max_bytes(self) -> int:
        """Maximum bytes of the grant as JSON."""
        return MAX_GRANT_BYTES if self.session is None else MAX_SESSION_BYTES

    @property
    def fits(self) -> bool:
        """Whether the grant is small enough to be stored."""
        return len(msgspec.json.encode(self)) <= self.max_bytes

    def with_use(self, now: float) -> StoredGrant:
        """The grant with a use at `now`; the same object if a use within the last USED_SECONDS is recorded already."""
        if now - max(self.granted_at, self.used_at) < USED_SECONDS:
            return self
        return msgspec.structs.replace(self, used_at=now)

    def has_client_of(self, other: StoredGrant) -> bool:
        """Whether both grants are of the same client. Revoking one may then end the other, because an authorization
        server may revoke all tokens that a client has for a person.
        """
        return (self.issuer, self.client_id) == (other.issuer, other.client_id)

    def __repr__(self) -> str:
        return f"StoredGrant(issuer={self.issuer!r}, client_id={self.client_id!r}, scopes={self.scopes!r})"


class GrantKey(NamedTuple):
    """Key of a grant in the store."""

    person: bytes
    """Key of the person (`Identity.person`); empty for records of the gateway itself, such as its registrations."""
    server: str
    """`NAMESPACE/NAME`; for a registration `registration:ISSUER REDIRECT_URI`, for the session of a client
    `session:ID`, for the consent to a client `consent:DIGEST`, for the keys of the gateway's tokens `token-keys`.
    """


class VersionedGrant(NamedTuple):
    """A grant with the version of its record, for writes by compare-and-set."""

    grant: StoredGrant
    version: str


class GrantStoreError(Exception):
    """The store is unavailable or full, or a record cannot be decrypted. The message says what to do."""


class UnreadableGrant(GrantStoreError):
    """A record cannot be decrypted: its key is lost, or it was changed. The person has to sign in again."""


class GrantStore(Protocol):
    """Store of grants, shared by all replicas. All methods raise GrantStoreError."""

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        """The grant; None if there is none."""
        ...

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        """Store a grant and return its version.

        With `replaces`, the grant is stored only if the record still has that version (empty: only if there is no
        record); otherwise nothing is changed, and the result is None.
        """
        ...

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        """Delete a grant; with `version`, only if the record still has it. False if nothing was deleted."""
        ...

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        """All grants of a person."""
        ...

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        """All grants that can be read; with `servers`, only those for these servers (`GrantKey.server`)."""
        ...

    def changes(self, *, deletions: bool = False) -> AsyncIterator[GrantKey]:
        """Yield the keys of grants that any replica has written or deleted, within a second of the change, until the
        store is closed. With `deletions`, only deleted grants.

        Each renewal of an access token writes the grant, so a change does not imply that a token is invalid:
        `TokenSource.review` distinguishes a renewal from another consent.
        """
        ...
