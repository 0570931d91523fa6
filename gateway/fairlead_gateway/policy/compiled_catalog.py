"""Compiles a snapshot into data that all subjects share: endpoints, tools that tiers hide, policies and routes.

Pure module. Functions of this package whose names end in "in_slices" are generators that pause about every
millisecond, so that compiling a large catalog does not delay calls. They return their result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from weakref import WeakValueDictionary

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.floors import Floors
from fairlead_api.meta import ServerKey
from fairlead_api.slices import SLICE
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Server, Tool, ToolRef
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.latency_annotations import annotate
from fairlead_gateway.policy.quotas import Cutter
from fairlead_gateway.policy.resource_index import ResourceIndex, merged_resources, server_resources
from fairlead_gateway.policy.router import ROUTER
from fairlead_gateway.policy.rules import Policies, compile_policies_in_slices
from fairlead_gateway.policy.server_info import server_info
from fairlead_gateway.policy.tiers import Hidden, default_tier, hide_in_slices, in_tier
from fairlead_gateway.policy.tool_list import ToolList
from fairlead_gateway.policy.view import MERGED, View, server_target

Bind = Callable[[ServerBinding, Tool], Route]
Routes = Mapping[ServerKey, Mapping[str, Route]]
"""Routes by server and the server's own name of the tool."""


class EndpointTools(msgspec.Struct, frozen=True, eq=False):
    """All tools and resources of one endpoint, before tiers and policies remove some of them."""

    target: bytes
    """Path of the endpoint, without a tier."""
    tools: Mapping[str, tuple[ToolRef, bytes]]
    """Tools with their definitions by listed name, sorted by name."""
    legacy: Mapping[str, bytes]
    """Definitions for legacy clients, by listed name, if they differ. An empty definition means that legacy clients are
    not shown the tool."""
    routes: dict[str, Route]
    """Routes of the tools by listed name."""
    resources: ResourceIndex
    servers: tuple[Server, ...]
    single_server: bool
    """Whether the endpoint belongs to a single server."""
    server_info: bytes | None
    """Raw `serverInfo` of the single server; None if the gateway sends its own `serverInfo`."""
    lists: WeakValueDictionary[frozenset[str], ToolList]
    """Tool lists of existing views, by the names that the views leave out. Views that show the same tools share a
    list.
    """
    indexes: WeakValueDictionary[frozenset[str], ResourceIndex]
    """Resource indexes of existing views. The key has the keys of servers and user interfaces that the index leaves
    out, and, each after a NUL, the keys of servers whose control characters are escaped.
    """


class CompiledCatalog(msgspec.Struct, frozen=True, eq=False):
    """Data compiled from one snapshot that all subjects share."""

    policies: Policies
    endpoints: Mapping[bytes, tuple[EndpointTools, Tier | None]]
    """Endpoint and tier by request target. The merged endpoint has the first target."""
    hidden: Mapping[str, Mapping[ToolRef, Hidden]]
    """Hidden tools by the name of the tier that hides them."""
    default: Tier | None
    """Default tier of the installation; if None, requests without a tier see every tool."""
    cutter: Cutter
    """Cuts lists to quotas. The next catalog takes over this object."""
    now: float
    """Time of compilation on the gateway's clock, in seconds."""
    views: dict[bytes, View]
    """Views of subjects to whom no policy applies, by request target."""


