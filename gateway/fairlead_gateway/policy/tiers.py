"""Which tools a latency tier shows, and how long one that it no longer shows may still be called.

Pure module. The operator decides by what was measured and publishes the decision; here it is read, the same way for
every list, format and call. A tool of which nothing was decided yet goes by what is declared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor, Floors
from fairlead_api.slices import SLICE
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Tool, ToolRef

GRACE_SECONDS: Final = 60.0
"""A list lives for its `ttlMs` (30 s) at a client; what has left it stays callable for longer than that."""


class Hidden(msgspec.Struct, frozen=True):
    """A tool that a tier, or a limit on lists, does not show."""

    reason: str
    """As the operator gave it, such as `over_budget p95=812ms tier=500ms`."""
    tier: str | None
    """The fastest tier that shows it; None where none does."""
    callable_until: float
    """Seconds of the gateway's clock: up to then calls from lists that still show it are made."""
    by: str | None = None
    """The tier that does not show it; None: a policy's limit on lists."""
    untiered: bool = False
    """Whether the endpoint shows it where no tier is named."""


def by_speed(tiers: tuple[Tier, ...]) -> list[Tier]:
    """The fastest first; those without a limit last."""
    return sorted(tiers, key=lambda tier: (tier.max_latency_ms or float("inf"), tier.name))


def fastest_limit(tiers: Iterable[Tier]) -> float:
    """Milliseconds: what takes longer is late in some tier."""
    return min((tier.max_latency_ms for tier in tiers if tier.max_latency_ms is not None), default=float("inf"))


def default_tier(tiers: tuple[Tier, ...]) -> Tier | None:
    """The tier that the installation names for clients which name none. None: they see every tool."""
    return next((tier for tier in tiers if tier.default), None)


def in_tier(target: bytes, tier: str) -> bytes:
    """Target of the endpoint that shows of `target` the tools of one tier."""
    return b"%b/%b" % (target, quote(tier, safe="").encode())


def why_hidden(tier: Tier, tool: Tool, state: ToolState | None, floor: Floor | None) -> str | None:
    """Why the tier does not show the tool; None: it does. `floor`: the slowest that holds for it."""
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
    """The tools that a tier does not show. `before` are those that it did not show until now: they keep their time."""
    hidden: dict[ToolRef, Hidden] = {}
    ordered, untiered = by_speed(snapshot.rules.tiers), default_tier(snapshot.rules.tiers) is None
    floors = Floors(snapshot.rules.tiers)
    for key, server in snapshot.servers.items():
        states = snapshot.states.get(key, {})
        for number, tool in enumerate(server.tools):
            if number % SLICE == SLICE - 1:
                yield
            state, floor = states.get(tool.name), floors.of(tool)
            reason = why_hidden(tier, tool, state, floor)
            if reason is not None:
                holder = next((other.name for other in ordered if why_hidden(other, tool, state, floor) is None), None)
                hidden_before = before.get(tool.ref)
                until = now + GRACE_SECONDS if hidden_before is None else hidden_before.callable_until
                hidden[tool.ref] = Hidden(reason, holder, until, tier.name, untiered)
        yield
    return hidden
