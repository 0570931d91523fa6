"""Resolves names to tools: local tools first, then the tools of servers in the order of the servers.

No I/O. `registry` creates a new table whenever the tools of a server have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from fairlead_client.tools import Tool
from fairlead_formats.names import Names, suggest_name

logger = logging.getLogger(__name__)


class ToolTable:
    """Immutable table of the tools of a registry. `unreachable_tools` are tools of servers that cannot be reached:
    `find` returns such a tool, but `tools` does not list it.
    """

    def __init__(self, local: Iterable[Tool], online: Iterable[Tool], unreachable_tools: Iterable[Tool] = ()) -> None:
        by_name: dict[str, Tool] = {tool.name: tool for tool in local}
        for tool in online:
            other = by_name.setdefault(tool.name, tool)
            if other is not tool:
                logger.info(
                    "tool %s of server %s is not used, because %s has a tool of the same name",
                    tool.name,
                    tool.server,
                    other.server,
                )
        self.by_name: Mapping[str, Tool] = {name: by_name[name] for name in sorted(by_name)}
        self.tools = tuple(self.by_name.values())
        """Sorted by name, so that the order does not depend on which server answered first."""
        self.names = Names(self.by_name)
        """Mapping between the registry's names and names that every provider accepts."""
        unreachable = {tool.name: tool for tool in unreachable_tools if tool.name not in by_name}
        self._by_id = _unique((tool.id, tool) for tool in (*self.tools, *unreachable.values()))
        self._by_own_name = _unique((tool.own_name, tool) for tool in self.tools if not tool.local)
        self._unreachable = unreachable

    def __len__(self) -> int:
        return len(self.tools)

    def find(self, name: str) -> Tool | None:
        """Find a tool by its name, its id, its name in a provider's definitions, or the server's own name for the tool
        if only one server uses that name. Tools of unreachable servers are found too, so that a call returns why the
        server is unreachable.
        """
        return (
            self.by_name.get(name)
            or self._by_id.get(name)
            or self.by_name.get(self.names.original_name(name) or "")
            or self._by_own_name.get(name)
            or self._unreachable.get(name)
        )

    def nearest(self, name: str) -> str | None:
        """Name of the listed tool that a wrong name probably means; None if no name is similar."""
        return suggest_name(name, self.by_name)


def _unique(pairs: Iterable[tuple[str, Tool]]) -> Mapping[str, Tool]:
    """Mapping from key to tool, without the keys that more than one tool has."""
    by_key: dict[str, Tool | None] = {}
    for key, tool in pairs:
        by_key[key] = None if key in by_key else tool
    return {key: tool for key, tool in by_key.items() if tool is not None}