def compile_in_slices(
    snapshot: Snapshot,
    routes: Routes,
    bindings: Mapping[ServerKey, ServerBinding],
    previous: CompiledCatalog | None = None,
    *,
    now: float = 0.0,
    with_latency: bool = False,
) -> Generator[None, None, CompiledCatalog]:
    """Compile a snapshot, to replace the catalog `previous`. Does not build the views. With `with_latency`, definitions
    in lists include the latency of each tool.
    """

    def annotate_definition(definition: bytes, server: Server, tool: Tool) -> bytes:
        if not with_latency:
            return definition
        return annotate(definition, tool, snapshot.states.get(server.key, {}).get(tool.name), floors.of(tool))

    def annotate_legacy(definition: bytes | None, server: Server, tool: Tool) -> bytes | None:
        return annotate_definition(definition, server, tool) if definition else definition

    tiers = snapshot.rules.tiers
    floors = Floors(tiers)
    hidden: dict[str, Mapping[ToolRef, Hidden]] = {}
    for tier in tiers:
        hidden_before = previous.hidden.get(tier.name, {}) if previous is not None else {}
        hidden[tier.name] = yield from hide_in_slices(tier, snapshot, hidden_before, now)
    merged_items = (
        (
            name,
            server,
            tool,
            annotate_definition(tool.merged, server, tool),
            annotate_legacy(tool.legacy_merged, server, tool),
        )
        for name, (server, tool) in snapshot.merged.items()
    )
    prefixed = tuple(server for server in snapshot.servers.values() if server.catalog.prefix is not None)
    merged_index = merged_resources(snapshot, bindings)
    endpoint_tools = [(yield from _endpoint_in_slices(MERGED, merged_items, routes, merged_index, prefixed))]
    for key, server in snapshot.servers.items():
        server_tools = (
            (
                tool.shown_name,
                server,
                tool,
                annotate_definition(tool.definition, server, tool),
                annotate_legacy(tool.legacy_definition, server, tool),
            )
            for tool in server.tools
        )
        resources = server_resources(server, bindings.get(key))
        target = server_target(key)
        endpoint_tools.append(
            (yield from _endpoint_in_slices(target, server_tools, routes, resources, (server,), single_server=True))
        )
    endpoints: dict[bytes, tuple[EndpointTools, Tier | None]] = {}
    for endpoint in endpoint_tools:
        endpoints[endpoint.target] = endpoint, None
        endpoints.update((in_tier(endpoint.target, tier.name), (endpoint, tier)) for tier in tiers)
    endpoints[ROUTER] = endpoint_tools[0], None
    endpoints.update((in_tier(ROUTER, tier.name), (endpoint_tools[0], tier)) for tier in tiers)
    yield
    policies = yield from compile_policies_in_slices(snapshot, previous.policies if previous is not None else None)
    cutter = previous.cutter if previous is not None else Cutter()
    return CompiledCatalog(policies, endpoints, hidden, default_tier(tiers), cutter, now, {})


def _endpoint_in_slices(
    target: bytes,
    items: Iterable[tuple[str, Server, Tool, bytes, bytes | None]],
    routes: Routes,
    resources: ResourceIndex,
    servers: tuple[Server, ...],
    *,
    single_server: bool = False,
) -> Generator[None, None, EndpointTools]:
    tools: dict[str, tuple[ToolRef, bytes]] = {}
    legacy_definitions: dict[str, bytes] = {}
    endpoint_routes: dict[str, Route] = {}
    for number, (name, server, tool, definition, legacy_definition) in enumerate(items):
        tools[name] = tool.ref, definition
        if legacy_definition is not None:
            legacy_definitions[name] = legacy_definition
        route, uri_names = routes[server.key][tool.name], resources.uri_names(server.key)
        endpoint_routes[name] = route if uri_names is None else replace(route, uris=uri_names)
        if number % SLICE == SLICE - 1:
            yield
    yield
    info = server_info(servers[0]) if single_server else None
    lists = WeakValueDictionary[frozenset[str], ToolList]()
    indexes = WeakValueDictionary[frozenset[str], ResourceIndex]()
    return EndpointTools(
        target, tools, legacy_definitions, endpoint_routes, resources, servers, single_server, info, lists, indexes
    )


def bind_in_slices(
    bindings: Mapping[ServerKey, ServerBinding], bind: Bind, previous: Routes = MappingProxyType({})
) -> Generator[None, None, dict[ServerKey, Mapping[str, Route]]]:
    """Create the routes of all servers. Routes in `previous` are reused if their server and upstream are unchanged."""
    routes: dict[ServerKey, Mapping[str, Route]] = {}
    for key, binding in bindings.items():
        server, previous_routes = binding.server, previous.get(key)
        first_route = previous_routes.get(server.tools[0].name) if previous_routes and server.tools else None
        same_server = first_route is not None and first_route.server is server
        if (
            previous_routes
            and first_route is not None
            and same_server
            and first_route.binding.upstream is binding.upstream
        ):
            routes[key] = previous_routes
            yield
            continue
        server_routes = {}
        for tool in server.tools:
            server_routes[tool.name] = bind(binding, tool)
            yield
        routes[key] = server_routes
    return routes
