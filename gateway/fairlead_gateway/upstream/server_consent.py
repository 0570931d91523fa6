"""Parts of one server's upstream that the sign-in of persons, and the entry of their keys, needs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead_api.documents.catalog import ChildEndpoint, HttpEndpoint
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.entered_keys import KeyEntry
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.session import McpSession


class ServerConsent(msgspec.Struct, frozen=True):
    """Consent flow of one server or entry of keys for it, its access tokens, and sessions with one of them."""

    settings: OAuthSettings
    uid: str
    """`Catalog.uid` of the server."""
    endpoint: HttpEndpoint | ChildEndpoint
    installation: str
    """Name of this installation in the header `Via`, by which loops are noticed."""
    flow: ConsentFlow | KeyEntry
    source: TokenSource
    session: Callable[[AccessToken], McpSession] | None = None
    """Makes a session with the server, not connected yet, whose requests have the access token; None for a server that
    is not listed with one.
    """

    @property
    def place(self) -> str:
        """Where calls go: the URL of the server, or its program."""
        return self.endpoint.url if isinstance(self.endpoint, HttpEndpoint) else self.endpoint.command
