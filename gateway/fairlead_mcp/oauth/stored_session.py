"""Records of the gateway as an authorization server: clients' sessions, and keys of its tokens. Declarations only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SessionState = Literal["waiting", "code", "active"]


class StoredSession(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Access of one client on behalf of a person. `repr` hides the secrets."""

    state: SessionState
    """`waiting` for the person's consent; then `code`, until the code is redeemed; then `active`."""
    state_until: float
    """Seconds since the epoch at which the session ends if it is still in this state."""
    ends_at: float
    """Seconds since the epoch at which all tokens of the session expire at the latest."""
    client_id: str
    subject: str
    """`sub` of the person at the provider."""
    claims: dict[str, Any]
    """The person's claims, as the provider last sent them."""
    redirect_uri: str
    challenge: str
    """`code_challenge` with S256 (RFC 7636)."""
    resource: str
    """URL of the resource (RFC 8707)."""
    scopes: tuple[str, ...] = ()
    agent: str | None = None
    client_name: str = ""
    """Name of the client, as the client states it."""
    code_sha256: bytes = b""
    """Digest of the code's secret; empty before a code is issued."""
    secret: bytes = b""
    """Secret from which the refresh tokens are derived; empty before the session is active."""
    generation: int = 0
    """Number of the current refresh token, from 1."""
    superseded_at: tuple[float, ...] = ()
    """When the previous refresh tokens were superseded, in seconds since the epoch, the latest last."""

    def __repr__(self) -> str:
        return f"StoredSession({self.client_id!r}, state={self.state!r}, generation={self.generation})"


class StoredSigningKey(msgspec.Struct, frozen=True, rename="camel"):
    """Key that signs access tokens. `repr` hides the key."""

    id: str
    """`kid` (RFC 7517 section 4.5)."""
    signs_from: float
    """Seconds since the epoch from which the key signs, until the next key replaces it."""
    jwk: dict[str, str]
    """Private key (RFC 7518 section 6.2)."""

    def __repr__(self) -> str:
        return f"StoredSigningKey({self.id!r}, signs_from={self.signs_from})"


class StoredTokenKeys(msgspec.Struct, frozen=True, rename="camel"):
    """Keys of the gateway's own tokens. `repr` hides the keys."""

    signing: tuple[StoredSigningKey, ...]
    """Past, current and future keys that sign access tokens, sorted by `signs_from`."""
    sealing: bytes
    """Key that encrypts codes and refresh tokens, 64 bytes."""

    def __repr__(self) -> str:
        return f"StoredTokenKeys({self.signing!r})"
