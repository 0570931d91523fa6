"""Opens the sessions that discoveries run over, to servers behind an address: implements `ports.Connector` for them.

Each discovery has connections of its own and closes them: at one discovery in ten minutes per server, keeping a
connection would be kept for nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead_api.documents.catalog import Credential, Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.opening import network_session
from fairlead_mcp.session import McpSession
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
        opened = network_session(str(key), endpoint, credential or Credential(), heard=heard, resolve=self._resolve)
        async with opened as session:
            yield session
