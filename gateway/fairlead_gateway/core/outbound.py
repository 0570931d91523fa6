"""Credentials of calls at one server: whose they are, and where calls get them.

A server with an access token per call (`Catalog.oauth`) ties what it keeps to the token's user. Everything that it can
tie to a user is therefore keyed by the outbound user, who stays the same when a token is refreshed, and never by the
bytes of a token.
"""

from __future__ import annotations

from typing import Protocol

from fairlead_gateway.core.identity import Identity
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge


class CallCredential:
    """Access token with which one call goes to a server."""

    __slots__ = ("line", "person", "token")

    def __init__(self, person: bytes, token: AccessToken) -> None:
        self.person = person
        """Key of the outbound user; empty if the token is the gateway's own."""
        self.token = token
        self.line = token.header_line
        """`Authorization` as a line of an HTTP head."""

    def __repr__(self) -> str:
        return f"<CallCredential, {self.token!r}>"


class CallCredentials(Protocol):
    """Access tokens of one server for its callers."""

    def person(self, identity: Identity) -> bytes:
        """Key of the user as whom a caller reaches the server; empty if all callers reach it as the gateway."""
        ...

    def result_scope(self, identity: Identity) -> bytes | None:
        """Part of the cache key of a caller's results: the user and, where users sign in to the server, the access
        token, because the next token may be of another account. None: the caller's results may not be cached.
        """
        ...

    def cached(self, identity: Identity) -> CallCredential | None:
        """The credential of a caller; None if it has to be acquired. Raises GrantFailed for a caller that cannot get
        one.
        """
        ...

    async def acquire(
        self,
        identity: Identity,
        deadline: float,
        refused: CallCredential | None = None,
        challenge: Challenge | None = None,
    ) -> CallCredential:
        """Get a credential from the authorization server. `deadline` is in seconds of the monotonic clock. `refused` is
        a credential that the server refused, with `challenge`. Raises GrantFailed, and Timeout after the deadline.
        """
        ...

    async def valid_line(self, person: bytes, deadline: float, refused: bytes = b"") -> bytes:
        """`Authorization` header line of a user's valid token, acquired if none is cached, for the gateway's own
        messages. `deadline` is in seconds of the monotonic clock; `refused` is a line that the server answered with
        401.

        Raises GrantFailed, and Timeout after the deadline.
        """
        ...

    def note(self, identity: Identity) -> None:
        """Remember the caller's own token. Requests of the same user that outlive their first token use it."""
        ...

    def refusal(self, identity: Identity, challenge: Challenge) -> McpError:
        """Error for a caller whose credential the server refused, and also the new one after it."""
        ...
