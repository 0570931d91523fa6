"""The decision which tools a target shows, and the views that it comes to.

Pure module. A `Selection` is compiled once per snapshot by the composition root; the endpoint looks a request's
target up in it and finds a `View`: the very object answers `tools/list` and resolves `tools/call`, so that a tool
which is not listed cannot be called. Policies and tiers narrow views here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.mirrored import mirrored
from fairlead_gateway.catalog.model import EMPTY, Server, Snapshot, Tool
from fairlead_gateway.selection.offers import NOTHING, Offers, Reach, merged_offers, server_offers
from fairlead_gateway.telemetry import Recorder
from fairlead_gateway.upstream.base import Upstream
from fairlead_gateway.validation.shelf import ToolCheck
from fairlead_mcp import eras, jsonrpc

MERGED: Final = b"/mcp"
"""Target of the default tier; each tier has its own below it."""


class Route:
    """Where one tool is called, with everything about it that can be prepared before a call."""

    __slots__ = ("check", "max_bytes", "mirrored", "name", "name_header", "name_raw", "offline", "recorder", "server",
                 "server_info", "timeout", "upstream")  # fmt: skip

    def __init__(
        self,
        server: Server,
        tool: Tool,
        upstream: Upstream,
        recorder: Recorder,
        *,
        timeout: float,
        max_bytes: int,
        server_info: bytes,
        check: ToolCheck | None = None,
    ) -> None:
        self.server = server
        self.name = tool.name
        self.name_raw = Raw(jsonrpc.encode(tool.name))
        self.name_header = eras.header_value(tool.name)
        self.upstream = upstream
        self.recorder = recorder
        self.timeout = timeout
        """Seconds that a call may take."""
        self.max_bytes = max_bytes
        """Of a result."""
        self.server_info = server_info
        """Raw, for results that carry it; never without name and version."""
        self.check = check
        """Of arguments and results; None where they are not checked."""
        self.offline = not server.catalog.online
        self.mirrored = mirrored(tool.definition)
        """Arguments that travel in headers too."""


class View:
    """The tools that one target shows, by the names it shows them under, in the order of the names."""

    __slots__ = ("_definitions", "_listing", "instructions", "offers", "routes", "server_info", "title")

    def __init__(
        self,
        title: str,
        routes: Mapping[str, Route],
        definitions: Iterable[bytes],
        server_info: bytes | None = None,
        instructions: str | None = None,
        offers: Offers = NOTHING,
    ) -> None:
        self.title = title
        self.offers = offers
        """What it shows beside tools."""
        self.routes = routes
        self.server_info = server_info
        """Raw `serverInfo` of the one server behind the view; None where the gateway speaks for itself."""
        self.instructions = instructions
        self._definitions = definitions
        self._listing: bytes | None = None

    @property
    def listing(self) -> bytes:
        """`{"tools":[…]`, open at the end for the members of either era; put together at the first use, never
        copied.
        """
        if self._listing is None:
            self._listing = b'{"tools":[%b]' % b",".join(self._definitions)
        return self._listing


Bind = Callable[[Server, Tool], Route]


class Selection:
    """The views of one snapshot by request target."""

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        routes: Mapping[ServerKey, Mapping[str, Route]] = MappingProxyType({}),
        reaches: Mapping[ServerKey, Reach] = MappingProxyType({}),
    ) -> None:
        self.snapshot = snapshot
        self.routes = routes
        merged = _merged_view(snapshot, routes, reaches)
        self.targets: dict[bytes, View] = {MERGED: merged}
        for tier in snapshot.tiers:
            self.targets[b"%b/%b" % (MERGED, quote(tier, safe="").encode())] = merged
        for key, server in snapshot.servers.items():
            self.targets[server_target(key)] = _server_view(server, routes[key], reaches.get(key))

    def prepare(self) -> None:
        """Put the merged list together now, so that no request has to wait for it."""
        _ = self.targets[MERGED].listing


def bind_all(snapshot: Snapshot, bind: Bind, before: Selection) -> dict[ServerKey, Mapping[str, Route]]:
    """Routes of every server; those of a server that did not change are taken over while they lead to the same
    upstream.
    """
    bound: dict[ServerKey, Mapping[str, Route]] = {}
    for key, server in snapshot.servers.items():
        kept = before.routes.get(key) if before.snapshot.servers.get(key) is server else None
        if kept and server.tools:
            first = bind(server, server.tools[0])
            if first.upstream is kept[server.tools[0].name].upstream:
                bound[key] = kept
                continue
        bound[key] = {tool.name: bind(server, tool) for tool in server.tools}
    return bound


def server_target(key: ServerKey) -> bytes:
    """Target of the endpoint that shows one server alone, its tools unprefixed."""
    return f"/servers/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}/mcp".encode()


def _merged_view(
    snapshot: Snapshot, routes: Mapping[ServerKey, Mapping[str, Route]], reaches: Mapping[ServerKey, Reach]
) -> View:
    found = {name: routes[server.key][tool.name] for name, (server, tool) in snapshot.merged.items()}
    definitions = [tool.merged for _, tool in snapshot.merged.values()]
    return View("mcp", found, definitions, offers=merged_offers(snapshot, reaches))


def _server_view(server: Server, routes: Mapping[str, Route], reach: Reach | None) -> View:
    definitions = [tool.definition for tool in server.tools]
    return View(
        str(server.key), routes, definitions, server_info(server), server.catalog.instructions,
        server_offers(server, reach),
    )  # fmt: skip


def server_info(server: Server) -> bytes | None:
    """The server's raw `serverInfo`; None where it lacks a name or a version, for then clients refuse it."""
    info = bytes(server.catalog.server_info)
    try:
        members = jsonrpc.decode_object(info)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return info if members.keys() >= {"name", "version"} else None
