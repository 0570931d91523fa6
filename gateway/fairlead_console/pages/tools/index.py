"""Search index of the tools in one view, for filtering while the visitor types. Used only in the worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import View
from fairlead_offers.workers.heavy_work import with_pauses

MAX_INDEXES: Final = 8
"""Maximum number of cached indexes. All principals that see the same tools share one index."""
STRIDE: Final = 64


class ConsoleTool(msgspec.Struct, frozen=True):
    """Tool with the texts that filters compare."""

    name: str
    server: str
    tags: tuple[str, ...]
    search_text: str
    """Name, server and description in lower case."""
    description: str


class ToolFilter(msgspec.Struct, frozen=True):
    """Filters of the list. Empty filters match all tools."""

    words: str = ""
    server: str = ""
    tag: str = ""
    tier: str = ""


class ConsoleToolList:
    """Index of all tools that one view shows or hides."""

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        self.view = view
        tools = []
        tags = {
            key: {entry.name: entry.tags for entry in server.catalog.tools} for key, server in snapshot.servers.items()
        }
        for name in with_pauses(sorted(view.everything), STRIDE):
            server, tool = snapshot.merged[name]
            text, key = _description(tool.merged), str(server.key)
            search_text = f"{name} {key} {text}".lower()
            tools.append(ConsoleTool(name, key, tags[server.key][tool.name], search_text, text))
        self.tools = tools
        self.servers = sorted({tool.server for tool in tools})
        self.tags = sorted({tag for tool in tools for tag in tool.tags})


def _description(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=_ToolText).description


class _ToolText(msgspec.Struct):
    description: str = ""


def filter_tools(index: ConsoleToolList, filters: ToolFilter, tier_tools: Sequence[str] | None) -> list[ConsoleTool]:
    """Return the tools that match all filters. Tools with the words in their names are first.

    `tier_tools` has the names of the tools in the selected tier; None if no tier is selected.
    """
    words = filters.words.lower().split()
    names = None if tier_tools is None else frozenset(tier_tools)
    tools = [
        tool
        for tool in index.tools
        if (names is None or tool.name in names)
        and filters.server in ("", tool.server)
        and (not filters.tag or filters.tag in tool.tags)
        and all(word in tool.search_text for word in words)
    ]
    if words:
        tools.sort(key=lambda tool: not all(word in tool.name.lower() for word in words))
    return tools
