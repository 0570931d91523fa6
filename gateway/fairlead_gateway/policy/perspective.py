"""What one rule set sees: the views of a selection with everything taken out that policies keep from it.

Pure module. Made by `Selection.seen_by`, one per rule set that somebody asked with; a view is put together when it is
first asked for, in slices, so that a large catalog holds no call up. It shares lists with every view that shows the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.meta import ServerKey
from fairlead_api.slices import listed
from fairlead_gateway.calls.escaping import escaped
from fairlead_gateway.catalog.model import ToolRef
from fairlead_gateway.policy.ground import Ground
from fairlead_gateway.policy.notice import MOST_NAMED
from fairlead_gateway.policy.offers import Offers
from fairlead_gateway.policy.route import Route
from fairlead_gateway.policy.rules import Policies, RuleSet
from fairlead_gateway.policy.tiers import GRACE_SECONDS, Hidden
from fairlead_gateway.policy.view import View
from fairlead_gateway.policy.whole import Tool, Whole

SLICE: Final = 512
"""Tools between two pauses: about half a millisecond."""
_A_TOOL: Final = 200
"""Bytes that a tool in a view takes beside its definition."""
_A_NOTICE: Final = 400
"""Bytes that a hidden tool takes in what a list says of it."""


class Perspective(Mapping[bytes, View]):
    """See the module. A target that does not exist for the rule set is not in it."""

    def __init__(
        self,
        ground: Ground,
        rules: RuleSet,
        before: Mapping[bytes, View],
        grown: Callable[[Perspective], None] = lambda perspective: None,
    ) -> None:
        """`before`: views of the same rule set in the selection before. `grown` is told when it takes up more."""
        self.rules = rules
        self.weight = 0
        """Bytes, about."""
        self.views: dict[bytes, View] = {}
        """Those that were asked for."""
        self.asked = False
        """Whether somebody asked since it was made."""
        self._ground = ground
        self._before = before
        self._grown = grown
        self._offers: dict[bytes, Offers] = {}

    def __repr__(self) -> str:
        return f"<Perspective of {', '.join(self.rules.names) or 'no policy'}: {len(self.views)} views>"

    def __contains__(self, target: object) -> bool:
        self.rules.work_out()
        origin = self._ground.origins.get(target) if isinstance(target, bytes) else None
        return origin is not None and self._exists(*origin)

    def __getitem__(self, target: bytes) -> View:
        view = self.views.get(target)
        if view is None:
            if target not in self:
                raise KeyError(target)
            for _ in self.steps(target):
                pass
            view = self.views[target]
        return view

    def __iter__(self) -> Iterator[bytes]:
        return (target for target in self._ground.origins if target in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def ready(self, target: bytes) -> bool:
        """Whether looking the target up costs nothing."""
        return target in self.views or (self.rules.ready and target not in self)

    def steps(self, target: bytes) -> Generator[None, None, None]:
        """Put the view of a target together, if it exists, in slices of about a millisecond."""
        if not self.rules.ready:
            yield from self.rules.steps()
        origin = self._ground.origins.get(target)
        if target in self.views or origin is None or not self._exists(*origin):
            return
        view = yield from self._view(target, *origin)
        self.views[target] = view
        self._grown(self)

    @property
    def default_tier(self) -> str | None:
        """The tier of its askers who name none; None where there is none, or one per server."""
        names = {tier.name if tier is not None else None for tier in self._tiers(self._merged, None).values()}
        return names.pop() if len(names) == 1 else None

    @property
    def _merged(self) -> Whole:
        return next(iter(self._ground.origins.values()))[0]

    def _exists(self, whole: Whole, tier: Tier | None) -> bool:
        rules, ranks = self.rules, self._ground.policies.ranks
        if whole.alone in rules.dark:
            return False
        if tier is None or not rules.tiered:
            return True
        lit = [key for key in whole.servers if key not in rules.dark]
        most = [rules.tiers(key).max for key in lit]
        return not lit or any(name is None or ranks[name] >= ranks[tier.name] for name in most)

    def _tiers(self, whole: Whole, asked: Tier | None) -> dict[ServerKey, Tier | None]:
        """The tier that counts at each server: the one asked for, else that of policies, else the installation's; never
        a slower one than policies allow.
        """
        ground, rules = self._ground, self.rules
        plain = ground.default if asked is None else asked
        if not rules.tiered:
            return dict.fromkeys((key for key in whole.servers if key not in rules.dark), plain)
        known, ranks = ground.policies.tiers, ground.policies.ranks
        found: dict[ServerKey, Tier | None] = {}
        for key in whole.servers:
            if key in rules.dark:
                continue
            said, tier = rules.tiers(key), plain
            if asked is None and said.default is not None:
                tier = known[said.default]
            if said.max is not None and (tier is None or ranks[tier.name] > ranks[said.max]):
                tier = known[said.max]
            found[key] = tier
        return found

    def _view(self, target: bytes, whole: Whole, asked: Tier | None) -> Generator[None, None, View]:
        rules, ground = self.rules, self._ground
        tiers = self._tiers(whole, asked)
        sight = _Sight(rules, tiers, ground)
        items = iter(whole.tools.items())
        while some := tuple(islice(items, SLICE)):
            sight.look(some)
            yield
        yield from self._cut(whole, sight, self._before.get(target))
        plain = ground.targets[target]
        if sight.same and not sight.left_out and len(tiers) == len(whole.servers):
            return plain
        escaping = rules.escaping.intersection(whole.servers)
        hidden, everything, shown = sight.hidden, sight.everything, sight.definitions
        routes = everything
        if hidden:
            routes = {name: route for name, route in everything.items() if name not in hidden}
            yield
            shown = [whole.tools[name][2] for name in routes]
        yield
        if escaping:
            shown = yield from listed(
                bytes(escaped(definition)) if routes[name].escapes else definition
                for name, definition in zip(routes, shown, strict=True)
            )
        marks = [f"\0{key}" for key in escaping]  # which no tool is called
        listing = whole.listing(frozenset((*sight.left_out, *hidden, *marks)), shown)
        yield from listing.steps()
        self.weight += sight.weight + min(len(hidden), MOST_NAMED) * _A_NOTICE
        names = {tier.name if tier is not None else None for tier in tiers.values()}
        return View(
            plain.title,
            routes,
            listing,
            whole.server_info,
            partial(whole.instructions, routes, rules.dark, escaping),
            self._offers_of(whole),
            base=whole.target,
            tier=names.pop() if len(names) == 1 else None,
            hidden=hidden,
            everything=everything,
            pinned=frozenset(sight.pinned),
            denied=partial(_denied, rules, ground.policies, whole),
            escaping=escaping,
        )

    def _cut(self, whole: Whole, sight: _Sight, before: View | None) -> Generator[None, None, None]:
        """Take out of the list what is beyond the limits of a namespace's share."""
        for share in self.rules.shares.values():
            if share.max_tools is None and share.tool_tokens is None:
                continue
            shown = [
                (name, whole.tools[name][2], name in sight.pinned)
                for name, route in sight.everything.items()
                if route.server.key.namespace == share.namespace and name not in sight.hidden
            ]
            cut = yield from self._ground.cutter.cut(shown, share)
            for name, reason in cut.items():
                sight.hidden[name] = Hidden(reason, None, self._until(name, before), None)

    def _until(self, name: str, before: View | None) -> float:
        if before is None:
            return 0.0
        known = before.hidden.get(name)
        if known is not None:
            return known.callable_until
        return self._ground.now + GRACE_SECONDS if name in before.routes else 0.0

    def _offers_of(self, whole: Whole) -> Offers:
        dark, escaping = self.rules.dark, self.rules.escaping
        if not any(key in dark or key in escaping for key in whole.servers):
            return whole.offers
        found = self._offers.get(whole.target)
        if found is None:
            found = self._offers[whole.target] = whole.offers.without(dark, escaping)
        return found


