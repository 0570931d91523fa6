"""Opens the sessions that discoveries run over, to servers behind an address: implements `ports.Connector` for them.

Each discovery has connections of its own and closes them: at one discovery in ten minutes per server, keeping a
connection would be kept for nothing.
"""

from __future__ import annotations

import ssl as tls
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead_api.documents.catalog import Credential, Endpoint, EventsEndpoint, HttpEndpoint, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.http.target import Target
from fairlead_mcp.link import Link, Opener
from fairlead_mcp.session import McpSession
from fairlead_mcp.tcp import TcpOpener
from fairlead_operator.ports import Heard


class NetworkConnector:
    """Sessions over Streamable HTTP, HTTP+SSE and TCP. `resolve` maps host names to addresses; the default is DNS."""

    def __init__(self, *, resolve: Resolve | None = None) -> None:
        self._resolve = resolve

    @asynccontextmanager
    async def session(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None, heard: Heard | None = None
    ) -> AsyncIterator[McpSession]:
        """A negotiated session; closed on the way out. Raises McpError."""
        async with self._session(key, endpoint, credential or Credential(), heard) as session:
            yield session

    def _session(self, key: ServerKey, endpoint: Endpoint, credential: Credential, heard: Heard | None) -> McpSession:
        if isinstance(endpoint, HttpEndpoint):
            return McpSession.over_http(
                Target.from_url(endpoint.url, endpoint.host_header),
                headers=credential.headers,
                ssl=trust(endpoint.ca_bundle),
                resolve=self._resolve,
                on_notification=_of_message(heard),
            )
        opener: Opener
        if isinstance(endpoint, TcpEndpoint):
            opener = TcpOpener(endpoint.host, endpoint.port, credential.token, resolve=self._resolve)
        elif isinstance(endpoint, EventsEndpoint):
            opener = EventsOpener(
                endpoint.url,
                host_header=endpoint.host_header,
                headers=credential.headers,
                ssl=trust(endpoint.ca_bundle),
                resolve=self._resolve,
            )
        else:
            raise McpError(f"{key} is not reached over a network")
        legacy = isinstance(endpoint, EventsEndpoint)
        return McpSession.over_link(Link(str(key), opener, legacy=legacy, on_notification=_of_line(heard)))


def _of_message(heard: Heard | None) -> Callable[[jsonrpc.Message], None] | None:
    if heard is None:
        return None

    def tell(message: jsonrpc.Message) -> None:
        if isinstance(message.method, str):
            heard(message.method)

    return tell


def _of_line(heard: Heard | None) -> Callable[[str, bytes], None] | None:
    return None if heard is None else lambda method, line: heard(method)


def trust(ca_bundle: str | None) -> tls.SSLContext | None:
    """Verification against the given certificates alone; None = the system's. Raises ConnectFailed for a bad bundle."""
    if ca_bundle is None:
        return None
    try:
        return tls.create_default_context(cadata=ca_bundle)
    except (tls.SSLError, ValueError) as error:
        raise ConnectFailed(f"spec.caBundle cannot be read: {error}", reason="TlsFailed") from error
