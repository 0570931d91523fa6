"""The decision which tools a target shows, and the views that it comes to.

Pure module. A `Selection` is compiled once per snapshot by the composition root; the endpoint looks a request's
target up in it and finds a `View`: the very object answers `tools/list` and resolves `tools/call`, so that a tool
which is not listed cannot be called. Policies and tiers narrow views here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.refusals import OVER_BUDGET, Refusal
from fairlead_gateway.catalog.model import EMPTY, Server, Snapshot, Tool
from fairlead_gateway.formats.names import did_you_mean
from fairlead_gateway.identity.model import Identity
from fairlead_gateway.selection.annotated import annotated
from fairlead_gateway.selection.offers import NOTHING, Offers, merged_offers, server_offers
from fairlead_gateway.selection.route import Reach, Route
from fairlead_gateway.selection.tiers import Hidden, ToolRef, default_tier, hidden_in
from fairlead_mcp import jsonrpc

MERGED: Final = b"/mcp"
"""Target of the default tier; each tier has its own below it."""


class Listing:
    """The definitions of a list as bytes, put together at the first use. Views that show the same share one."""

    __slots__ = ("_bytes", "_definitions")

    def __init__(self, definitions: Iterable[bytes]) -> None:
        self._definitions = definitions
        self._bytes: bytes | None = None

    def read(self) -> bytes:
        if self._bytes is None:
            self._bytes = b'{"tools":[%b]' % b",".join(self._definitions)
            self._definitions = ()
        return self._bytes


class View:
    """The tools that one target shows, by the names it shows them under, in the order of the names."""

    __slots__ = ("_listing", "base", "everything", "hidden", "instructions", "offers", "routes", "server_info",
                 "tier", "title")  # fmt: skip

    def __init__(
        self,
        title: str,
        routes: Mapping[str, Route],
        listing: Listing,
        server_info: bytes | None = None,
        instructions: str | None = None,
        offers: Offers = NOTHING,
        *,
        base: bytes,
        tier: str | None = None,
        hidden: Mapping[str, Hidden] = MappingProxyType({}),
        everything: Mapping[str, Route] | None = None,
    ) -> None:
        self.title = title
        self.base = base
        """Target of the endpoint that this is a view of; those of its tiers stand below it."""
        self.tier = tier
        """The latency tier that chose the tools; None where none did."""
        self.hidden = hidden
        """Tools that the tier does not show."""
        self.everything = routes if everything is None else everything
        """Routes of shown and hidden tools."""
        self.offers = offers
        """What it shows beside tools."""
        self.routes = routes
        self.server_info = server_info
        """Raw `serverInfo` of the one server behind the view; None where the gateway speaks for itself."""
        self.instructions = instructions
        self._listing = listing

    def unlisted(self, name: str, now: float) -> Route | None:
        """Where a tool is called that the tier does not show: for a while as ever, for clients may hold a list of
        before; then nowhere, and it says which tier has it. None: there is no such tool. `now`: the gateway's clock.
        """
        hidden = self.hidden.get(name)
        if hidden is None:
            return None
        route = self.everything[name]
        return route if now < hidden.callable_until else route.closed_by(_over_budget(name, self.tier, hidden))

    def nearest(self, name: str) -> str | None:
        """The tool that a wrong name was probably meant to be; only ever one that is shown here. Among many, only those
        with the same beginning are looked at, so that a wrong name costs no more than a millisecond.
        """
        names: Iterable[str] = self.routes
        if len(self.routes) > NEAR:
            start = name[:NEAR_START].casefold()
            names = islice((one for one in names if one[:NEAR_START].casefold() == start), NEAR)
        return did_you_mean(name, names)

    @property
    def listing(self) -> bytes:
        """`{"tools":[…]`, open at the end for the members of either era; put together at the first use, never
        copied.
        """
        return self._listing.read()


def _over_budget(name: str, tier: str | None, hidden: Hidden) -> Refusal:
    elsewhere = "no tier has it now" if hidden.tier is None else f"tier {hidden.tier} has it"
    return Refusal(OVER_BUDGET, f"{name} does not fit tier {tier}: {hidden.reason}; {elsewhere}")


NEAR: Final = 200
"""Names that a suggestion looks at."""
NEAR_START: Final = 3
"""Characters."""
Bind = Callable[[Reach, Tool], Route]


class Selection:
    """The views of one snapshot by request target."""

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        routes: Mapping[ServerKey, Mapping[str, Route]] = MappingProxyType({}),
        reaches: Mapping[ServerKey, Reach] = MappingProxyType({}),
        *,
        before: Selection | None = None,
        now: float = 0.0,
        figures: bool = False,
    ) -> None:
        """`before` is the selection that this one takes the place of, `now` the gateway's clock in seconds. `figures`:
        lists have what is known of each tool's speed.
        """
        self.snapshot = snapshot
        self.routes = routes
        known: Mapping[str, Mapping[ToolRef, Hidden]] = before.hidden if before is not None else {}
        self.hidden: Mapping[str, Mapping[ToolRef, Hidden]] = {
            tier.name: hidden_in(tier, snapshot, known.get(tier.name, {}), now) for tier in snapshot.rules.tiers
        }
        """What each tier does not show: the one decision behind every list and call."""
        self.targets: dict[bytes, View] = {}
        shown = self._annotated if figures else _plain
        self._add(_merged(snapshot, routes, reaches, shown))
        for key, server in snapshot.servers.items():
            self._add(_of_server(server, routes[key], reaches.get(key), shown))

    def seen_by(self, identity: Identity) -> Mapping[bytes, View]:
        """The views of whoever asks, by request target. A target that is not in it does not exist for that asker."""
        return self.targets

    def _add(self, whole: _Whole) -> None:
        """The endpoint in the default tier, and one below it for each tier."""
        tiers = self.snapshot.rules.tiers
        default = default_tier(tiers)
        self.targets[whole.target] = whole.view() if default is None else whole.view(default, self.hidden[default.name])
        for tier in tiers:
            self.targets[in_tier(whole.target, tier.name)] = whole.view(tier, self.hidden[tier.name], below=True)

    def _annotated(self, definition: bytes, server: Server, tool: Tool) -> bytes:
        return annotated(definition, tool, self.snapshot.states.get(server.key, {}).get(tool.name))

    def prepare(self) -> None:
        """Put the merged list together now, so that no request has to wait for it."""
        _ = self.targets[MERGED].listing


def bind_all(reaches: Mapping[ServerKey, Reach], bind: Bind, before: Selection) -> dict[ServerKey, Mapping[str, Route]]:
    """Routes of every server; those of a server that did not change are taken over while they lead to the same
    upstream.
    """
    bound: dict[ServerKey, Mapping[str, Route]] = {}
    for key, reach in reaches.items():
        server = reach.server
        kept = before.routes.get(key) if before.snapshot.servers.get(key) is server else None
        if kept and server.tools and kept[server.tools[0].name].reach.upstream is reach.upstream:
            bound[key] = kept
        else:
            bound[key] = {tool.name: bind(reach, tool) for tool in server.tools}
    return bound


def in_tier(target: bytes, tier: str) -> bytes:
    """Target of the endpoint that shows of `target` the tools of one tier."""
    return b"%b/%b" % (target, quote(tier, safe="").encode())


def server_target(key: ServerKey) -> bytes:
    """Target of the endpoint that shows one server alone, its tools unprefixed."""
    return f"/servers/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}/mcp".encode()


class _Whole:
    """Everything that an endpoint could show. Views of it that hide the same tools share what can be shared."""

    def __init__(
        self,
        target: bytes,
        title: str,
        tools: Mapping[str, tuple[ToolRef, Route, bytes]],
        offers: Offers,
        server: Server | None = None,
    ) -> None:
        """`tools`: shown name to tool, route and definition. `server`: the only one behind it."""
        self.target = target
        self._title = title
        self._tools = tools
        self._routes = {name: route for name, (_, route, _) in tools.items()}
        self._offers = offers
        self._server_info = server_info(server) if server is not None else None
        self._instructions = server.catalog.instructions if server is not None else None
        self._listings: dict[frozenset[str], Listing] = {}
        self._shown: dict[tuple[frozenset[str], int | None], Mapping[str, Route]] = {}

    def view(
        self,
        tier: Tier | None = None,
        hidden: Mapping[ToolRef, Hidden] = MappingProxyType({}),
        *,
        below: bool = False,
    ) -> View:
        """The view of a tier; of everything without one. `below`: it has a target of its own."""
        left_out = {name: hidden[ref] for name, (ref, _, _) in self._tools.items() if ref in hidden} if hidden else {}
        timeout_ms = tier.call_timeout_ms if tier is not None else None
        names = frozenset(left_out)
        return View(
            f"{self._title}/{tier.name}" if below and tier is not None else self._title,
            self._showing(names, timeout_ms),
            self._listing(names),
            self._server_info,
            self._instructions,
            self._offers,
            base=self.target,
            tier=tier.name if tier is not None else None,
            hidden=left_out,
            everything=self._showing(frozenset(), timeout_ms),
        )

    def _showing(self, left_out: frozenset[str], timeout_ms: int | None) -> Mapping[str, Route]:
        """Routes of all but some tools, none of which gives a call more time than that."""
        if not left_out and timeout_ms is None:
            return self._routes
        found = self._shown.get((left_out, timeout_ms))
        if found is None:
            seconds = float("inf") if timeout_ms is None else timeout_ms / 1000
            found = {name: route.within(seconds) for name, route in self._routes.items() if name not in left_out}
            self._shown[left_out, timeout_ms] = found
        return found

    def _listing(self, left_out: frozenset[str]) -> Listing:
        found = self._listings.get(left_out)
        if found is None:
            shown = [definition for name, (_, _, definition) in self._tools.items() if name not in left_out]
            found = self._listings[left_out] = Listing(shown)
        return found


Shown = Callable[[bytes, Server, Tool], bytes]
"""What a list has of a definition."""


def _plain(definition: bytes, server: Server, tool: Tool) -> bytes:
    return definition


def _merged(
    snapshot: Snapshot,
    routes: Mapping[ServerKey, Mapping[str, Route]],
    reaches: Mapping[ServerKey, Reach],
    shown: Shown,
) -> _Whole:
    tools = {
        name: ((server.key, tool.name), routes[server.key][tool.name], shown(tool.merged, server, tool))
        for name, (server, tool) in snapshot.merged.items()
    }
    return _Whole(MERGED, "mcp", tools, merged_offers(snapshot, reaches))


def _of_server(server: Server, routes: Mapping[str, Route], reach: Reach | None, shown: Shown) -> _Whole:
    tools = {
        tool.name: ((server.key, tool.name), routes[tool.name], shown(tool.definition, server, tool))
        for tool in server.tools
    }
    return _Whole(server_target(server.key), str(server.key), tools, server_offers(server, reach), server)


def server_info(server: Server) -> bytes | None:
    """The server's raw `serverInfo`; None where it lacks a name or a version, for then clients refuse it."""
    info = bytes(server.catalog.server_info)
    try:
        members = jsonrpc.decode_object(info)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return info if members.keys() >= {"name", "version"} else None
