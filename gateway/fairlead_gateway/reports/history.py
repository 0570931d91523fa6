"""Stores the last attempts of one tool as long as routes of the tool exist.

`reports.samples` creates and reads a `History`. The class is not in that module, because mypyc compiles that module,
and objects of compiled classes cannot be referenced weakly, as histories are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead_api.meta import ServerKey
from fairlead_gateway.aggregates.tally import Tally

if TYPE_CHECKING:
    from fairlead_gateway.reports.samples import Ring


class History:
    """Attempts of one tool of one server."""

    __slots__ = ("__weakref__", "attempts", "server", "tally", "tool")

    def __init__(self, server: ServerKey, tool: str, attempts: Ring) -> None:
        self.server = server
        self.tool = tool
        self.attempts = attempts
        self.tally: Tally | None = None
        """Histogram of all attempts, if the installation collects aggregates."""
