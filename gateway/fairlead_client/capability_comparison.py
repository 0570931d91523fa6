"""Finds the tools that a server lists only to clients with certain capabilities.

A registry declares no capabilities, so it refuses calls of such tools and names the missing capability. To find these
tools, the server's list is compared with a second list, which is requested with all capabilities. The second list needs
another session, or even another process. So the lists are compared only when a program looks up a name that the server
does not list, and again only after the server's list has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Raw

from fairlead_client.connector import ServerConnection, ServerConnector
from fairlead_mcp.containers import starts_container
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import McpError
from fairlead_mcp.gated import Gated, find_gated_tools, name_of

logger = logging.getLogger(__name__)

COMPARISON_SECONDS: Final = 10.0
"""Timeout of a comparison in seconds. The lookup of a tool waits for the comparison."""


class CapabilityComparison:
    """Compares the lists of one server with and without client capabilities, and caches the difference."""

    def __init__(self, connector: ServerConnector) -> None:
        self._connector = connector
        self._compared_names: frozenset[str | None] | None = None
        """Names of the tools in the list that was last compared."""
        self._gated: tuple[Gated, ...] = ()

    def gated_tools(self, items: Iterable[Raw]) -> tuple[Gated, ...]:
        """Tools that the last comparison found and that are not in `items`, the list without capabilities."""
        names = frozenset(map(name_of, items))
        return tuple(tool for tool in self._gated if name_of(tool.definition) not in names)

    async def compare(self, connection: ServerConnection, items: Iterable[Raw]) -> None:
        """Find tools that require client capabilities. `items` is the list without capabilities. If the comparison
        fails, the result of the previous comparison stays. A comparison that would start a second container is skipped.
        """
        names = frozenset(map(name_of, items))
        container = starts_container(connection.server.endpoint)
        if names != self._compared_names and not (container and connection.session.era is Era.LEGACY):
            try:
                async with asyncio.timeout(COMPARISON_SECONDS):
                    list_names = {name for name in names if name is not None}
                    open_session = self._connector.capability_sessions(connection)
                    self._gated = await find_gated_tools(open_session, list_names, COMPARISON_SECONDS)
                self._compared_names = names
            except (McpError, TimeoutError) as error:
                reason = str(error) or f"the server did not respond within {COMPARISON_SECONDS:g} s"
                logger.info(
                    "tools of server %s that require client capabilities cannot be listed: %s",
                    connection.server.name,
                    reason,
                )
