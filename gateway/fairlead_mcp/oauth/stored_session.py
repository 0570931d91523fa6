"""Records of the gateway as an authorization server: sessions of clients, and keys of its tokens. Declarations only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SessionState = Literal["waiting", "code", "active"]


class StoredSession(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Access of one client for a person. Its text never shows a secret."""

    state: SessionState
    """`waiting` for the person's consent, then with a `code` that nobody has redeemed, then `active`."""
    state_until: float
    """End of the state unless the next one follows, in seconds since the epoch; of the session if it is active."""
    ends_at: float
    """Seconds since the epoch; no token outlives it."""
    client_id: str
    subject: str
    """`sub` of the person at the provider."""
    claims: dict[str, Any]
    """Claims of the person, as the provider said them last."""
    redirect_uri: str
    challenge: str
    """`code_challenge` by S256 (RFC 7636)."""
    resource: str
    """URL of the resource (RFC 8707)."""
    scopes: tuple[str, ...] = ()
    agent: str | None = None
    code_sha256: bytes = b""
    """Digest of the code's secret; empty before there is a code."""
    secret: bytes = b""
    """Secret that the refresh tokens are derived from; empty before the session is active."""
    generation: int = 0
    """Number of the current refresh token, from 1."""
    superseded_at: tuple[float, ...] = ()
    """When the last refresh tokens before the current one were superseded, the latest last, in seconds since the epoch.
    """

    def __repr__(self) -> str:
        return f"StoredSession({self.client_id!r}, state={self.state!r}, generation={self.generation})"


class StoredSigningKey(msgspec.Struct, frozen=True, rename="camel"):
    """Key that signs access tokens. Its text never shows a secret."""

    id: str
    """`kid` (RFC 7517 section 4.5)."""
    signs_from: float
    """Seconds since the epoch from which it signs, until the next key does."""
    jwk: dict[str, str]
    """Private key (RFC 7518 section 6.2)."""

    def __repr__(self) -> str:
        return f"StoredSigningKey({self.id!r}, signs_from={self.signs_from})"


class StoredTokenKeys(msgspec.Struct, frozen=True, rename="camel"):
    """Keys of the gateway's own tokens. Its text never shows a secret."""

    signing: tuple[StoredSigningKey, ...]
    """Keys that sign access tokens, or did or will; sorted by `signs_from`."""
    sealing: bytes
    """Key that seals codes and refresh tokens, 64 bytes."""

    def __repr__(self) -> str:
        return f"StoredTokenKeys({self.signing!r})"
