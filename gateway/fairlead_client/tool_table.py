"""Which tool a name means: local tools first, then those of the servers in their order.

Pure module. Compiled by `registry` whenever a listing moved; immutable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from fairlead_client.tools import Tool
from fairlead_formats.names import Names, did_you_mean

logger = logging.getLogger(__name__)


class ToolTable:
    """The tools of one moment. `offline` are those of servers that cannot be reached: known, but not shown."""

    def __init__(self, local: Iterable[Tool], online: Iterable[Tool], offline: Iterable[Tool] = ()) -> None:
        shown: dict[str, Tool] = {tool.name: tool for tool in local}
        for tool in online:
            first = shown.setdefault(tool.name, tool)
            if first is not tool:
                how = "shadowed by" if first.local else "hidden by that of"
                logger.info("%s of %s is %s %s", tool.name, tool.server, how, first.server)
        self.by_name: Mapping[str, Tool] = {name: shown[name] for name in sorted(shown)}
        self.tools = tuple(self.by_name.values())
        """Sorted by name, so that the order does not depend on which server answered first."""
        self.names = Names(self.by_name)
        """To names that every provider takes, and back."""
        hidden = {tool.name: tool for tool in offline if tool.name not in shown}
        self._by_id = _unique((tool.id, tool) for tool in (*self.tools, *hidden.values()))
        self._by_own_name = _unique((tool.own_name, tool) for tool in self.tools if not tool.local)
        self._hidden = hidden

    def __len__(self) -> int:
        return len(self.tools)

    def find(self, name: str) -> Tool | None:
        """A tool by its name, its id, the name that a provider was given for it, or by its server's own name for it
        where only one server has that. Tools of servers that cannot be reached are found too: a call says why.
        """
        return (
            self.by_name.get(name)
            or self._by_id.get(name)
            or self.by_name.get(self.names.original(name) or "")
            or self._by_own_name.get(name)
            or self._hidden.get(name)
        )

    def nearest(self, name: str) -> str | None:
        """The name of a tool that is shown, which a wrong one was probably meant to be."""
        return did_you_mean(name, self.by_name)


def _unique(pairs: Iterable[tuple[str, Tool]]) -> Mapping[str, Tool]:
    """Without the keys that two tools have."""
    by_name: dict[str, Tool | None] = {}
    for key, tool in pairs:
        by_name[key] = None if key in by_name else tool
    return {key: tool for key, tool in by_name.items() if tool is not None}
