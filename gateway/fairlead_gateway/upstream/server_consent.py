"""Parts of one server's upstream that the sign-in of persons needs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead_api.documents.catalog import HttpEndpoint, OpenApiEndpoint
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.session import McpSession


class ServerConsent(msgspec.Struct, frozen=True):
    """Consent flow of one server, its access tokens, and sessions with one of them."""

    settings: OAuthSettings
    uid: str
    """`Catalog.uid` of the server."""
    endpoint: HttpEndpoint | OpenApiEndpoint
    installation: str
    """Name of this installation in the header `Via`, by which loops are noticed."""
    flow: ConsentFlow
    source: TokenSource
    session: Callable[[AccessToken], McpSession] | None
    """Makes a session with the server, not connected yet, whose requests have the access token; None for an API, whose
    tools a document lists."""
