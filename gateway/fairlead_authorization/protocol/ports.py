"""What the endpoints need of other parts, and what they may be asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from fairlead_authorization.sessions.session import ClientSession


class MintedToken(NamedTuple):
    """Access token of a client."""

    value: str
    expires_in: int
    """Seconds."""


class AccessTokens(Protocol):
    """Signs access tokens (RFC 9068). Both methods raise SessionsAway while the keys cannot be read."""

    async def mint(self, session: ClientSession, scopes: tuple[str, ...]) -> MintedToken:
        """Sign a token for the session's resource, with these of its scopes."""
        ...

    async def key_set(self) -> Mapping[str, Any]:
        """The public keys (RFC 7517)."""
        ...


class RegistrationRefused(Exception):
    """A client cannot be registered. The message is one sentence without quotation marks."""

    def __init__(self, error: str, message: str) -> None:
        """`error` is one of RFC 7591 section 3.2.2."""
        super().__init__(message)
        self.error = error


class Registration(Protocol):
    """Registration of clients by themselves (RFC 7591)."""

    def register(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer to a registration (section 3.2.1). Raises RegistrationRefused."""
        ...
