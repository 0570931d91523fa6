"""Logs once per tool that its results violate MCP and are repaired for clients, so that the server can be mended."""

from __future__ import annotations

import logging
from typing import Final

from fairlead_api.meta import ServerKey

MAX_LOGGED: Final = 4096
"""Limit on the tools that are logged."""

log = logging.getLogger(__name__)


class MendedResults:
    """Tools, prompts and resources for which a repaired result was logged."""

    def __init__(self) -> None:
        self._logged_tools: set[tuple[ServerKey, str]] = set()

    def log_once(self, server: ServerKey, name: str, defect: str) -> None:
        """Log the defect of a repaired result, unless this tool, prompt or resource was logged before."""
        if (server, name) in self._logged_tools or len(self._logged_tools) >= MAX_LOGGED:
            return
        self._logged_tools.add((server, name))
        log.warning("%s: results of %s violate the MCP schema and are repaired for clients: %s", server, name, defect)
