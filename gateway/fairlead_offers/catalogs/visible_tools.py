"""Visible tools of a view for the REST API and offers: ids, servers, hashes, tags, and names for providers.

The worker thread compiles the tools of a view once per snapshot. The view decides which tools are visible, and their
order.
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
from fairlead_formats.names import Names, suggest_name
from fairlead_formats.schema.property_names import other_names
from fairlead_formats.tokens.sizes import render
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
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_search.indexed_tool import catalog_hash
from fairlead_tools.names import tool_id

MAX_CACHED_VIEWS: Final = 64
"""Maximum number of views whose compiled tools are cached."""
STRIDE: Final = 64
"""Number of tools that are compiled between two pauses of the worker thread; one tool takes about 6 µs."""
GATEWAY: Final = ServerKey(GROUP, "gateway")
"""Server of the gateway's own tools. No McpServer can have this key, because names of namespaces have no dots."""


class ServerOfTools(msgspec.Struct, frozen=True):
    """Properties of a server that all its tools share."""

    key: ServerKey
    prefix: str
    offline: bool
    must_escape: bool
    """Whether policies require control characters in the server's definitions to be escaped."""


class VisibleTool:
    """Tool that policies let a subject see, whether its tier shows or hides the tool."""

    __slots__ = (
        "_decoded_definition",
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
        self.id = tool_id(server.key, entry.shown_name)
        self.name = name
        self.server = server.key
        self.prefix = server.prefix
        self.entry = entry
        self.definition = bytes(escape(tool.merged)) if server.must_escape else tool.merged
        """Raw definition with the exposed name."""
        self.tool = tool
        self.state = state
        """Measurements and tier decisions of the tool; None before the first measurement."""
        self.offline = server.offline
        self.pinned = pinned
        """Whether a policy pins the tool, so that a limit on tokens or tools never leaves it out."""
        self.key = hashlib.blake2b(self.definition, digest_size=16).hexdigest()
        """Hash of the definition, including the name."""
        self._decoded_definition: JsonObject | None = None
        self._other_names: dict[str, str] | None = None

    @property
    def latency(self) -> LatencyDocument:
        """Declared and measured latency."""
        return latency_of(self.tool, self.state)

    @property
    def decoded_definition(self) -> JsonObject:
        """Decoded definition, which must not be changed."""
        if self._decoded_definition is None:
            self._decoded_definition = decode_definition(self.definition, self.name)
        return self._decoded_definition

    @property
    def is_decoded(self) -> bool:
        """Whether `decoded_definition` and `other_names` are made already."""
        return self._other_names is not None

    @property
    def other_names(self) -> dict[str, str]:
        """Original names of the schema's properties, by the names that replace them in formats that do not accept the
        original names. Usually empty.
        """
        if self._other_names is None:
            self._other_names = other_names(self.decoded_definition.get("inputSchema"))
        return self._other_names

    @property
    def server_bytes(self) -> int | None:
        """Bytes of what models would read of the server's definition; None if nothing of the definition is changed."""
        if self.entry.shape is None and self.entry.description is None:
            return None
        return len(render(decode_definition(bytes(self.entry.definition), self.entry.name)).encode())

    def is_from(self, servers: Collection[str]) -> bool:
        """Whether the tool belongs to one of these servers, given by `namespace/name`, name or prefix. An empty
        collection stands for all servers.
        """
        return not servers or bool({str(self.server), self.server.name, self.prefix} & set(servers))


_GATEWAY_SERVER: Final = ServerOfTools(GATEWAY, "", offline=False, must_escape=False)


def gateway_tool(raw: bytes) -> VisibleTool:
    """Make the entry of one of the gateway's own tools. Budgets never leave it out, because the model needs it to reach
    other tools. `raw`: MCP definition of the tool.
    """
    name = str(decode_definition(raw, "")["name"])
    entry = ToolEntry(name=name, definition=Raw(raw), hash=definition_hash(raw), search_hash=search_hash(name, raw))
    tool = Tool(name, (GATEWAY, name), raw, name, raw, idempotent=True, hash=entry.hash)
    return VisibleTool(name, _GATEWAY_SERVER, entry, tool, None, pinned=True)


READER: Final = gateway_tool(READ_DEFINITION)


class VisibleTools:
    """Visible tools of one view."""

    def __init__(self, view: View, snapshot: Snapshot) -> None:
        self.view = view
        self.tier = next((tier for tier in snapshot.rules.tiers if tier.name == view.tier), None)
        self.by_name = {
            entry.name: entry
            for entry in with_pauses(_entries(view.routes, snapshot, view.pinned, view.escaped_servers), STRIDE)
        }
        self.entries = tuple(entry for entry in self.by_name.values() if entry.tool.interface.for_model)
        """Tools that may be offered to a model. Other visible tools are only for the user interface of their server
        (SEP-1865)."""
        self.names = Names([*self.by_name, READ_RESULT] if view.lists_reader else self.by_name)
        """Names that every provider accepts. They are made for all visible tools, so that a tool has the same name in
        every answer, whatever the filters of the request.
        """
        ids: dict[str, VisibleTool | None] = {}
        for entry in self.by_name.values():
            ids[entry.id] = None if entry.id in ids else entry
        self._entries_by_id = ids
        self._hidden_entries = {
            entry.name: entry
            for entry in with_pauses(_entries(view.hidden, snapshot, (), view.escaped_servers), STRIDE)
        }
        self._hidden_names = Names(self._hidden_entries)

    @cached_property
    def by_key(self) -> dict[str, VisibleTool]:
        """Tools by the hash of their definition."""
        return {entry.key: entry for entry in self.entries}

    @cached_property
    def catalog_hash(self) -> str:
        """Hash over the definitions of all tools, by which the search process recognizes an indexed catalog."""
        return catalog_hash(self.by_key)

    def find(self, name: str) -> VisibleTool | None:
        """Find a tool by exposed name or id, including `read_result` if the view lists it. Returns None for an id that
        two tools have.
        """
        tool = self.by_name.get(name) or self._entries_by_id.get(name)
        return self.find_reader(name) if tool is None and self.view.lists_reader else tool

    def find_reader(self, name: str) -> VisibleTool | None:
        """Return the tool `read_result` if `name` is its name or id, even if the view does not list it: a result that
        was shortened by the limit of a request tells the model to call it.
        """
        return READER if name in (READER.name, READER.id) else None

    def add_reader(self, entries: list[VisibleTool]) -> list[VisibleTool]:
        """Insert `read_result` into sorted entries if the results of any of their tools have a token limit."""
        routes = self.view.routes
        if self.view.lists_reader and any(routes[entry.name].max_result_tokens is not None for entry in entries):
            entries.insert(bisect_left(entries, READ_RESULT, key=attrgetter("name")), READER)
        return entries

    def tool(self, name: str) -> VisibleTool:
        """Return the tool with a name or id. Raises Problem: OVER_BUDGET with the tiers of a tool that the tier hides,
        else UNKNOWN_TOOL with the name that was probably meant.
        """
        entry = self.find(name)
        if entry is None:
            hidden = self.hidden_tool(name)
            if hidden is not None:
                raise Problem(OVER_BUDGET, sentence(hidden), hidden=hidden)
            raise unknown_tool(name, self.view.find_renamed(name) or suggest_name(name, self.by_name))
        return entry

    def find_hidden(self, name: str) -> VisibleTool | None:
        """Find a tool that the tier hides, by exposed name, id, or safe name for providers. A model may still call such
        a tool if it was listed before.
        """
        tool = self._hidden_entries.get(self._hidden_names.original_name(name) or name)
        return tool or next((entry for entry in self._hidden_entries.values() if entry.id == name), None)

    def has_server(self, server: str) -> bool:
        """Whether the subject may see a tool of a server, whether the tier shows or hides the tool."""
        hidden = (
            entry for name, entry in self._hidden_entries.items() if self.view.hidden[name].hiding_tier is not None
        )
        return any(entry.is_from((server,)) for entry in (*self.by_name.values(), *hidden))

    def hidden_tools(self, tags: Collection[str] = (), servers: Collection[str] = ()) -> HiddenTools | None:
        """Tools with these tags and servers that the tier hides; None if the tier hides no such tool."""
        return self.view.notice(entry.name for entry in _filter(self._hidden_entries.values(), tags, servers))

    def hidden_tool(self, name: str) -> HiddenTool | None:
        """Reason why the tier hides a tool, and the tiers that show it; None for other tools. `name`: as in
        `find_hidden`.
        """
        entry = self.find_hidden(name)
        if entry is None:
            return None
        hiding = self.view.hidden[entry.name]
        return (
            None if hiding.hiding_tier is None else hidden_tool(entry.name, hiding.hiding_tier, hiding, self.view.base)
        )

    def select(
        self, tags: Collection[str] = (), servers: Collection[str] = (), categories: Collection[str] = ()
    ) -> list[VisibleTool]:
        """Select tools that have one of the tags, belong to one of the servers and have one of the categories. An empty
        filter matches all tools. Raises Problem for a server of which no tool is visible or hidden by the tier.
        """
        for server in sorted(servers):
            if not self.has_server(server):
                servers_with_tools = tuple(sorted({str(entry.server) for entry in self.entries}))
                raise unknown_server(
                    server, f"you may not see any tool of a server {server[:128]!r}", servers_with_tools
                )
        matching_tools = _filter(self.entries, tags, servers)
        return [
            entry
            for entry in matching_tools
            if not categories or not set(entry.entry.categories).isdisjoint(categories)
        ]


def _filter(entries: Iterable[VisibleTool], tags: Collection[str], servers: Collection[str]) -> list[VisibleTool]:
    return [
        entry
        for entry in entries
        if entry.is_from(servers) and (not tags or not set(entry.entry.tags).isdisjoint(tags))
    ]


def _entries(
    names: Iterable[str], snapshot: Snapshot, pinned: Container[str], escaped_servers: Container[ServerKey]
) -> Iterable[VisibleTool]:
    documents = {key: {tool.name: tool for tool in server.catalog.tools} for key, server in snapshot.servers.items()}
    servers = {
        key: ServerOfTools(
            key, server.catalog.prefix or "", offline=not server.catalog.online, must_escape=key in escaped_servers
        )
        for key, server in snapshot.servers.items()
    }
    for name in names:
        merged = snapshot.merged.get(name)
        if merged is not None:
            server, tool = merged
            state = snapshot.states.get(server.key, {}).get(tool.name)
            entry = documents[server.key][tool.name]
            yield VisibleTool(name, servers[server.key], entry, tool, state, pinned=name in pinned)