def _denied(rules: RuleSet, policies: Policies, whole: Whole, name: str) -> str | None:
    """Why a tool is kept from a rule set, where that may be told."""
    held = whole.tools.get(name)
    if held is None or held[0] not in rules.unseen or not rules.explains(held[0][0]):
        return None
    key, tool = held[0]
    found = policies.verdict(key, tool, rules.key)
    return None if found is None else policies.sentence(found)


class _Sight:
    """The tools of a view in the making."""

    def __init__(self, rules: RuleSet, tiers: Mapping[ServerKey, Tier | None], ground: Ground) -> None:
        nothing: Mapping[ToolRef, Hidden] = {}
        self._rules = rules
        self._ground = ground
        self._constraints = rules.constraints
        self._shares = rules.shares
        self._hides = {key: nothing if tier is None else ground.hidden[tier.name] for key, tier in tiers.items()}
        self._seconds = {
            key: tier.call_timeout_ms / 1000 if tier is not None and tier.call_timeout_ms is not None else None
            for key, tier in tiers.items()
        }
        self.everything: dict[str, Route] = {}
        """Shown and hidden tools."""
        self.definitions: list[bytes] = []
        """Of these."""
        self.hidden: dict[str, Hidden] = {}
        self.pinned: list[str] = []
        self.left_out: list[str] = []
        """What policies do not allow."""
        self.weight = 0
        """Bytes, about."""
        self.same = not (rules.tiered or rules.shares or rules.constraints or rules.pinned or rules.escaping)
        """Whether every tool that is taken is as it is for whoever no policy speaks of."""
        self._as_it_is = self.same and not any(self._hides.values()) and not any(self._seconds.values())

    def look(self, some: Sequence[tuple[str, Tool]]) -> None:
        """Take of some tools, in the order of their names, those that the policies allow."""
        unseen = self._rules.unseen
        seen = [(name, tool) for name, tool in some if tool[0] not in unseen]
        if len(seen) < len(some):
            self.left_out += [name for name, tool in some if tool[0] in unseen]
        definitions = [tool[2] for _, tool in seen]
        self.definitions += definitions
        self.weight += sum(map(len, definitions)) + len(definitions) * _A_TOOL
        if self._as_it_is:
            self.everything.update((name, tool[1]) for name, tool in seen)
            return
        for name, (ref, route, _) in seen:
            self._take(name, ref, route)

    def _take(self, name: str, ref: ToolRef, route: Route) -> None:
        key = ref[0]
        seconds = self._seconds[key]
        if seconds is not None:
            route = route.within(seconds)
        if not self.same:
            constraint, share = self._constraints.get(ref), self._shares.get(key.namespace)
            escapes = key in self._rules.escaping
            if constraint is not None or share is not None or escapes:
                route = route.bounded(constraint, share, escapes=escapes)
            if ref in self._rules.pinned:
                self.pinned.append(name)
        self.everything[name] = route
        hidden = self._hides[key].get(ref)
        if hidden is not None:
            self.hidden[name] = self._attainable(key, hidden)

    def _attainable(self, key: ServerKey, hidden: Hidden) -> Hidden:
        """Nobody is told of a tier, or of an endpoint, that does not show it to them."""
        said, ranks = self._rules.tiers(key), self._ground.policies.ranks
        if said.default is None and said.max is None:
            return hidden
        beyond = said.max is not None and hidden.tier is not None and ranks[hidden.tier] > ranks[said.max]
        return msgspec.structs.replace(hidden, tier=None if beyond else hidden.tier, untiered=False)
