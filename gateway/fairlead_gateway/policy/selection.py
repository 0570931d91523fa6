"""The decision which tools each subject sees at each target, and the views that it comes to.

Pure module. There is one `Selection` per snapshot. Policies and tiers narrow views in this package and nowhere else.
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
from fairlead_gateway.policy.view import MERGED, KnownViews, View
from fairlead_gateway.policy.view_builder import build_unconstrained_in_slices

VIEW_BYTES: Final = 256 << 20
"""Bound of the views of rule sets; those of the least recently used go first."""
SUBJECTS: Final = 8192
"""Subjects whose rule set is remembered."""


def select_in_slices(
    snapshot: Snapshot,
    reaches: Mapping[ServerKey, ServerBinding],
    bind: Bind,
    before: Selection | None = None,
    *,
    now: float = 0.0,
    figures: bool = False,
    view_bytes: int = VIEW_BYTES,
) -> Generator[None, None, Selection]:
    """The selection of a snapshot, which takes the place of another. `now`: seconds of the gateway's clock; `figures`:
    lists have what is known of each tool's speed.
    """
    routes = yield from bind_in_slices(reaches, bind, {} if before is None else before.routes)
    catalog_before = None if before is None else before.catalog
    catalog = yield from compile_in_slices(snapshot, routes, reaches, catalog_before, now=now, figures=figures)
    yield from build_unconstrained_in_slices(catalog)
    return Selection(snapshot, routes, catalog, before, view_bytes)


class Selection:
    """Views of one snapshot for every subject."""

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        routes: Routes = MappingProxyType({}),
        catalog: CompiledCatalog | None = None,
        before: Selection | None = None,
        view_bytes: int = VIEW_BYTES,
    ) -> None:
        """`before` is the selection that this one takes the place of. Without `catalog` nothing is shown."""
        if catalog is None:
            catalog = finish(compile_in_slices(EMPTY, {}, {}))
            finish(build_unconstrained_in_slices(catalog))
        self.snapshot = snapshot
        self.routes = routes
        self.catalog = catalog
        self.hidden = catalog.hidden
        """Tools that each tier does not show: the one decision behind every list and call."""
        self.targets = catalog.views
        """The views of subjects of whom no policy speaks."""
        self.policies = catalog.policies
        self.known_views = KnownViews(catalog.views, enforced=catalog.policies.enforced)
        """Views that were put together before, for the look-up of each request."""
        self._earlier = before.bounded_lists() if before is not None else {}
        self._of_rules: OrderedDict[tuple[int, ...], SubjectViews] = OrderedDict()
        self._view_bytes = view_bytes
        self._lock = threading.Lock()
        """The REST plane looks from a thread of its own."""

    def seen_by(self, identity: Identity) -> Mapping[bytes, View]:
        """The views of a subject, by request target. A target that is not in it does not exist for the subject. The
        first look of a rule set at a target takes up to tens of milliseconds, unless `prepare_in_slices` went before.
        """
        if not self.policies.enforced:
            return self.targets
        views = self.views_of(identity)
        return self.targets if views.rules.ready and views.rules.open else views

    def views_of(self, identity: Identity) -> SubjectViews:
        """The views of a subject, also where policies leave nothing out."""
        views = self.known_views.of_subject.get(identity)
        if views is None:  # not by its truth, which is that of its length: that would work its rules out at once
            views = self._find(identity)
        views.is_used = True
        return views

    def _find(self, identity: Identity) -> SubjectViews:
        key = self.policies.key_for(identity)
        views = self._of_rules.get(key)
        if views is None:
            views = self._new(key)
        if len(self.known_views.of_subject) >= SUBJECTS:
            self.known_views.of_subject = {}
        self.known_views.of_subject[identity] = views
        return views

    def prepare_in_slices(self, before: Selection) -> Generator[None, None, None]:
        """Put together what is looked at in the selection before, so that nobody has to wait for it when
        this one takes its place: the views of rule sets that somebody asked with, and lists that somebody read.
        """
        for target, view in self.targets.items():
            old = before.targets.get(target)
            if target == MERGED or (old is not None and old.listed):
                yield from view.prepare_in_slices()
        for identity, views in [*before.known_views.of_subject.items()]:
            if not views.is_used or not self.policies.enforced:
                continue
            mine = self.known_views.of_subject.get(identity)
            if mine is None:
                mine = self._find(identity)
            yield
            for target in [*views.views]:
                if not mine.ready(target):
                    yield from mine.build_in_slices(target)

    def ready(self, identity: Identity, target: bytes) -> bool:
        """Whether the view of a target can be had at once. `SubjectViews.build_in_slices` makes it."""
        return not self.policies.enforced or self.views_of(identity).ready(target)

    @property
    def weight(self) -> int:
        """Bytes, about, that the views of rule sets take up."""
        return sum(each.weight for each in self._of_rules.values())

    def parts_in_slices(self) -> Generator[None, None, list[object]]:
        """Its parts, the small ones before those that hold them: to be let go of from the end, in turns."""
        servers = [*self.snapshot.servers.values()]
        endpoints = [endpoint for endpoint, tier in self.catalog.endpoints.values() if tier is None]
        of_rules = [*self._of_rules.values()]
        views = [
            *{id(view): view for view in self.targets.values()}.values(),
            *(view for each in of_rules for view in each.views.values()),
        ]
        parts: list[object] = []
        for view in views:
            parts += view.parts if view.listed else ()
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
        for holders in (servers, endpoints, views, of_rules):
            parts += holders
        return parts

    def _new(self, key: tuple[int, ...]) -> SubjectViews:
        rules = RuleSet(self.policies, key)
        # nothing in a selection leads back to it: it ends with its last call
        bound_views = weakref.WeakMethod(self._bound_views)

        def told(views: SubjectViews) -> None:
            bound = bound_views()
            if bound is not None:
                bound(views)

        made = SubjectViews(self.catalog, rules, self._earlier.get(rules.names, {}), told)
        with self._lock:
            return self._of_rules.setdefault(key, made)

    def _bound_views(self, views: SubjectViews) -> None:
        """Let go of those that nobody looked with for longest. Requests that hold their views keep them."""
        with self._lock:
            if views.rules.key in self._of_rules:
                self._of_rules.move_to_end(views.rules.key)
            weight = self.weight
            while weight > self._view_bytes and len(self._of_rules) > 1:
                weight -= self._of_rules.popitem(last=False)[1].weight
                self.known_views.of_subject = {}

    def bounded_lists(self) -> dict[tuple[str, ...], Mapping[bytes, View]]:
        """By policies, the views of rule sets whose lists are bounded: what is cut from them now stays callable for a
        while.
        """
        with self._lock:
            bounded = [each for each in self._of_rules.values() if each.rules.ready and each.rules.quotas]
        return {each.rules.names: each.views for each in bounded}


class ServedSelection:
    """Holder of the selection that is served now, which is replaced as a whole; empty before the first catalog."""

    __slots__ = ("selection",)

    def __init__(self) -> None:
        self.selection = Selection()

    def get(self) -> Selection:
        return self.selection
