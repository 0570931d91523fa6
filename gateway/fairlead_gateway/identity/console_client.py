"""Describes the console as a client of an OpenID provider. Pure module."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from fairlead_gateway.identity.issuers_file import Issuer

if TYPE_CHECKING:
    from fairlead_gateway.identity.jwt_authenticator import Tokens


class ConsoleClient(msgspec.Struct, frozen=True, kw_only=True):
    """The console's client registration at an issuer (RFC 6749 section 2)."""

    issuer: Issuer
    client_id: str
    client_secret: str
    """Empty for a public client, which uses PKCE only."""
    scopes: tuple[str, ...]
    """Scopes to request, `openid` first."""
    base: str
    """Origin of the console for browsers, such as `https://tools.example.com`."""
    resource: str
    """Resource for which access tokens are requested (RFC 8707); empty to let the issuer decide."""

    def __repr__(self) -> str:
        return f"ConsoleClient({self.client_id!r} of {self.issuer.issuer!r})"

    @property
    def provider(self) -> str:
        """Host of the issuer, shown to users."""
        return urlsplit(self.issuer.issuer).netloc


class ConsoleSignIn(msgspec.Struct, frozen=True):
    """The console's client, and the authenticator of its issuer's tokens."""

    client: ConsoleClient
    tokens: Tokens
