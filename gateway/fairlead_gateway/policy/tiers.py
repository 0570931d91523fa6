"""Decides which tools a latency tier hides, and how long a hidden tool can still be called.

Pure module. The operator decides by measurements and publishes its decisions. This module applies them to all lists,
formats and calls. A tool without a decision is shown or hidden by its declared duration.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor, Floors
from fairlead_api.slices import SLICE
from fairlead_gateway.core.server import Tool, ToolRef

if TYPE_CHECKING:
    from fairlead_gateway.catalog.model import Snapshot  # commands read notices of hidden tools, and need no catalog

GRACE_SECONDS: Final = 60.0
"""Seconds for which a tool stays callable after it was hidden. This is longer than clients cache a list (`ttlMs`, 30
s)."""


class Hidden(msgspec.Struct, frozen=True):
    """Why a tier or a limit on lists hides a tool."""

    reason: str
    """Reason from the operator, such as `over_budget p95=812ms tier=500ms`."""
    tier: str | None
    """The fastest tier that shows the tool; None if no tier shows it."""
    callable_until: float
    """End of the grace period in which the tool can still be called, in seconds of the gateway's clock."""
    hiding_tier: str | None = None
    """The tier that hides the tool; None if a policy's limit on lists hides it."""
    untiered: bool = False
    """Whether the endpoint without a tier shows the tool."""
    policy: str | None = None
    """The policy whose limit on lists hides the tool; None if a tier hides it."""

    def is_refused(self, now: float) -> bool:
        """Whether calls are refused at the endpoints of all tiers. `now` is the time of the gateway's clock."""
        return now >= self.callable_until and self.tier is None and not self.untiered


def by_speed(tiers: tuple[Tier, ...]) -> list[Tier]:
    """Sort tiers, fastest first; tiers without a limit are last."""
    return sorted(tiers, key=lambda tier: (tier.max_latency_ms or float("inf"), tier.name))


def fastest_limit(tiers: Iterable[Tier]) -> float:
    """The smallest limit of all tiers in milliseconds; infinite if no tier has a limit."""
    return min((tier.max_latency_ms for tier in tiers if tier.max_latency_ms is not None), default=float("inf"))


def default_tier(tiers: tuple[Tier, ...]) -> Tier | None:
    """The installation's tier for requests without a tier; if None, such requests see every tool."""
    return next((tier for tier in tiers if tier.default), None)


def in_tier(target: bytes, tier: str) -> bytes:
    """Request target for one tier of an endpoint."""
    return b"%b/%b" % (target, quote(tier, safe="").encode())


def why_hidden(tier: Tier, tool: Tool, state: ToolState | None, floor: Floor | None) -> str | None:
    """Why a tier hides a tool; None if the tier shows it. `floor` is the fastest tier that may show the tool."""
    if floor is not None and floor.hides(tier):
        return floor.reason(tier)
    if state is not None and state.tiers is not None:
        if tier.name in state.tiers:
            return None
        if tier.name in state.hidden:
            return state.hidden[tier.name]
    estimated_ms, limit_ms = tool.estimated_duration_ms, tier.max_latency_ms
    if limit_ms is None or tier.admits_unmeasured(estimated_ms, untrusted=tool.estimate_untrusted):
        return None
    if tier.excludes(estimated_ms):
        return f"over_budget estimated={estimated_ms}ms tier={limit_ms}ms by=declared"
    return f"unmeasured tier={limit_ms}ms"


def hide_in_slices(
    tier: Tier, snapshot: Snapshot, before: Mapping[ToolRef, Hidden], now: float
) -> Generator[None, None, dict[ToolRef, Hidden]]:
    """Find the tools that a tier hides. `before` has the tools that were hidden already; their grace periods end as
    before.
    """
    hidden: dict[ToolRef, Hidden] = {}
    tiers, untiered = by_speed(snapshot.rules.tiers), default_tier(snapshot.rules.tiers) is None
    floors = Floors(snapshot.rules.tiers)
    for key, server in snapshot.servers.items():
        states = snapshot.states.get(key, {})
        for number, tool in enumerate(server.tools):
            if number % SLICE == SLICE - 1:
                yield
            state, floor = states.get(tool.name), floors.of(tool)
            reason = why_hidden(tier, tool, state, floor)
            if reason is not None:
                fastest = next((other.name for other in tiers if why_hidden(other, tool, state, floor) is None), None)
                previous = before.get(tool.ref)
                callable_until = now + GRACE_SECONDS if previous is None else previous.callable_until
                hidden[tool.ref] = Hidden(reason, fastest, callable_until, tier.name, untiered)
        yield
    return hidden
