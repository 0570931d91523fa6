"""Session of a legacy client, as `calls.sealed.sessions` reads it from its signed id. Compiled."""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.client_peer import ClientPeer


class LegacySession:
    """Session that a client opened with the gateway by `initialize`; those with servers are `ServerSession`s."""

    __slots__ = ("owner", "peer", "version")

    def __init__(self, ident: bytes, version: str, features: str | None = None, owner: str = "") -> None:
        """`features` are the client's normalized capabilities, as JSON; None for none."""
        self.version: Final = version
        """Version of MCP that was negotiated."""
        self.owner: Final = owner
        """`Identity.owner` of the client."""
        self.peer: Final = None if features is None else ClientPeer(ident, features.encode())
        """The client as servers know it, with these capabilities; None where it has none."""
