"""Access token of one server for one person."""

from __future__ import annotations

import msgspec


class AccessToken(msgspec.Struct, frozen=True):
    """Bearer token (RFC 6750), or the key of a person. Its text never shows the token."""

    value: str
    expires_at: float
    """Seconds since the epoch; never later than the expiry of the subject token that it was obtained with."""
    scopes: frozenset[str]
    """Granted scopes; the requested ones if the token endpoint did not name any (RFC 6749 section 5.1)."""
    header_line: bytes
    """`Authorization: Bearer …` with its CRLF, for the head of a request; for a person's key, its own header."""

    @classmethod
    def bearer(cls, value: str, expires_at: float, scopes: frozenset[str]) -> AccessToken:
        """Make a token out of a value that is valid in a header."""
        return cls(value, expires_at, scopes, b"Authorization: Bearer %b\r\n" % value.encode("ascii"))

    @property
    def header(self) -> dict[str, str]:
        """The header of `header_line`."""
        name, _, value = self.header_line.decode("ascii").partition(": ")
        return {name: value.removesuffix("\r\n")}

    def __repr__(self) -> str:
        return f"AccessToken(expires_at={self.expires_at}, scopes={sorted(self.scopes)})"
