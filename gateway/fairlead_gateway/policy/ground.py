"""What is the same for all askers of one snapshot: endpoints, tiers, policies. Made in slices, once per snapshot.

Pure module. `policy.selection` looks into it for whoever no policy speaks of, `policy.perspective` narrows it for
all others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import Server, Snapshot, Tool, ToolRef
from fairlead_gateway.policy.annotated import annotated
from fairlead_gateway.policy.cut import Cutter
from fairlead_gateway.policy.reach import Reach
from fairlead_gateway.policy.route import Route
from fairlead_gateway.policy.rules import Policies, compiling
from fairlead_gateway.policy.tiers import Hidden, default_tier, hidden_in, in_tier
from fairlead_gateway.policy.view import View
from fairlead_gateway.policy.whole import Whole, merged, of_server, plain

Origins = Mapping[bytes, tuple[Whole, Tier | None]]
"""Request target to endpoint and the tier that it names. The first is that of all servers."""
Hides = Mapping[str, Mapping[ToolRef, Hidden]]
"""What each tier does not show."""
Bind = Callable[[Reach, Tool], Route]


class Ground(msgspec.Struct, frozen=True):
    """See the module."""

    policies: Policies
    origins: Origins
    targets: Mapping[bytes, View]
    """The views of whoever no policy speaks of."""
    hidden: Hides
    default: Tier | None
    """The installation's; None: who names no tier sees every tool."""
    cutter: Cutter
    now: float
    """The gateway's clock, seconds, when it was made."""


def grounding(
    snapshot: Snapshot,
    routes: Mapping[ServerKey, Mapping[str, Route]],
    reaches: Mapping[ServerKey, Reach],
    before: Ground | None = None,
    *,
    now: float = 0.0,
    figures: bool = False,
) -> Generator[None, None, Ground]:
    """The ground of a snapshot, which takes the place of another. `figures`: lists have what is known of each tool's
    speed.
    """

    def with_figures(definition: bytes, server: Server, tool: Tool) -> bytes:
        return annotated(definition, tool, snapshot.states.get(server.key, {}).get(tool.name))

    show, tiers = with_figures if figures else plain, snapshot.rules.tiers
    known: Hides = before.hidden if before is not None else {}
    hidden: dict[str, Mapping[ToolRef, Hidden]] = {}
    for tier in tiers:
        hidden[tier.name] = yield from hidden_in(tier, snapshot, known.get(tier.name, {}), now)
    wholes = [(yield from merged(snapshot, routes, reaches, show))]
    for key, server in snapshot.servers.items():
        wholes.append((yield from of_server(server, routes[key], reaches.get(key), show)))
    default = default_tier(tiers)
    origins: dict[bytes, tuple[Whole, Tier | None]] = {}
    targets: dict[bytes, View] = {}
    for whole in wholes:
        # the endpoint itself, of every tool or in the default tier, and one below it for each tier
        origins[whole.target] = whole, None
        shown = whole.viewing() if default is None else whole.viewing(default, hidden[default.name])
        targets[whole.target] = yield from shown
        for tier in tiers:
            target = in_tier(whole.target, tier.name)
            origins[target] = whole, tier
            targets[target] = yield from whole.viewing(tier, hidden[tier.name], below=True)
        yield
    policies = yield from compiling(snapshot, before.policies if before is not None else None)
    cutter = before.cutter if before is not None else Cutter()
    return Ground(policies, origins, targets, hidden, default, cutter, now)


def binding(
    reaches: Mapping[ServerKey, Reach],
    bind: Bind,
    before: Mapping[ServerKey, Mapping[str, Route]] = MappingProxyType({}),
) -> Generator[None, None, dict[ServerKey, Mapping[str, Route]]]:
    """Routes of every server; those of a server that did not change are taken over from `before` while they lead to the
    same upstream.
    """
    bound: dict[ServerKey, Mapping[str, Route]] = {}
    for key, reach in reaches.items():
        server, kept = reach.server, before.get(key)
        first = kept.get(server.tools[0].name) if kept and server.tools else None
        if kept and first is not None and first.server is server and first.reach.upstream is reach.upstream:
            bound[key] = kept
            yield
            continue
        routes = {}
        for tool in server.tools:
            routes[tool.name] = bind(reach, tool)
            yield
        bound[key] = routes
    return bound
