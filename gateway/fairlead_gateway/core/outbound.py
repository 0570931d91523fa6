"""Credentials of calls at one server: whose they are, and where calls get them.

A server with an access token per call (`Catalog.oauth`) ties what it keeps to the token's user. Everything that it can
tie to a user is therefore keyed by the outbound person, who stays the same when a token is refreshed, and never by the
bytes of a token.
"""

from __future__ import annotations

from typing import Final, Protocol

from fairlead_gateway.core.identity import Identity
from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge

UNAUTHORIZED: Final = "unauthorized "
"""The server does not accept the token, which may have been revoked."""
INSUFFICIENT_SCOPE: Final = "insufficient_scope "
"""The token lacks a scope that the server names (RFC 6750 section 3.1)."""


def cause_of_refusal(error: McpError) -> str:
    """Why a server refused the credential of a request, UNAUTHORIZED or INSUFFICIENT_SCOPE; empty for other errors.

    The server has then executed nothing, so that the request may be sent again with another token.
    """
    if not isinstance(error, HttpRefused):
        return ""
    if error.status == 401:
        return UNAUTHORIZED
    challenge = Challenge.parse(error.challenge) if error.status == 403 else None
    return INSUFFICIENT_SCOPE if challenge is not None and challenge.wants_scopes else ""


class CallCredential:
    """Access token with which one call goes to a server."""

    __slots__ = ("line", "person", "token")

    def __init__(self, person: bytes, token: AccessToken) -> None:
        self.person = person
        """Key of the outbound person; empty if the token is the gateway's own."""
        self.token = token
        self.line = token.header_line
        """`Authorization` as a line of an HTTP head."""

    def __repr__(self) -> str:
        return f"<CallCredential, {self.token!r}>"


class CallCredentials(Protocol):
    """Access tokens of one server for its callers."""

    def person(self, identity: Identity) -> bytes:
        """Key of the person as whom a caller reaches the server; empty if all callers reach it as the gateway."""
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
        error: McpError | None = None,
    ) -> CallCredential:
        """Get a credential from the authorization server. `deadline` is in seconds of the monotonic clock.

        `refused` is the credential that the server has refused with `error`. Raises GrantFailed, and Timeout after the
        deadline.
        """
        ...

    def newest_line(self, person: bytes) -> bytes:
        """`Authorization` header line of a person's valid token, without I/O; empty if there is none."""
        ...

    async def valid_line(self, person: bytes, deadline: float, refused: bytes = b"") -> bytes:
        """`Authorization` header line of a person's valid token, acquired if none is cached, for the gateway's own
        messages. `deadline` is in seconds of the monotonic clock; `refused` is a line that the server answered with
        401.

        Raises GrantFailed, and Timeout after the deadline.
        """
        ...

    def note(self, identity: Identity) -> None:
        """Remember the caller's own token for requests of the same person that outlive the token they began with."""
        ...

    def refusal(self, identity: Identity, error: McpError) -> McpError:
        """Error for a caller after the server has refused a request's credential, and then a new one too."""
        ...
