"""Finds the tools that a server of a registry lists only to clients with a capability.

A registry declares no capability when it calls, so these tools are listed and refused by name. A
server is compared when it lists other tools than before, so that one on stdio is hardly ever started twice.
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

SECONDS: Final = 10.0
"""Bound of a comparison: a lookup waits for it."""


class CapabilityComparison:
    """Comparison of one server's lists, made at most once per connection."""

    def __init__(self, connector: ServerConnector) -> None:
        self._connector = connector
        self._of: frozenset[str | None] | None = None
        self._gated: tuple[Gated, ...] = ()

    async def gated_tools(self, connection: ServerConnection, items: Iterable[Raw]) -> tuple[Gated, ...]:
        """The tools beside `items`, which the server lists to clients without capabilities. Raises nothing of the
        server's: where it cannot be compared, what was known before still counts. No second container is started.
        """
        names = frozenset(map(name_of, items))
        container = starts_container(connection.server.endpoint)
        if names != self._of and not (container and connection.session.era is Era.LEGACY):
            try:
                async with asyncio.timeout(SECONDS):
                    named = {name for name in names if name is not None}
                    declaring = self._connector.declaring(connection)
                    self._gated = await find_gated_tools(declaring, named, SECONDS)
                self._of = names
            except (McpError, TimeoutError) as error:
                why = str(error) or f"it did not answer within {SECONDS:g} s"
                logger.info("%s was not asked for tools that need client capabilities: %s", connection.server.name, why)
        return tuple(hidden for hidden in self._gated if name_of(hidden.definition) not in names)
