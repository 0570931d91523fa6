"""Tells operators of servers whose results clients would refuse: once for each tool, in the gateway's log."""

from __future__ import annotations

import logging
from typing import Final

from fairlead_api.meta import ServerKey

MOST_TOLD: Final = 4096
"""Tools that are remembered as told of; of more nothing is said."""

log = logging.getLogger(__name__)


class MendedResults:
    """Tools whose results were mended."""

    def __init__(self) -> None:
        self._told: set[tuple[ServerKey, str]] = set()

    def tell(self, server: ServerKey, name: str, why: str) -> None:
        """Log why a result was mended, the first time for this tool, prompt or resource."""
        if (server, name) in self._told or len(self._told) >= MOST_TOLD:
            return
        self._told.add((server, name))
        log.warning("%s: results of %s are not as MCP has them, and mended for clients: %s", server, name, why)
