"""Tools of a view as the REST API shows them: ids, servers, hashes, tags, and the names for providers.

Compiled once per snapshot and view, in the worker; what is shown and in which order was decided by the view.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Container, Iterable
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import ToolEntry, definition_hash, search_hash
from fairlead_api.documents.state import ToolState
from fairlead_api.meta import GROUP, ServerKey
from fairlead_formats.names import Names, did_you_mean
from fairlead_formats.schema.property_names import other_names
from fairlead_formats.tool_format import JsonObject
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.meta_tools import READ_DEFINITION, READ_RESULT
from fairlead_gateway.core.server import Tool
from fairlead_gateway.policy.hidden_tools_notice import HiddenTool, HiddenTools, hidden_tool, sentence
from fairlead_gateway.policy.view import View
from fairlead_mcp.escaping import escape
from fairlead_offers.catalogs.latency import LatencyDocument, latency_of
from fairlead_offers.conversion.jobs import decode_definition
from fairlead_offers.problems import OVER_BUDGET, Problem, unknown_server, unknown_tool
from fairlead_offers.workers.heavy_work import breathing
from fairlead_search.record import catalog_hash
from fairlead_tools.names import tool_id

MAX_KEPT_VIEWS: Final = 64
"""Views whose tools are kept ready; one costs what its tools do."""
STRIDE: Final = 64
"""Tools between two breaths; one takes about 6 µs."""
GATEWAY: Final = ServerKey(GROUP, "gateway")
"""Server of the gateway's own tools. No McpServer has this key: no namespace has a dot in its name."""


class ServerOfTools(msgspec.Struct, frozen=True):
    """Facts about a server that hold for all its tools."""

    key: ServerKey
    prefix: str
    offline: bool
    escapes: bool
    """Whether its definitions are escaped."""


class VisibleTool:
    """One visible tool."""

    __slots__ = (
        "_decoded",
        "_other_names",
        "definition",
        "entry",
        "id",
        "key",
        "name",
        "offline",
        "pinned",
        "prefix",
        "server",
        "state",
        "tool",
    )

    def __init__(
        self,
        name: str,
        server: ServerOfTools,
        entry: ToolEntry,
        tool: Tool,
        state: ToolState | None,
        *,
        pinned: bool,
    ) -> None:
        self.id = tool_id(server.key, entry.name)
        self.name = name
        self.server = server.key
        self.prefix = server.prefix
        self.entry = entry
        self.definition = bytes(escape(tool.merged)) if server.escapes else tool.merged
        """Raw, under the exposed name."""
        self.tool = tool
        self.state = state
        """Measurements and tier decisions of it; None before the first."""
        self.offline = server.offline
        self.pinned = pinned
        """Whether policies keep budgets from cutting it."""
        self.key = hashlib.blake2b(self.definition, digest_size=16).hexdigest()
        """Changes with what is shown, the name included."""
        self._decoded: JsonObject | None = None
        self._other_names: dict[str, str] | None = None

    @property
    def latency(self) -> LatencyDocument:
        """Declared and measured."""
        return latency_of(self.tool, self.state)

    @property
    def decoded(self) -> JsonObject:
        """The definition as JSON; not to be changed."""
        if self._decoded is None:
            self._decoded = decode_definition(self.definition, self.name)
        return self._decoded

    @property
    def other_names(self) -> dict[str, str]:
        """Names of its properties in formats that do not take the original ones, to these; mostly empty."""
        if self._other_names is None:
            self._other_names = other_names(self.decoded.get("inputSchema"))
        return self._other_names

    def of(self, servers: Collection[str]) -> bool:
        """Whether it is of one of these servers, by `namespace/name`, name or prefix."""
        return not servers or bool({str(self.server), self.server.name, self.prefix} & set(servers))


_OWN: Final = ServerOfTools(GATEWAY, "", offline=False, escapes=False)


def gateway_tool(raw: bytes) -> VisibleTool:
    """One of the gateway's own tools, which budgets never cut: without it what it leads to is out of reach. `raw`: its
    MCP definition.
    """
    name = str(decode_definition(raw, "")["name"])
    entry = ToolEntry(name=name, definition=Raw(raw), hash=definition_hash(raw), search_hash=search_hash(name, raw))
    tool = Tool(name, (GATEWAY, name), raw, name, raw, idempotent=True, hash=entry.hash)
    return VisibleTool(name, _OWN, entry, tool, None, pinned=True)


READER: Final = gateway_tool(READ_DEFINITION)


