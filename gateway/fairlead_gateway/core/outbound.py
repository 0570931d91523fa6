"""Credentials that calls present to one server: their users, and the interface to acquire them.

A server with an access token per call (`Catalog.oauth`) may bind its state to the token's user. So the gateway keys
sessions, results and tasks of such a server by the outbound user, who stays the same when a token is refreshed, and
never by the bytes of a token.
"""

from __future__ import annotations

from typing import Protocol

from fairlead_gateway.core.identity import Identity
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge


class CallCredential:
    """Access token that one call presents to a server."""

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
        """Key of the user in whose name a caller's requests are sent; empty if all are sent in the gateway's name."""
        ...

    def result_scope(self, identity: Identity) -> bytes | None:
        """Part of the cache key of a caller's results: the user and, if users sign in to the server, the access token,
        because the next token may belong to another account. None if the caller's results may not be cached.
        """
        ...

    def find_cached(self, identity: Identity) -> CallCredential | None:
        """The credential of a caller; None if it has to be acquired. Raises GrantFailed if the caller cannot get a
        credential.
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
        """`Authorization` header line of a user's valid token, for the gateway's own messages. A token is acquired if
        none is cached. `deadline` is in seconds of the monotonic clock; `refused` is a line that the server answered
        with 401.

        Raises GrantFailed, and Timeout after the deadline.
        """
        ...

    def note(self, identity: Identity) -> None:
        """Remember the caller's own token. Requests of the same user that outlive their first token use it."""
        ...

    def refusal_error(self, identity: Identity, challenge: Challenge) -> McpError:
        """Error for a caller whose credential the server refused, and then the next credential too."""
        ...
