"""The decision which tools each asker sees at each target, and the views that it comes to.

Pure module. A `Selection` is compiled once per snapshot by the composition root; the endpoint and the REST plane ask it
for the views of whoever asks. Policies and tiers narrow views here and nowhere else.
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
from fairlead_gateway.identity.model import Identity
from fairlead_gateway.policy.ground import Ground, grounding
from fairlead_gateway.policy.perspective import Perspective
from fairlead_gateway.policy.route import Route
from fairlead_gateway.policy.rules import RuleSet
from fairlead_gateway.policy.view import MERGED, View

VIEW_BYTES: Final = 256 << 20
"""What the views of rule sets may take up; of the least recently used, the views go first."""
ASKERS: Final = 8192
"""Askers whose rule set is remembered."""


class Selection:
    """See the module."""

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        routes: Mapping[ServerKey, Mapping[str, Route]] = MappingProxyType({}),
        ground: Ground | None = None,
        *,
        before: Selection | None = None,
        view_bytes: int = VIEW_BYTES,
    ) -> None:
        """`ground` is that of the snapshot, `before` the selection that this one takes the place of."""
        ground = finish(grounding(snapshot, routes, {})) if ground is None else ground
        self.snapshot = snapshot
        self.routes = routes
        self.ground = ground
        self.hidden = ground.hidden
        """What each tier does not show: the one decision behind every list and call."""
        self.targets = ground.targets
        """The views of whoever no policy says anything about."""
        self.policies = ground.policies
        self.cutter = ground.cutter
        self._earlier = before.bounded_lists() if before is not None else {}
        self._of_asker: dict[Identity, Perspective] = {}
        self._perspectives: OrderedDict[tuple[int, ...], Perspective] = OrderedDict()
        self._view_bytes = view_bytes
        self._lock = threading.Lock()
        """The REST plane looks from a thread of its own."""

    def seen_by(self, identity: Identity) -> Mapping[bytes, View]:
        """The views of whoever asks, by request target. A target that is not in it does not exist for that asker. The
        first look of a rule set at a target takes up to tens of milliseconds, unless `preparing` went before.
        """
        if not self.policies.enforced:
            return self.targets
        found = self.perspective(identity)
        return self.targets if found.rules.ready and found.rules.open else found

    def perspective(self, identity: Identity) -> Perspective:
        """The same, where policies are to be asked about."""
        found = self._of_asker.get(identity)
        if found is None:
            found = self._meet(identity)
        found.asked = True
        return found

    def _meet(self, identity: Identity) -> Perspective:
        key = self.policies.key_for(identity)
        found = self._perspectives.get(key)
        if found is None:
            found = self._new(key)
        if len(self._of_asker) >= ASKERS:
            self._of_asker = {}
        self._of_asker[identity] = found
        return found

    def following(self, before: Selection) -> Generator[None, None, None]:
        """Put together what is looked at in the selection before, in slices, so that nobody has to wait for it when
        this one takes its place: the views of rule sets that somebody asked with, and lists that somebody read.
        """
        for target, view in self.targets.items():
            old = before.targets.get(target)
            if target == MERGED or (old is not None and old.listed):
                yield from view.preparing()
        for identity, known in [*before._of_asker.items()]:
            if not known.asked or not self.policies.enforced:
                continue
            mine = self._of_asker.get(identity) or self._meet(identity)
            yield
            for target in [*known.views]:
                if not mine.ready(target):
                    yield from mine.steps(target)

    def at_once(self, identity: Identity, target: bytes) -> View | None:
        """The view of a target in one look, where it has been put together before. None says nothing: see `ready`."""
        return self.perspective(identity).views.get(target) if self.policies.enforced else self.targets.get(target)

    def ready(self, identity: Identity, target: bytes) -> bool:
        """Whether the view of a target can be had at once. `preparing` has it made in slices."""
        return not self.policies.enforced or self.perspective(identity).ready(target)

    @property
    def weight(self) -> int:
        """Bytes, about, that the views of rule sets take up."""
        return sum(each.weight for each in self._perspectives.values())

    def parting(self) -> Generator[None, None, list[object]]:
        """What it is made of, what is small before what holds it: to be let go of from the end, in turns."""
        servers = [*self.snapshot.servers.values()]
        wholes = [*{id(whole): whole for whole, _ in self.ground.origins.values()}.values()]
        perspectives = [*self._perspectives.values()]
        views = [*self.targets.values(), *(view for each in perspectives for view in each.views.values())]
        found: list[object] = []
        for view in views:
            found += view.listing if view.listed else ()
        for namespace in self.policies.namespaces:
            found += self.policies.index(namespace).parts()
            yield
        for routes in self.routes.values():
            found += routes.values()
            yield
        for server in servers:
            found += server.tools
            found += server.catalog.tools
            yield
        for whole in wholes:
            found += whole.tools.values()
            yield
        found += self.snapshot.merged.values()
        yield
        for holders in (servers, wholes, views, perspectives):
            found += holders
        return found

    def _new(self, key: tuple[int, ...]) -> Perspective:
        rules = RuleSet(self.policies, key)
        grown = weakref.WeakMethod(self._grown)  # nothing in a selection leads back to it: it ends with its last call

        def told(perspective: Perspective) -> None:
            known = grown()
            if known is not None:
                known(perspective)

        made = Perspective(self.ground, rules, self._earlier.get(rules.names, {}), told)
        with self._lock:
            return self._perspectives.setdefault(key, made)

    def _grown(self, perspective: Perspective) -> None:
        """Let go of those that nobody looked with for longest. Requests that hold their views keep them."""
        with self._lock:
            if perspective.rules.key in self._perspectives:
                self._perspectives.move_to_end(perspective.rules.key)
            weight = self.weight
            while weight > self._view_bytes and len(self._perspectives) > 1:
                weight -= self._perspectives.popitem(last=False)[1].weight
                self._of_asker = {}

    def bounded_lists(self) -> dict[tuple[str, ...], Mapping[bytes, View]]:
        """By policies, the views of rule sets whose lists are bounded: what is cut from them now stays callable for a
        while.
        """
        with self._lock:
            kept = [each for each in self._perspectives.values() if each.rules.ready and each.rules.shares]
        return {each.rules.names: each.views for each in kept}