class VisibleTools:
    """The visible tools of one view."""

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        self.view = view
        self.tier = next((tier for tier in snapshot.rules.tiers if tier.name == view.tier), None)
        self.by_name = {
            entry.name: entry
            for entry in breathing(_entries(view.routes, snapshot, view.pinned, view.escaping), STRIDE)
        }
        self.entries = tuple(entry for entry in self.by_name.values() if entry.tool.interface.for_model)
        """Tools that a model may be offered: some are only for the user interface of their server (SEP-1865)."""
        self.names = Names([*self.by_name, READ_RESULT] if view.reads else self.by_name)
        """Over all that is visible, so that a tool has the same safe name in every answer, however it was filtered."""
        ids: dict[str, VisibleTool | None] = {}
        for entry in self.by_name.values():
            ids[entry.id] = None if entry.id in ids else entry
        self._by_id = ids
        self._hidden = {
            entry.name: entry for entry in breathing(_entries(view.hidden, snapshot, (), view.escaping), STRIDE)
        }
        self._hidden_names = Names(self._hidden)

    @cached_property
    def by_key(self) -> dict[str, VisibleTool]:
        """The tools by what is shown of them."""
        return {entry.key: entry for entry in self.entries}

    @cached_property
    def catalog(self) -> str:
        """Hash over all tools: equal where the same are shown."""
        return catalog_hash(self.by_key)

    def find(self, name: str) -> VisibleTool | None:
        """A tool by exposed name or id, `read_result` too where it is listed. An id that two servers share names
        neither.
        """
        tool = self.by_name.get(name) or self._by_id.get(name)
        return self.reader(name) if tool is None and self.view.reads else tool

    def reader(self, name: str) -> VisibleTool | None:
        """`read_result` by its name or id, listed or not: a request that bounds its own results may be told of it."""
        return READER if name in (READER.name, READER.id) else None

    def with_reader(self, entries: list[VisibleTool]) -> list[VisibleTool]:
        """The entries, and `read_result` in its place among them where the tokens of one's results are bounded."""
        routes = self.view.routes
        if self.view.reads and any(routes[entry.name].most_tokens is not None for entry in entries):
            entries.insert(bisect_left(entries, READ_RESULT, key=attrgetter("name")), READER)
        return entries

    def tool(self, name: str) -> VisibleTool:
        """The tool of that name or id. Raises Problem: OVER_BUDGET with the place of a tool that the tier hides, else
        UNKNOWN_TOOL with the name that was probably meant.
        """
        entry = self.find(name)
        if entry is None:
            hidden = self.hidden_tool(name)
            if hidden is not None:
                raise Problem(OVER_BUDGET, sentence(hidden), hidden=hidden)
            raise unknown_tool(name, did_you_mean(name, self.by_name))
        return entry

    def unlisted(self, name: str) -> VisibleTool | None:
        """A tool that the tier does not show, by exposed name, id, or the name that a provider was given: a model may
        have been shown it a moment ago.
        """
        tool = self._hidden.get(self._hidden_names.original(name) or name)
        return tool or next((entry for entry in self._hidden.values() if entry.id == name), None)

    def knows(self, server: str) -> bool:
        """Whether a tool of that server is visible, or would be without the tier."""
        hidden = (entry for name, entry in self._hidden.items() if self.view.hidden[name].by is not None)
        return any(entry.of((server,)) for entry in (*self.by_name.values(), *hidden))

    def hidden(self, tags: Collection[str] = (), servers: Collection[str] = ()) -> HiddenTools | None:
        """Tools with these tags and servers that a tier hides; None where it hides none."""
        return self.view.notice(entry.name for entry in _filter(self._hidden.values(), tags, servers))

    def hidden_tool(self, name: str) -> HiddenTool | None:
        """A tool that a tier hides, by the names of `unlisted`: why, and where it is; None for any other."""
        entry = self.unlisted(name)
        if entry is None:
            return None
        why = self.view.hidden[entry.name]
        return None if why.by is None else hidden_tool(entry.name, why.by, why, self.view.base)

    def select(
        self, tags: Collection[str] = (), servers: Collection[str] = (), categories: Collection[str] = ()
    ) -> list[VisibleTool]:
        """Tools with one of the tags, of one of the servers, in one of the categories; all where none are given. Raises
        Problem for a server without a tool that is visible or hidden by the tier.
        """
        for server in sorted(servers):
            if not self.knows(server):
                servers_with_tools = tuple(sorted({str(entry.server) for entry in self.entries}))
                raise unknown_server(server, f"no tool of a server {server[:128]!r} is visible", servers_with_tools)
        chosen = _filter(self.entries, tags, servers)
        return [entry for entry in chosen if not categories or not set(entry.entry.categories).isdisjoint(categories)]


def _filter(entries: Iterable[VisibleTool], tags: Collection[str], servers: Collection[str]) -> list[VisibleTool]:
    return [
        entry for entry in entries if entry.of(servers) and (not tags or not set(entry.entry.tags).isdisjoint(tags))
    ]


def _entries(
    names: Iterable[str], snapshot: Snapshot, pinned: Container[str], escaping: Container[ServerKey]
) -> Iterable[VisibleTool]:
    documents = {key: {tool.name: tool for tool in server.catalog.tools} for key, server in snapshot.servers.items()}
    servers = {
        key: ServerOfTools(key, server.catalog.prefix or "", offline=not server.catalog.online, escapes=key in escaping)
        for key, server in snapshot.servers.items()
    }
    for name in names:
        merged = snapshot.merged.get(name)
        if merged is not None:
            server, tool = merged
            state = snapshot.states.get(server.key, {}).get(tool.name)
            entry = documents[server.key][tool.name]
            yield VisibleTool(name, servers[server.key], entry, tool, state, pinned=name in pinned)
