"""Access token for one server and one user."""

from __future__ import annotations

import msgspec


class AccessToken(msgspec.Struct, frozen=True):
    """Bearer token (RFC 6750), or a key that a user entered. `repr` hides the value."""

    value: str
    expires_at: float
    """Seconds since the epoch; never later than the expiry of the subject token that was exchanged for it."""
    scopes: frozenset[str]
    """Granted scopes; the requested scopes if the token endpoint named none (RFC 6749 section 5.1)."""
    header_line: bytes
    """Header line of requests with CRLF: `Authorization: Bearer …`, or the header in which a key is sent."""

    @classmethod
    def bearer(cls, value: str, expires_at: float, scopes: frozenset[str]) -> AccessToken:
        """A bearer token with a value that is valid in a header."""
        return cls(value, expires_at, scopes, b"Authorization: Bearer %b\r\n" % value.encode("ascii"))

    @property
    def header(self) -> dict[str, str]:
        """`header_line` as a mapping of one header."""
        name, _, value = self.header_line.decode("ascii").partition(": ")
        return {name: value.removesuffix("\r\n")}

    def __repr__(self) -> str:
        return f"AccessToken(expires_at={self.expires_at}, scopes={sorted(self.scopes)})"
