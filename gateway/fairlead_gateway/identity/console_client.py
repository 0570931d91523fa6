"""The console as a client of an OpenID provider. Pure module."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from fairlead_gateway.identity.configuration import Issuer

if TYPE_CHECKING:
    from fairlead_gateway.identity.tokens import Tokens


class ConsoleClient(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client (RFC 6749 section 2)."""

    issuer: Issuer
    client_id: str
    client_secret: str
    """Empty for a public client, which proves itself by PKCE alone."""
    scopes: tuple[str, ...]
    """Scopes to ask for, `openid` first."""
    base: str
    """Origin that browsers reach the console at, such as `https://tools.example.com`."""
    resource: str
    """Resource that access tokens are asked for (RFC 8707); empty where the issuer decides that."""

    def __repr__(self) -> str:
        return f"ConsoleClient({self.client_id!r} of {self.issuer.issuer!r})"

    @property
    def provider(self) -> str:
        """Host of the issuer, by which people know it."""
        return urlsplit(self.issuer.issuer).netloc


class ConsoleSignIn(msgspec.Struct, frozen=True):
    """The console's client, and the verifier of its issuer's tokens."""

    client: ConsoleClient
    tokens: Tokens
