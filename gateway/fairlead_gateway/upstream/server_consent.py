"""Parts of one server's upstream that sign-ins and the entry of keys need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead_api.documents.catalog import ChildEndpoint, Credential, HttpEndpoint, OpenApiEndpoint, TcpEndpoint
from fairlead_api.documents.oauth import USER_KEY, OAuthSettings
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.entered_keys import KeyEntry, program_address
from fairlead_mcp.oauth.stored_grant import GrantStore
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.session import McpSession


class ServerConsent(msgspec.Struct, frozen=True):
    """Consent flow or key entry of one server, its access tokens, and the sessions that use them."""

    settings: OAuthSettings
    uid: str
    """`Catalog.uid` of the server."""
    endpoint: HttpEndpoint | OpenApiEndpoint | ChildEndpoint | TcpEndpoint
    installation: str
    """Name of this installation in the header `Via`, which detects loops."""
    flow: ConsentFlow | KeyEntry
    source: TokenSource
    session: Callable[[AccessToken], McpSession] | None
    """Creates an unconnected session with the server, whose requests have the access token. None for an API, whose
    tools are listed from a document. Raises McpError for a program.
    """

    @property
    def address(self) -> str:
        """The URL of the server, or its program."""
        if isinstance(self.endpoint, ChildEndpoint):
            return self.endpoint.command
        return self.endpoint.program if isinstance(self.endpoint, TcpEndpoint) else self.endpoint.url


def make_flow(
    oauth: OAuthSettings, credential: Credential, access: TokenAccess, store: GrantStore
) -> ConsentFlow | KeyEntry:
    """Consent flow of a server, or its key entry. Raises GrantFailed if the settings are not usable."""
    return KeyEntry(oauth, access) if oauth.grant == USER_KEY else ConsentFlow(oauth, credential, access, store)


def token_access(
    endpoint: HttpEndpoint | OpenApiEndpoint | ChildEndpoint | TcpEndpoint, resolve: Resolve, **more: Any
) -> TokenAccess:
    """`TokenAccess` for a server at a URL, or for the keys of a program. `more` are further members."""
    if isinstance(endpoint, ChildEndpoint | TcpEndpoint):
        return TokenAccess(program_address(endpoint), resolve, **more)
    host, authorities = endpoint.host_header, endpoint.ca_bundle
    return TokenAccess(endpoint.url, resolve, host_header=host, server_ca_bundle=authorities, **more)


def additional_headers(credential: Credential, oauth: OAuthSettings | None) -> dict[str, str]:
    """Headers that are sent in addition to the access token. A header that contains users' keys is left out: its
    configured value is used only for listing tools.
    """
    key = "" if oauth is None or oauth.user_key is None else oauth.user_key.header.lower()
    return {name: value for name, value in credential.headers.items() if name.lower() != key}
