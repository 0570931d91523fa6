"""Compiles a snapshot, once, for all subjects: endpoints, tools that tiers hide, policies, bound routes.

Pure module. Every function of this package whose name ends in `*_in_slices` is a generator that pauses about every
millisecond and returns what it made, so that a large catalog holds up no call.
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
"""Routes of each server, by the tools' own names."""


class EndpointTools(msgspec.Struct, frozen=True, eq=False):
    """Everything that one endpoint could show, before tiers and policies take from it."""

    target: bytes
    tools: Mapping[str, tuple[ToolRef, bytes]]
    """By shown name, in the order of the names: what it is, and its definition."""
    legacy: Mapping[str, bytes]
    """Definitions that differ for clients of 2025-11-25 and before; empty where they do not list the tool."""
    routes: dict[str, Route]
    resources: ResourceIndex
    servers: tuple[Server, ...]
    alone: bool
    """Whether it is the endpoint of the only one of them."""
    server_info: bytes | None
    """Raw `serverInfo` of that one; None where the gateway speaks for itself."""
    lists: WeakValueDictionary[frozenset[str], ToolList]
    """Lists that views have now, by the names that they leave out: views that show the same share one."""
    indexes: WeakValueDictionary[frozenset[str], ResourceIndex]
    """Resources of views, by the servers that are left out or escaped."""


class CompiledCatalog(msgspec.Struct, frozen=True, eq=False):
    """One snapshot, worked out for all subjects."""

    policies: Policies
    endpoints: Mapping[bytes, tuple[EndpointTools, Tier | None]]
    """Request target to endpoint and the tier that it names. The first is that of all servers."""
    hidden: Mapping[str, Mapping[ToolRef, Hidden]]
    """Tools that each tier does not show."""
    default: Tier | None
    """The installation's; None: clients that name no tier see every tool."""
    cutter: Cutter
    now: float
    """The gateway's clock, seconds, when it was made."""
    views: dict[bytes, View]
    """By request target, the views of subjects of whom no policy speaks."""


def compile_in_slices(
    snapshot: Snapshot,
    routes: Routes,
    reaches: Mapping[ServerKey, ServerBinding],
    before: CompiledCatalog | None = None,
    *,
    now: float = 0.0,
    figures: bool = False,
) -> Generator[None, None, CompiledCatalog]:
    """Compile a snapshot that takes the place of another, without its views. `figures`: definitions in lists have what
    is known of each tool's speed.
    """

    def shown(definition: bytes, server: Server, tool: Tool) -> bytes:
        if not figures:
            return definition
        return annotate(definition, tool, snapshot.states.get(server.key, {}).get(tool.name), floors.of(tool))

    def legacy(definition: bytes | None, server: Server, tool: Tool) -> bytes | None:
        return shown(definition, server, tool) if definition else definition

    tiers = snapshot.rules.tiers
    floors = Floors(tiers)
    hidden: dict[str, Mapping[ToolRef, Hidden]] = {}
    for tier in tiers:
        hidden_before = before.hidden.get(tier.name, {}) if before is not None else {}
        hidden[tier.name] = yield from hide_in_slices(tier, snapshot, hidden_before, now)
    merged = (
        (name, server, tool, shown(tool.merged, server, tool), legacy(tool.legacy_merged, server, tool))
        for name, (server, tool) in snapshot.merged.items()
    )
    prefixed = tuple(server for server in snapshot.servers.values() if server.catalog.prefix is not None)
    made = [(yield from _endpoint_in_slices(MERGED, merged, routes, merged_resources(snapshot, reaches), prefixed))]
    for key, server in snapshot.servers.items():
        own = (
            (
                tool.name,
                server,
                tool,
                shown(tool.definition, server, tool),
                legacy(tool.legacy_definition, server, tool),
            )
            for tool in server.tools
        )
        resources = server_resources(server, reaches.get(key))
        target = server_target(key)
        made.append((yield from _endpoint_in_slices(target, own, routes, resources, (server,), alone=True)))
    endpoints: dict[bytes, tuple[EndpointTools, Tier | None]] = {}
    for endpoint in made:
        endpoints[endpoint.target] = endpoint, None
        endpoints.update((in_tier(endpoint.target, tier.name), (endpoint, tier)) for tier in tiers)
    endpoints[ROUTER] = made[0], None
    endpoints.update((in_tier(ROUTER, tier.name), (made[0], tier)) for tier in tiers)
    yield
    policies = yield from compile_policies_in_slices(snapshot, before.policies if before is not None else None)
    cutter = before.cutter if before is not None else Cutter()
    return CompiledCatalog(policies, endpoints, hidden, default_tier(tiers), cutter, now, {})


def _endpoint_in_slices(
    target: bytes,
    items: Iterable[tuple[str, Server, Tool, bytes, bytes | None]],
    routes: Routes,
    resources: ResourceIndex,
    servers: tuple[Server, ...],
    *,
    alone: bool = False,
) -> Generator[None, None, EndpointTools]:
    tools: dict[str, tuple[ToolRef, bytes]] = {}
    legacy: dict[str, bytes] = {}
    led: dict[str, Route] = {}
    for number, (name, server, tool, definition, for_legacy) in enumerate(items):
        tools[name] = tool.ref, definition
        if for_legacy is not None:
            legacy[name] = for_legacy
        route, names = routes[server.key][tool.name], resources.names(server.key)
        led[name] = route if names is None else replace(route, uris=names)
        if number % SLICE == SLICE - 1:
            yield
    yield
    info = server_info(servers[0]) if alone else None
    lists = WeakValueDictionary[frozenset[str], ToolList]()
    indexes = WeakValueDictionary[frozenset[str], ResourceIndex]()
    return EndpointTools(target, tools, legacy, led, resources, servers, alone, info, lists, indexes)


def bind_in_slices(
    reaches: Mapping[ServerKey, ServerBinding], bind: Bind, before: Routes = MappingProxyType({})
) -> Generator[None, None, dict[ServerKey, Mapping[str, Route]]]:
    """Routes of every server; those of a server that did not change are taken over from `before` while they lead to the
    same upstream.
    """
    bound: dict[ServerKey, Mapping[str, Route]] = {}
    for key, reach in reaches.items():
        server, binding = reach.server, before.get(key)
        first = binding.get(server.tools[0].name) if binding and server.tools else None
        if binding and first is not None and first.server is server and first.binding.upstream is reach.upstream:
            bound[key] = binding
            yield
            continue
        routes = {}
        for tool in server.tools:
            routes[tool.name] = bind(reach, tool)
            yield
        bound[key] = routes
    return bound
