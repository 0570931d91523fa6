"""Views of one rule set by request target, built in slices at the first use.

Pure module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from fairlead_api.documents.rules import Tier
from fairlead_api.slices import finish
from fairlead_gateway.policy.compiled_catalog import CompiledCatalog, EndpointTools
from fairlead_gateway.policy.hidden_tools_notice import MAX_NAMED
from fairlead_gateway.policy.router import merged_target, router_view
from fairlead_gateway.policy.rules import RuleSet
from fairlead_gateway.policy.view import MERGED, View
from fairlead_gateway.policy.view_builder import ViewBuilder, tiers_at

_BYTES_PER_TOOL: Final = 200
"""Approximate bytes per tool of a view in addition to the tool's definition."""
_BYTES_PER_NOTICE: Final = 400
"""Approximate bytes per hidden tool that the notice in a list names."""


class SubjectViews(Mapping[bytes, View]):
    """Views of all subjects with the same rule set, by request target. Targets that the rule set may not see are
    missing.
    """

    def __init__(
        self,
        catalog: CompiledCatalog,
        rules: RuleSet,
        previous: Mapping[bytes, View],
        on_growth: Callable[[SubjectViews], None] = lambda views: None,
    ) -> None:
        """Create a table without views. `previous` are the views of the same rule set in the previous selection.
        `on_growth` is called with this table whenever a view was added.
        """
        self.rules = rules
        self.weight = 0
        """Approximate bytes of the views."""
        self.views: dict[bytes, View] = {}
        """Views that are already built."""
        self.is_used = False
        """Whether any request has used the table."""
        self._catalog = catalog
        self._previous = previous
        self._on_growth = on_growth

    def __repr__(self) -> str:
        return f"<views of {', '.join(self.rules.names) or 'no policy'}: {len(self.views)}>"

    def __contains__(self, target: object) -> bool:
        self.rules.merge()
        endpoint_and_tier = self._catalog.endpoints.get(target) if isinstance(target, bytes) else None
        return endpoint_and_tier is not None and self._exists(*endpoint_and_tier)

    def __getitem__(self, target: bytes) -> View:
        view = self.views.get(target)
        if view is None:
            if target not in self:
                raise KeyError(target)
            finish(self.build_in_slices(target))
            view = self.views[target]
        return view

    def __iter__(self) -> Iterator[bytes]:
        return (target for target in self._catalog.endpoints if target in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def is_built(self, target: bytes) -> bool:
        """Whether the view of a target is already built, or does not exist."""
        return target in self.views or (self.rules.is_merged and target not in self)

    def build_in_slices(self, target: bytes) -> Generator[None, None, None]:
        """Build the view of a target and its list, if the rule set may see the target."""
        if not self.rules.is_merged:
            yield from self.rules.merge_in_slices()
        if target in self.views or target not in self:
            return
        path_at_merged, unconstrained = merged_target(target), self._catalog.views[target]
        if path_at_merged is not None:
            yield from self.build_in_slices(path_at_merged)
            is_shared = self.views[path_at_merged] is self._catalog.views[path_at_merged]
            endpoint = self._catalog.endpoints[target][0]
            view = (
                unconstrained if is_shared else router_view(self.views[path_at_merged], endpoint.tools, endpoint.legacy)
            )
            self._keep(target, view)
            return
        view = yield from ViewBuilder(self._catalog, self.rules, target).build_in_slices(self._previous.get(target))
        if view is not unconstrained:
            yield from view.prepare_in_slices()
            self.weight += len(view.everything) * _BYTES_PER_TOOL
        self._keep(target, view)

    def _keep(self, target: bytes, view: View) -> None:
        if view is not self._catalog.views[target]:
            self.weight += sum(map(len, view.parts)) + min(len(view.hidden), MAX_NAMED) * _BYTES_PER_NOTICE
        self.views[target] = view
        self._on_growth(self)

    @property
    def default_tier(self) -> str | None:
        """The tier for requests without a tier; None if there is no such tier, or if servers have different default
        tiers."""
        tiers = tiers_at(self._catalog, self.rules, self._catalog.endpoints[MERGED][0], None)
        names = {tier.name if tier is not None else None for tier in tiers.values()}
        return names.pop() if len(names) == 1 else None

    def _exists(self, endpoint: EndpointTools, tier: Tier | None) -> bool:
        rules, ranks = self.rules, self._catalog.policies.ranks
        if endpoint.single_server and endpoint.servers[0].key in rules.denied_servers:
            return False
        if tier is None or not rules.sets_tiers:
            return True
        visible = [server.key for server in endpoint.servers if server.key not in rules.denied_servers]
        slowest = [rules.tiers(key).max for key in visible]
        return not visible or any(name is None or ranks[name] >= ranks[tier.name] for name in slowest)
