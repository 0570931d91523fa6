"""What the endpoints need of the keys that sign access tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fairlead_authorization.sessions.session import ClientSession


class SignedToken(Protocol):
    """Access token of a client."""

    @property
    def value(self) -> str: ...

    @property
    def expires_in(self) -> int:
        """Seconds from now."""
        ...


class TokenIssuer(Protocol):
    """Issues access tokens (RFC 9068)."""

    async def issue(self, session: ClientSession, scopes: Sequence[str] | None = None) -> SignedToken:
        """Token for the session's resource, with these of its scopes. Raises SessionsAway."""
        ...


class PublicKeys(Protocol):
    """Keys that verify access tokens."""

    async def document(self) -> Mapping[str, Any]:
        """The key set (RFC 7517 section 5). Raises SessionsAway."""
        ...
