"""Selects the tools that each subject sees at each request target, as views.

Pure module. There is one `Selection` per snapshot. Only this package applies policies and tiers to views.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.slices import finish
from fairlead_gateway.catalog.model import EMPTY, Snapshot
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.compiled_catalog import Bind, CompiledCatalog, Routes, bind_in_slices, compile_in_slices
from fairlead_gateway.policy.rules import RuleSet
from fairlead_gateway.policy.subject_views import SubjectViews
from fairlead_gateway.policy.view import MERGED, BuiltViews, View
from fairlead_gateway.policy.view_builder import build_unconstrained_in_slices

VIEW_BYTES: Final = 256 << 20
"""Maximum number of bytes of the views of all rule sets; the views of the least recently used rule set are dropped
first."""
SUBJECTS: Final = 8192
"""Maximum number of subjects whose rule set is cached."""


def select_in_slices(
    snapshot: Snapshot,
    bindings: Mapping[ServerKey, ServerBinding],
    bind: Bind,
    previous: Selection | None = None,
    *,
    now: float = 0.0,
    with_latency: bool = False,
    view_bytes: int = VIEW_BYTES,
) -> Generator[None, None, Selection]:
    """Create the selection of a snapshot, to replace the selection `previous`. `now` is in seconds of the gateway's
    clock. With `with_latency`, definitions in lists include the latency of each tool.
    """
    routes = yield from bind_in_slices(bindings, bind, {} if previous is None else previous.routes)
    previous_catalog = None if previous is None else previous.catalog
    catalog = yield from compile_in_slices(
        snapshot, routes, bindings, previous_catalog, now=now, with_latency=with_latency
    )
    yield from build_unconstrained_in_slices(catalog)
    return Selection(snapshot, routes, catalog, previous, view_bytes)


class Selection:
    """Views of one snapshot for every subject."""

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        routes: Routes = MappingProxyType({}),
        catalog: CompiledCatalog | None = None,
        previous: Selection | None = None,
        view_bytes: int = VIEW_BYTES,
    ) -> None:
        """Create a selection that replaces `previous`. Without `catalog` it shows no tools."""
        if catalog is None:
            catalog = finish(compile_in_slices(EMPTY, {}, {}))
            finish(build_unconstrained_in_slices(catalog))
        self.snapshot = snapshot
        self.routes = routes
        self.catalog = catalog
        self.hidden = catalog.hidden
        """Hidden tools by the name of the tier that hides them. Lists and calls both use this mapping."""
        self.targets = catalog.views
        """Views of subjects to whom no policy applies, by request target."""
        self.policies = catalog.policies
        self.built_views = BuiltViews(catalog.views, enforced=catalog.policies.enforced)
        """Table of the views that are already built, for the look-up at each request."""
        self._previous_lists = previous.views_with_quotas() if previous is not None else {}
        self._views_by_rules: OrderedDict[tuple[int, ...], SubjectViews] = OrderedDict()
        self._view_bytes = view_bytes
        self._lock = threading.Lock()
        """Protects the views, because the REST API reads them from another thread."""

    def seen_by(self, identity: Identity) -> Mapping[bytes, View]:
        """Views of a subject by request target. The subject sees no other targets. Building the first view of a rule
        set at a target may take tens of milliseconds, unless `prepare_in_slices` has built it before.
        """
        if not self.policies.enforced:
            return self.targets
        views = self.views_of(identity)
        return self.targets if views.rules.is_merged and views.rules.restricts_nothing else views

    def views_of(self, identity: Identity) -> SubjectViews:
        """Views of a subject with its rule set, even if policies do not restrict the subject."""
        views = self.built_views.views_by_subject.get(identity)
        if views is None:  # `not views` would call `__len__`, which merges the policies and blocks the event loop
            views = self._find(identity)
        views.is_used = True
        return views

    def _find(self, identity: Identity) -> SubjectViews:
        key = self.policies.key_for(identity)
        views = self._views_by_rules.get(key)
        if views is None:
            views = self._new(key)
        if len(self.built_views.views_by_subject) >= SUBJECTS:
            self.built_views.views_by_subject = {}
        self.built_views.views_by_subject[identity] = views
        return views

    def prepare_in_slices(self, previous: Selection) -> Generator[None, None, None]:
        """Build the views and lists that are in use in the previous selection, so that no request has to wait for them
        after this selection has replaced it.
        """
        for target, view in self.targets.items():
            old_view = previous.targets.get(target)
            if target == MERGED or (old_view is not None and old_view.is_joined):
                yield from view.prepare_in_slices()
        for identity, views in [*previous.built_views.views_by_subject.items()]:
            if not views.is_used or not self.policies.enforced:
                continue
            new_views = self.built_views.views_by_subject.get(identity)
            if new_views is None:
                new_views = self._find(identity)
            yield
            for target in [*views.views]:
                if not new_views.is_built(target):
                    yield from new_views.build_in_slices(target)

    def is_built(self, identity: Identity, target: bytes) -> bool:
        """Whether the view of a target is already built; if not, `SubjectViews.build_in_slices` builds it."""
        return not self.policies.enforced or self.views_of(identity).is_built(target)

    @property
    def weight(self) -> int:
        """Approximate bytes of the views of all rule sets."""
        return sum(each.weight for each in self._views_by_rules.values())

    def parts_in_slices(self) -> Generator[None, None, list[object]]:
        """Objects of the selection; small objects come before the objects that contain them. Releasing the objects in
        slices from the end of the list avoids one long deallocation.
        """
        servers = [*self.snapshot.servers.values()]
        endpoints = [endpoint for endpoint, tier in self.catalog.endpoints.values() if tier is None]
        subject_views = [*self._views_by_rules.values()]
        views = [
            *{id(view): view for view in self.targets.values()}.values(),
            *(view for each in subject_views for view in each.views.values()),
        ]
        parts: list[object] = []
        for view in views:
            parts += view.parts if view.is_joined else ()
        for namespace in self.policies.namespaces:
            parts += self.policies.index(namespace).parts()
            yield
        for routes in self.routes.values():
            parts += routes.values()
            yield
        for server in servers:
            parts += server.tools
            parts += server.catalog.tools
            yield
        for endpoint in endpoints:
            parts += endpoint.tools.values()
            yield
        parts += self.snapshot.merged.values()
        yield
        for objects in (servers, endpoints, views, subject_views):
            parts += objects
        return parts

    def _new(self, key: tuple[int, ...]) -> SubjectViews:
        rules = RuleSet(self.policies, key)
        # a weak reference avoids a cycle, so that a selection is freed with the last call that uses it
        evict_views = weakref.WeakMethod(self._evict_views)

        def evict(views: SubjectViews) -> None:
            method = evict_views()
            if method is not None:
                method(views)

        new_views = SubjectViews(self.catalog, rules, self._previous_lists.get(rules.names, {}), evict)
        with self._lock:
            return self._views_by_rules.setdefault(key, new_views)

    def _evict_views(self, views: SubjectViews) -> None:
        """Drop the least recently used views beyond the limit. Requests in flight keep references to their views."""
        with self._lock:
            if views.rules.key in self._views_by_rules:
                self._views_by_rules.move_to_end(views.rules.key)
            weight = self.weight
            while weight > self._view_bytes and len(self._views_by_rules) > 1:
                weight -= self._views_by_rules.popitem(last=False)[1].weight
                self.built_views.views_by_subject = {}

    def views_with_quotas(self) -> dict[tuple[str, ...], Mapping[bytes, View]]:
        """Views of rule sets with quotas, by the names of their policies. The next selection compares its own lists
        with these: a tool that only the new list leaves out stays callable for a grace period.
        """
        with self._lock:
            subject_views = [
                each for each in self._views_by_rules.values() if each.rules.is_merged and each.rules.quotas
            ]
        return {each.rules.names: each.views for each in subject_views}


class ServedSelection:
    """Reference to the selection in service, which is replaced atomically; empty before the first catalog."""

    __slots__ = ("selection",)

    def __init__(self) -> None:
        self.selection = Selection()

    def get(self) -> Selection:
        return self.selection
