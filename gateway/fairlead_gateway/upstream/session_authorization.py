"""Access tokens for the gateway's own messages in a legacy session: answers to the server, cancellations, GETs, log
levels, and the end of the session.

These messages may be sent minutes after the request that they belong to, when the request's token may have expired.
"""

from __future__ import annotations

from fairlead_gateway.core.outbound import CallCredentials
from fairlead_mcp.errors import McpError


class SessionAuthorization:
    """`Authorization` header lines of one session's user. They are empty if all users share one credential: then the
    credential is among the headers of each request.
    """

    __slots__ = ("_credentials", "_person", "line")

    def __init__(self, credentials: CallCredentials | None = None, person: bytes = b"", line: bytes = b"") -> None:
        self._credentials = credentials
        self._person = person
        self.line = line
        """Header line of the session's last request."""

    def freeze(self) -> None:
        """Stop acquiring tokens, because a new token may belong to another account than the session."""
        self._credentials = None

    async def valid_line(self, deadline: float, refused: bytes = b"") -> bytes:
        """Header line with a valid token. If none is cached, a token is acquired. `deadline` is in seconds of the
        monotonic clock; `refused` is a line that the server answered with 401.

        After `freeze`, always returns the line of the last request. If no token can be acquired, returns that line too,
        unless `refused` is given: then raises McpError.
        """
        credentials = self._credentials
        if credentials is None or not self.line:
            return self.line
        try:
            self.line = await credentials.valid_line(self._person, deadline, refused)
        except McpError:
            if refused:
                raise
        return self.line
