"""Everything that one endpoint could show, and the views of it: by latency tier, and by what policies allow.

Pure module, used by `policy.selection` for what is seen where no policy says anything, and by
`policy.perspective` for what a rule set sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from weakref import WeakValueDictionary

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.meta import ServerKey
from fairlead_api.slices import listed, tabled
from fairlead_gateway.calls.escaping import escaped_text
from fairlead_gateway.catalog.model import Server, Snapshot, ToolRef
from fairlead_gateway.catalog.model import Tool as Known
from fairlead_gateway.catalog.offered import Offered
from fairlead_gateway.policy.instructions import Spoken, title, together
from fairlead_gateway.policy.listing import Listing
from fairlead_gateway.policy.offers import Offers, merged_offers, server_offers
from fairlead_gateway.policy.reach import Reach
from fairlead_gateway.policy.route import Route
from fairlead_gateway.policy.tiers import Hidden
from fairlead_gateway.policy.view import MERGED, View, server_target
from fairlead_mcp import jsonrpc

Tool = tuple[ToolRef, Route, bytes]
"""What it is, where it leads, and its definition."""
Tools = Mapping[str, Tool]
"""By shown name, in the order of the names."""


class Whole:
    """See the module. Views of it that hide the same tools share what can be shared."""

    def __init__(
        self,
        target: bytes,
        title: str,
        tools: Tools,
        routes: Mapping[str, Route],
        offers: Offers,
        servers: Collection[Server],
        *,
        alone: bool,
    ) -> None:
        """`routes`: those of the tools. `servers`: those behind it. `alone`: it is the endpoint of the only one."""
        self.target = target
        self.title = title
        self.tools = tools
        self.offers = offers
        self.servers = tuple(server.key for server in servers)
        only = next(iter(servers)) if alone else None
        self.alone = only.key if only is not None else None
        self.server_info = server_info(only) if only is not None else None
        self._only = only
        self._speaking = tuple(server for server in servers if server.catalog.instructions)
        self._routes = routes
        self._listings: WeakValueDictionary[frozenset[str], Listing] = WeakValueDictionary()
        self._shown: dict[tuple[frozenset[str], int | None], Mapping[str, Route]] = {}

    def viewing(
        self,
        tier: Tier | None = None,
        hidden: Mapping[ToolRef, Hidden] = MappingProxyType({}),
        *,
        below: bool = False,
    ) -> Generator[None, None, View]:
        """The view of a tier; of everything without one. `below`: it has a target of its own."""
        left_out: Mapping[str, Hidden] = {}
        if hidden:
            held = ((name, ref) for name, (ref, _, _) in self.tools.items())
            left_out = yield from tabled((name, hidden[ref]) for name, ref in held if ref in hidden)
        timeout_ms = tier.call_timeout_ms if tier is not None else None
        names = frozenset(left_out)
        yield
        listing = self._listings.get(names)
        if listing is None:
            definitions = ((name, definition) for name, (_, _, definition) in self.tools.items())
            shown = yield from listed(definition for name, definition in definitions if name not in names)
            listing = self.listing(names, shown)
        routes = yield from self._showing(names, timeout_ms)
        everything = yield from self._showing(frozenset(), timeout_ms)
        return View(
            self.title_of(tier, below=below),
            routes,
            listing,
            self.server_info,
            partial(self.instructions, routes),
            self.offers,
            base=self.target,
            tier=tier.name if tier is not None else None,
            hidden=left_out,
            everything=everything,
        )

    def instructions(
        self, routes: Mapping[str, Route], dark: Collection[ServerKey] = (), escaping: Collection[ServerKey] = ()
    ) -> str | None:
        """Instructions of the servers of the tools behind `routes`, and of those that have no tools at all but
        are not `dark`. With the control characters of some made visible.
        """
        if not self._speaking:
            return None
        if self._only is not None:
            return _said(self._only, escaping)
        seen = {route.server.key for route in routes.values()}
        shown = [
            server for server in self._speaking
            if server.key in seen or (not server.tools and server.offered != Offered() and server.key not in dark)
        ]  # fmt: skip
        return together([
            Spoken(title(server.key.name, server.catalog.prefix or ""), _said(server, escaping) or "",
                   server_target(server.key).decode())
            for server in shown
        ])  # fmt: skip

    def title_of(self, tier: Tier | None, *, below: bool) -> str:
        """What a view is called."""
        return f"{self.title}/{tier.name}" if below and tier is not None else self.title

    def listing(self, left_out: frozenset[str], shown: Sequence[bytes]) -> Listing:
        """The list without some tools; `shown` are the definitions of the others."""
        found = self._listings.get(left_out)
        if found is None:
            found = self._listings[left_out] = Listing(shown)
        return found

    def _showing(self, left_out: frozenset[str], timeout_ms: int | None) -> Generator[None, None, Mapping[str, Route]]:
        """Routes of all but some tools, none of which gives a call more time than that."""
        if not left_out and timeout_ms is None:
            return self._routes
        found = self._shown.get((left_out, timeout_ms))
        if found is None:
            seconds = float("inf") if timeout_ms is None else timeout_ms / 1000
            shown = ((name, route) for name, route in self._routes.items() if name not in left_out)
            found = yield from tabled((name, route.within(seconds)) for name, route in shown)
            self._shown[left_out, timeout_ms] = found
        return found


def _said(server: Server, escaping: Collection[ServerKey]) -> str | None:
    text = server.catalog.instructions
    return escaped_text(text) if text and server.key in escaping else text


Shown = Callable[[bytes, Server, Known], bytes]
"""What a list has of a definition."""


def plain(definition: bytes, server: Server, tool: Known) -> bytes:
    """All of it, and nothing else."""
    return definition


def merged(
    snapshot: Snapshot,
    routes: Mapping[ServerKey, Mapping[str, Route]],
    reaches: Mapping[ServerKey, Reach],
    show: Shown = plain,
) -> Generator[None, None, Whole]:
    """The endpoint of all servers."""
    tools = yield from tabled(
        (name, (tool.ref, routes[server.key][tool.name], show(tool.merged, server, tool)))
        for name, (server, tool) in snapshot.merged.items()
    )
    shown = [server for server in snapshot.servers.values() if server.catalog.prefix is not None]
    led = yield from _routes(tools)
    return Whole(MERGED, "mcp", tools, led, merged_offers(snapshot, reaches), shown, alone=False)


def of_server(
    server: Server, routes: Mapping[str, Route], reach: Reach | None, show: Shown = plain
) -> Generator[None, None, Whole]:
    """The endpoint of one server."""
    tools = yield from tabled(
        (tool.name, (tool.ref, routes[tool.name], show(tool.definition, server, tool))) for tool in server.tools
    )
    offers, led = server_offers(server, reach), (yield from _routes(tools))
    return Whole(server_target(server.key), str(server.key), tools, led, offers, [server], alone=True)


def _routes(tools: Tools) -> Generator[None, None, Mapping[str, Route]]:
    return (yield from tabled((name, route) for name, (_, route, _) in tools.items()))


def server_info(server: Server) -> bytes | None:
    """The server's raw `serverInfo`; None where it lacks a name or a version, for then clients refuse it."""
    info = bytes(server.catalog.server_info)
    try:
        members = jsonrpc.decode_object(info)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return info if members.keys() >= {"name", "version"} else None
