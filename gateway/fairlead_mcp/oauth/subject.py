"""The person for whom an access token is obtained, or the gateway itself."""

from __future__ import annotations

from typing import Final

import msgspec


class TokenSubject(msgspec.Struct, frozen=True):
    """Person for whom a token is obtained, with the person's own token. `repr` hides the token."""

    person: bytes = b""
    """Key of the person (`GrantKey.person`); empty for the gateway itself (client credentials)."""
    token: str = ""
    """The caller's own token, the subject token of an exchange (RFC 8693 section 2.1); empty if there is none."""
    expires_at: float = float("inf")
    """`exp` of the subject token, in seconds since the epoch."""
    token_type: str = ""
    """Type of the subject token (RFC 8693 section 3); empty: the type in the settings."""

    def __repr__(self) -> str:
        return f"TokenSubject(token={'[credential]' if self.token else ''!r}, expires_at={self.expires_at})"


GATEWAY: Final = TokenSubject()
"""The gateway itself, for client credentials."""
