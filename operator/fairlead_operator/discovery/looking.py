"""Completes a discovery by the tools that its server lists only to clients with a capability.

Used by `rounds`, after each listing as a client without capabilities: calls of such clients run in sessions that
declare none, so that list is what holds for them. What the comparison (`fairlead_mcp.gated`) brought is kept while the
server lists the same tools, so that a server on stdio has no second process started with each discovery, and so that a
comparison that fails takes no tool off the lists.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Credential, Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import McpError
from fairlead_mcp.gated import LOOK_SECONDS, Gated, behind_capabilities, name_of
from fairlead_mcp.session import McpSession
from fairlead_operator.discovery.listing import Found
from fairlead_operator.ports import Connector

logger = logging.getLogger(__name__)

KEPT_SECONDS: Final = 3600.0
"""How long the outcome of a comparison is kept at most; for ever where it takes a process of our own."""


@dataclass(frozen=True)
class _Look:
    """The last comparison of a server's lists."""

    of: tuple[object, ...]
    """The answer that it was compared with."""
    gated: tuple[Gated, ...]
    at: float
    """On the monotonic clock."""


class Looks:
    """See the module."""

    def __init__(self, connector: Connector, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._connector = connector
        self._monotonic = monotonic
        self._looks: dict[ServerKey, _Look] = {}

    async def completed(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None, found: Found, *, anew: bool
    ) -> Found:
        """`found` with the tools behind client capabilities. `anew`: somebody wants the server asked again. Raises
        nothing of the server's: where it cannot be compared, what was known before still counts.
        """
        names = frozenset(filter(None, map(name_of, found.tools)))
        of = (endpoint, found.protocol_version, bytes(found.server_info), names)
        look = self._looks.get(key)
        if look is not None and look.of[0] != endpoint:
            look = None  # another server, of which nothing is known
        if look is None or anew or look.of != of or self._old(look, endpoint):
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    gated = await behind_capabilities(self._declaring(key, endpoint, credential), names, LOOK_SECONDS)
                look = self._looks[key] = _Look(of, gated, self._monotonic())
            except (McpError, TimeoutError) as error:
                why = str(error) or f"it did not answer within {LOOK_SECONDS:g} s"
                logger.info("%s was not asked for tools that need client capabilities: %s", key, why)
        if look is None:
            return replace(found, compared=False)
        gated = tuple(one for one in look.gated if name_of(one.definition) not in names)
        if not gated:
            return found
        requires = {name_of(one.definition) or "": one.requires for one in gated}
        return replace(found, tools=(*found.tools, *(one.definition for one in gated)), requires=requires)

    def forget(self, key: ServerKey) -> None:
        """The server is gone."""
        self._looks.pop(key, None)

    def _old(self, look: _Look, endpoint: Endpoint) -> bool:
        return not isinstance(endpoint, ChildEndpoint) and self._monotonic() - look.at > KEPT_SECONDS

    def _declaring(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> Callable[[bytes], AbstractAsyncContextManager[McpSession]]:
        return lambda capabilities: self._connector.session(key, endpoint, credential, capabilities=capabilities)


def remembered(found: Found, published: Catalog | None) -> Found:
    """`found`, with the tools behind client capabilities of the catalog before, where its server could not be compared:
    an operator that has just started knows no other comparison.
    """
    if found.compared or published is None:
        return found
    names = set(map(name_of, found.tools))
    kept = [tool for tool in published.tools if tool.requires and tool.name not in names]
    requires = {tool.name: tool.requires for tool in kept}
    return replace(found, tools=(*found.tools, *(tool.definition for tool in kept)), requires=requires)
