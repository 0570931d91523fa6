"""Builds views: the tools that one rule set sees at one endpoint in one latency tier.

Pure module. The rule set UNCONSTRAINED sees all tools of an endpoint. Views that show the same tools share their list,
and views with the same resources share their index.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.floors import Floor
from fairlead_api.meta import ServerKey
from fairlead_api.slices import list_in_slices, table_in_slices
from fairlead_gateway.catalog.model import EMPTY
from fairlead_gateway.core.meta_tools import READ_DEFINITION, READ_RESULT
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import ToolRef
from fairlead_gateway.policy.compiled_catalog import CompiledCatalog, EndpointTools
from fairlead_gateway.policy.constraints import NO_CHANGES, changes_of_server, changes_of_tools
from fairlead_gateway.policy.instructions import instructions_of
from fairlead_gateway.policy.resource_index import ResourceIndex
from fairlead_gateway.policy.router import merged_target, router_view
from fairlead_gateway.policy.rules import Policies, RuleSet
from fairlead_gateway.policy.tiers import GRACE_SECONDS, Hidden, by_speed, in_tier
from fairlead_gateway.policy.tool_list import ToolList
from fairlead_gateway.policy.view import View, ViewTarget, ViewTools
from fairlead_mcp.escaping import escape

SLICE: Final = 64
"""Number of tools per slice, which takes about 0.5 ms if policies change the route of each tool."""
UNCONSTRAINED: Final = RuleSet(Policies(EMPTY, None), ())
"""The rule set of subjects to whom no policy applies, in an installation that allows all tools by default."""
UNCONSTRAINED.merge()
_NOTHING_HIDDEN: Final[Mapping[ToolRef, Hidden]] = {}


def build_unconstrained_in_slices(catalog: CompiledCatalog) -> Generator[None, None, None]:
    """Build the views of subjects to whom no policy applies, into `catalog.views`. A target without a tier gets the
    view of the default tier, if there is one.
    """
    for target, (endpoint, tier) in catalog.endpoints.items():
        merged = merged_target(target)
        if merged is not None:
            catalog.views[target] = router_view(catalog.views[merged], endpoint.tools, endpoint.legacy)
            continue
        default = catalog.default
        view_target = in_tier(endpoint.target, default.name) if tier is None and default is not None else target
        if view_target not in catalog.views:
            catalog.views[view_target] = yield from ViewBuilder(catalog, UNCONSTRAINED, view_target).build_in_slices()
        catalog.views[target] = catalog.views[view_target]
        yield


def tiers_at(
    catalog: CompiledCatalog, rules: RuleSet, endpoint: EndpointTools, requested: Tier | None
) -> dict[ServerKey, Tier | None]:
    """The latency tier that applies at each server that the rule set may see: the requested tier, else the default of
    policies, else the default of the installation. A tier that is slower than policies allow is replaced by the slowest
    tier that they allow.
    """
    default = catalog.default if requested is None else requested
    visible = (server.key for server in endpoint.servers if server.key not in rules.denied_servers)
    if not rules.sets_tiers:
        return dict.fromkeys(visible, default)
    tiers, ranks = catalog.policies.tiers, catalog.policies.ranks
    tiers_of_servers: dict[ServerKey, Tier | None] = {}
    for key in visible:
        policy_tiers, tier = rules.tiers(key), default
        if requested is None and policy_tiers.default is not None:
            tier = tiers[policy_tiers.default]
        if policy_tiers.max is not None and (tier is None or ranks[tier.name] > ranks[policy_tiers.max]):
            tier = tiers[policy_tiers.max]
        tiers_of_servers[key] = tier
    return tiers_of_servers


class ViewBuilder:
    """Builds the view of one target for one rule set. The rule set must be merged (`RuleSet.is_merged`), and must be
    allowed to see the target.
    """

    def __init__(self, catalog: CompiledCatalog, rules: RuleSet, target: bytes) -> None:
        self._catalog = catalog
        self._rules = rules
        self._target = target
        self._endpoint, requested = catalog.endpoints[target]
        self._tiers = tiers_at(catalog, rules, self._endpoint, requested)
        self._default = catalog.default if requested is None else requested
        self._tool_changes = changes_of_tools(rules)
        self._server_parameters = {
            key: (
                changes_of_server(rules, key),
                float("inf") if tier is None or tier.call_timeout_ms is None else tier.call_timeout_ms / 1000,
                _NOTHING_HIDDEN if tier is None else catalog.hidden[tier.name],
            )
            for key, tier in self._tiers.items()
        }
        """By server: changes of its routes, the tier's limit on a call in seconds, and tools that the tier hides."""
        self._unchanged = not self._tool_changes and all(
            not changes and seconds == float("inf") for changes, seconds, _ in self._server_parameters.values()
        )
        """Whether the rule set and tiers leave every route of the endpoint unchanged."""
        self._everything: dict[str, Route] = {}
        """Routes of shown and hidden tools."""
        self._hidden_tools: dict[str, Hidden] = {}
        self._pinned_names: list[str] = []
        self._limits_results = False
        """Whether a shown tool has a limit on the tokens of its results."""
        self._denied_names: list[str] = []
        """Names of tools that policies deny."""

    def build_in_slices(self, previous: View | None = None) -> Generator[None, None, View]:
        """Build the view. `previous` is the view of the same target and rule set in the previous selection."""
        catalog, rules, endpoint = self._catalog, self._rules, self._endpoint
        tools = iter(endpoint.routes.items())
        while chunk := tuple(islice(tools, SLICE)):
            self._add_allowed(chunk)
            yield
        yield from self._cut_in_slices(previous)
        unconstrained = catalog.views.get(self._target)
        is_reduced = self._denied_names or len(self._tiers) < len(endpoint.servers)
        if unconstrained is not None and not is_reduced and not rules.alters:
            return unconstrained
        everything = endpoint.routes if self._unchanged and not self._denied_names else self._everything
        routes, hidden = everything, self._hidden_tools
        if hidden:
            routes = yield from table_in_slices(
                (name, route) for name, route in everything.items() if name not in hidden
            )
        escaped_servers = rules.escaped_servers.intersection(self._tiers)
        names = {tier.name if tier is not None else None for tier in self._tiers.values() or [self._default]}
        view_tools = ViewTools(
            routes=routes,
            everything=everything,
            hidden=hidden,
            pinned=frozenset(self._pinned_names),
            why_denied=partial(_why_denied, rules, catalog.policies, endpoint),
            lists_reader=self._reads(routes),
        )
        target = ViewTarget(
            base=endpoint.target,
            tier=names.pop() if len(names) == 1 else None,
            server_info=endpoint.server_info,
            instructions=partial(instructions_of, endpoint, routes, rules.denied_servers, escaped_servers),
        )
        listing = yield from self._list_in_slices(routes, escaped_servers)
        return View(view_tools, listing, self._resources(escaped_servers), target, escaped_servers)

    def _reads(self, routes: Mapping[str, Route]) -> bool:
        return self._limits_results and READ_RESULT not in routes

    def _add_allowed(self, chunk: tuple[tuple[str, Route], ...]) -> None:
        """Add the tools in `chunk` that policies allow, with the routes that the rule set and tiers give them."""
        denied_tools, pinned, tools = self._rules.denied_tools, self._rules.pinned, self._endpoint.tools
        floors = self._rules.floors
        for name, route in chunk:
            ref = tools[name][0]
            if ref in denied_tools:
                self._denied_names.append(name)
                continue
            changes, seconds, hidden_in_tier = self._server_parameters[ref[0]]
            if not self._unchanged:
                tool_changes = self._tool_changes.get(ref, NO_CHANGES)
                if tool_changes or changes:
                    route = replace(route, **changes, **tool_changes)
                route = route.with_time_limit(seconds)
            self._everything[name] = route
            if ref in pinned:
                self._pinned_names.append(name)
            hidden = hidden_in_tier.get(ref)
            if ref in floors:
                hidden = self._hide_below(ref, floors[ref], hidden)
            if hidden is not None:
                self._hidden_tools[name] = self._drop_unreachable_hints(ref[0], hidden)
            elif route.max_result_tokens is not None:
                self._limits_results = True

    def _hide_below(self, ref: ToolRef, floor: Floor, hidden: Hidden | None) -> Hidden | None:
        """Why a tool with a tier floor from a policy is hidden; None if the tool is shown. A tier floor takes effect at
        once: the grace period is only for tools that leave a tier by their latency.
        """
        tier, catalog = self._tiers[ref[0]], self._catalog
        below_floor = tier is not None and floor.hides(tier)
        if tier is None or not (below_floor or hidden):
            return None
        ordered = by_speed(catalog.policies.rules.tiers)
        fastest = next((t.name for t in ordered if not floor.hides(t) and ref not in catalog.hidden[t.name]), None)
        if not below_floor:
            return None if hidden is None else msgspec.structs.replace(hidden, tier=fastest)
        return Hidden(floor.reason(tier), fastest, 0.0, tier.name, catalog.default is None)

    def _drop_unreachable_hints(self, key: ServerKey, hidden: Hidden) -> Hidden:
        """Remove from `hidden` the hints to a tier and an endpoint that would not show the tool to this rule set."""
        policy_tiers, ranks = self._rules.tiers(key), self._catalog.policies.ranks
        if policy_tiers.default is None and policy_tiers.max is None:
            return hidden
        slowest = policy_tiers.max
        beyond = slowest is not None and hidden.tier is not None and ranks[hidden.tier] > ranks[slowest]
        return msgspec.structs.replace(hidden, tier=None if beyond else hidden.tier, untiered=False)

    def _cut_in_slices(self, previous: View | None) -> Generator[None, None, None]:
        """Hide the tools that exceed the list limits of a namespace's quota."""
        for quota in self._rules.quotas.values():
            if quota.max_tools is None and quota.tool_tokens is None:
                continue
            pinned = frozenset(self._pinned_names)
            tools = [
                (name, self._endpoint.tools[name][1], name in pinned)
                for name, route in self._everything.items()
                if route.server.key.namespace == quota.namespace and name not in self._hidden_tools
            ]
            limits = yield from self._catalog.cutter.cut_in_slices(tools, quota)
            for name, limit in limits.items():
                until = self._callable_until(name, previous)
                self._hidden_tools[name] = Hidden(limit.reason, None, until, policy=limit.policy)

    def _callable_until(self, name: str, previous: View | None) -> float:
        if previous is None:
            return 0.0
        hidden_before = previous.hidden.get(name)
        if hidden_before is not None:
            return hidden_before.callable_until
        return self._catalog.now + GRACE_SECONDS if name in previous.routes else 0.0

    def _list_in_slices(
        self, routes: Mapping[str, Route], escaped_servers: frozenset[ServerKey]
    ) -> Generator[None, None, ToolList]:
        lists = self._endpoint.lists
        marks = [f"\0{key}" for key in escaped_servers]  # no tool name begins with NUL
        lists_reader = self._reads(routes)
        if lists_reader:
            marks.append("\0")
        key = frozenset((*self._denied_names, *self._hidden_tools, *marks))
        yield
        tool_list = lists.get(key)
        if tool_list is None:
            definitions = yield from self._definitions_in_slices(routes, escaped_servers, lists_reader=lists_reader)
            legacy = self._endpoint.legacy
            legacy_list = None
            if not routes.keys().isdisjoint(legacy):
                legacy_list = ToolList(
                    (
                        yield from self._definitions_in_slices(
                            routes, escaped_servers, lists_reader=lists_reader, legacy=legacy
                        )
                    )
                )
            tool_list = lists[key] = ToolList(definitions, legacy_list)
        return tool_list

    def _definitions_in_slices(
        self,
        routes: Mapping[str, Route],
        escaped_servers: frozenset[ServerKey],
        *,
        lists_reader: bool,
        legacy: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Generator[None, None, list[bytes]]:
        """Definitions for a tool list. `legacy` has replacements by name; an empty replacement leaves the tool out."""
        names = [name for name in routes if legacy.get(name) != b""]
        sources = ((name, legacy.get(name) or self._endpoint.tools[name][1]) for name in names)
        definitions = yield from list_in_slices(
            bytes(escape(definition)) if escaped_servers and routes[name].must_escape else definition
            for name, definition in sources
        )
        if lists_reader:
            definitions.insert(bisect_left(names, READ_RESULT), READ_DEFINITION)
        return definitions

    def _resources(self, escaped_servers: frozenset[ServerKey]) -> ResourceIndex:
        endpoint, denied_servers, denied_tools = self._endpoint, self._rules.denied_servers, self._rules.denied_tools
        denied_keys = [str(server.key) for server in endpoint.servers if server.key in denied_servers]
        withheld_keys = endpoint.resources.withheld_keys(denied_tools) if denied_tools else ()
        if not denied_keys and not escaped_servers and not withheld_keys:
            return endpoint.resources
        key = frozenset((*denied_keys, *withheld_keys, *(f"\0{server}" for server in escaped_servers)))
        index = endpoint.indexes.get(key)
        if index is None:
            index = endpoint.indexes[key] = endpoint.resources.without(denied_servers, escaped_servers, denied_tools)
        return index


def _why_denied(rules: RuleSet, policies: Policies, endpoint: EndpointTools, name: str) -> str | None:
    """Why policies deny a tool to a rule set; None if they do not deny it, or if the reason must not be disclosed."""
    endpoint_tool = endpoint.tools.get(name)
    if endpoint_tool is None or endpoint_tool[0] not in rules.denied_tools or not rules.explains(endpoint_tool[0][0]):
        return None
    key, tool = endpoint_tool[0]
    verdict = policies.verdict(key, tool, rules.key)
    return None if verdict is None else policies.sentence(verdict)
