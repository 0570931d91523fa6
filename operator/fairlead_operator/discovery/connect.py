"""Opens the sessions that discoveries run over, on a cluster: implements `ports.Connector` for HTTP endpoints.

Each discovery has connections of its own and closes them: at one discovery in ten minutes per server, keeping a
connection would be kept for nothing.
"""

from __future__ import annotations

import ssl as tls
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead_api.documents.catalog import Credential, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import ConnectFailed, McpError
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession


class HttpConnector:
    """Sessions over Streamable HTTP. `resolve` maps host names to addresses; the default is DNS."""

    def __init__(self, *, resolve: Resolve | None = None) -> None:
        self._resolve = resolve

    @asynccontextmanager
    async def session(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> AsyncIterator[McpSession]:
        """A negotiated session; closed on the way out. Raises McpError."""
        if not isinstance(endpoint, HttpEndpoint):
            raise McpError(f"{key} is not reached over HTTP")
        headers = credential.headers if credential else None
        session = McpSession.over_http(
            Target.from_url(endpoint.url, endpoint.host_header),
            headers=headers,
            ssl=trust(endpoint.ca_bundle),
            resolve=self._resolve,
        )
        async with session:
            yield session


def trust(ca_bundle: str | None) -> tls.SSLContext | None:
    """Verification against the given certificates alone; None = the system's. Raises ConnectFailed for a bad bundle."""
    if ca_bundle is None:
        return None
    try:
        return tls.create_default_context(cadata=ca_bundle)
    except (tls.SSLError, ValueError) as error:
        raise ConnectFailed(f"spec.caBundle cannot be read: {error}", reason="TlsFailed") from error
