"""The decision which tools each asker sees at each target, and the views that it comes to.

Pure module. A `Selection` is compiled once per snapshot by the composition root; the endpoint and the REST plane ask it
for the views of whoever asks. Policies and tiers narrow views here and nowhere else.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from fairlead_api.documents.rules import Tier
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import EMPTY, Server, Snapshot, Tool, ToolRef
from fairlead_gateway.identity.model import Identity
from fairlead_gateway.selection.annotated import annotated
from fairlead_gateway.selection.cut import Cutter
from fairlead_gateway.selection.perspective import Ground, Perspective
from fairlead_gateway.selection.policy import Policies, RuleSet
from fairlead_gateway.selection.route import Reach, Route
from fairlead_gateway.selection.tiers import Hidden, default_tier, hidden_in
from fairlead_gateway.selection.view import MERGED, View, in_tier
from fairlead_gateway.selection.whole import Whole, merged, of_server, plain

Bind = Callable[[Reach, Tool], Route]
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
        reaches: Mapping[ServerKey, Reach] = MappingProxyType({}),
        *,
        before: Selection | None = None,
        now: float = 0.0,
        figures: bool = False,
        view_bytes: int = VIEW_BYTES,
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
        """The views of whoever no policy says anything about."""
        show = self._annotated if figures else plain
        origins = self._add(merged(snapshot, routes, reaches, show))
        for key, server in snapshot.servers.items():
            origins |= self._add(of_server(server, routes[key], reaches.get(key), show))
        self.policies: Policies = Policies(snapshot, before.policies if before is not None else None)
        self.cutter: Cutter = before.cutter if before is not None else Cutter()
        self._ground = Ground(
            self.policies, origins, self.targets, self.hidden, default_tier(snapshot.rules.tiers), self.cutter, now
        )
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
            key = self.policies.key_for(identity)
            found = self._perspectives.get(key)
            if found is None:
                found = self._new(key)
            if len(self._of_asker) >= ASKERS:
                self._of_asker = {}
            self._of_asker[identity] = found
        return found

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

    def parts(self) -> list[object]:
        """What it is made of, what is small before what holds it: to be let go of from the end, in turns."""
        servers = [*self.snapshot.servers.values()]
        wholes = [*{id(whole): whole for whole, _ in self._ground.origins.values()}.values()]
        found: list[object] = [route for routes in self.routes.values() for route in routes.values()]
        for server in servers:
            found += server.tools
            found += server.catalog.tools
        for whole in wholes:
            found += whole.tools.values()
        found += self.snapshot.merged.values()
        return [*found, *servers, *wholes, *self.targets.values(), *self._perspectives.values()]

    def prepare(self) -> None:
        """Put the merged list together now, so that no request has to wait for it."""
        _ = self.targets[MERGED].listing

    def _annotated(self, definition: bytes, server: Server, tool: Tool) -> bytes:
        return annotated(definition, tool, self.snapshot.states.get(server.key, {}).get(tool.name))

    def _new(self, key: tuple[int, ...]) -> Perspective:
        rules = RuleSet(self.policies, key)
        grown = weakref.WeakMethod(self._grown)  # nothing in a selection leads back to it: it ends with its last call

        def told(perspective: Perspective) -> None:
            known = grown()
            if known is not None:
                known(perspective)

        made = Perspective(self._ground, rules, self._earlier.get(rules.names, {}), told)
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

    def _add(self, whole: Whole) -> dict[bytes, tuple[Whole, Tier | None]]:
        """The endpoint in the default tier, and one below it for each tier."""
        tiers = self.snapshot.rules.tiers
        default = default_tier(tiers)
        self.targets[whole.target] = whole.view() if default is None else whole.view(default, self.hidden[default.name])
        origins: dict[bytes, tuple[Whole, Tier | None]] = {whole.target: (whole, None)}
        for tier in tiers:
            target = in_tier(whole.target, tier.name)
            self.targets[target] = whole.view(tier, self.hidden[tier.name], below=True)
            origins[target] = whole, tier
        return origins


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
