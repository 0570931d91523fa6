"""A client as the authorization server knows it, and the directory that finds it. Declarations only."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

ClientKind = Literal["document", "configured", "registered"]
Authentication = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True):
    """OAuth client (RFC 7591 section 2), checked. Its text never shows a secret."""

    id: str
    """`client_id`: for a document its URL."""
    kind: ClientKind
    name: str = ""
    """`client_name`, as the client says it: shown as text and never trusted."""
    redirect_uris: tuple[str, ...]
    agent: str | None = None
    """Name of the agent in policies; None for a client that registered itself, as it can take any name."""
    authentication: Authentication = "none"
    secret_sha256: str = ""
    """SHA-256 of the client's secret, hexadecimal; empty without one."""
    keys: tuple[dict[str, Any], ...] = ()
    """Public keys for `private_key_jwt` (RFC 7517)."""
    digest: str
    """Digest of redirect URIs, authentication and keys: users are asked again when it changes."""
    is_named: bool = False
    """Whether the settings name the client, or the host of its document; else anybody may be behind it."""
    expires_at: float = 0.0
    """End of a registration, in seconds since the epoch; 0: none."""

    def __repr__(self) -> str:
        return f"RegisteredClient({self.id!r}, kind={self.kind!r})"


class UnknownClient(Exception):
    """There is no such client, or its document is not usable. The message is one sentence for a page or log."""


class ClientsAway(Exception):
    """The client cannot be looked up now, as its document cannot be fetched. The message is one sentence."""


class ClientDirectory(Protocol):
    """Finds clients."""

    async def find(self, client_id: str) -> RegisteredClient:
        """The client with an id. Raises UnknownClient, ClientsAway."""
        ...
