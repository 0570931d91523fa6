"""Session of a legacy client; `calls.sealed.sessions` decodes it from its signed id. Compiled by mypyc."""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.client_peer import ClientPeer


class LegacySession:
    """Session that a client opened with the gateway by `initialize`.

    A `ServerSession`, by contrast, is a session of the gateway with a server.
    """

    __slots__ = ("owner", "peer", "version")

    def __init__(self, ident: bytes, version: str, features: str | None = None, owner: str = "") -> None:
        """`features` are the client's normalized capabilities as JSON; None for a client without capabilities."""
        self.version: Final = version
        """Negotiated protocol version."""
        self.owner: Final = owner
        """`Identity.owner` of the client."""
        self.peer: Final = None if features is None else ClientPeer(ident, features.encode())
        """Key of the client's own sessions with servers; None for a client without capabilities, which needs none."""
