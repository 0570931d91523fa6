"""OAuth client of the authorization server, and the interface that finds clients. Declarations only."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

ClientKind = Literal["document", "configured", "registered"]
Authentication = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True):
    """Validated OAuth client (RFC 7591 section 2). `repr` shows no secret."""

    id: str
    """`client_id`; for a client with a document, the document's URL."""
    kind: ClientKind
    name: str = ""
    """`client_name` that the client gives itself. Shown as text, and never trusted."""
    redirect_uris: tuple[str, ...]
    agent: str | None = None
    """Name of the agent in policies; None for a client that registered itself, because it may choose any name."""
    authentication: Authentication = "none"
    secret_sha256: str = ""
    """SHA-256 of the client's secret, hexadecimal; empty without a secret."""
    keys: tuple[dict[str, Any], ...] = ()
    """Public keys for `private_key_jwt` (RFC 7517)."""
    digest: str
    """Digest of redirect URIs, authentication and keys. If it changes, users have to consent again."""
    is_named: bool = False
    """Whether the settings name the client, or the host of its document. Any other client may be anybody's program."""
    expires_at: float = 0.0
    """End of the registration, in seconds since the epoch; 0 for a client that does not expire."""

    def __repr__(self) -> str:
        return f"RegisteredClient({self.id!r}, kind={self.kind!r})"


class UnknownClient(Exception):
    """The client does not exist, or its document is not usable. The message is one sentence for a page or log."""


class ClientUnavailable(Exception):
    """The client cannot be looked up now, because its document cannot be fetched. The message is one sentence."""


class ClientDirectory(Protocol):
    """Finds clients."""

    async def find(self, client_id: str) -> RegisteredClient:
        """The client with an id. Raises UnknownClient, ClientUnavailable."""
        ...
