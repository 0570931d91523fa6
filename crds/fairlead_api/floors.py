"""Tier floors. The floor of a tool is the fastest latency tier that may show the tool, whatever its measured latency.
No I/O.

Floors come from the McpServer (`spec.tools[].minTier`), from the tool's own definition (`fairlead.dev/min_tier`) and
from ToolPolicies (`rules[].minTier`). The slowest of them counts, so that no source can lower the floor of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol

import msgspec

from fairlead_api.documents.rules import Tier

BELOW_FLOOR: Final = "below_min_tier"
"""First word of the reason why a tier does not show a tool because of its floor."""
Source = Literal["mcpserver", "definition", "policy"]


class Floored(Protocol):
    """A tool of a catalog or a snapshot, with the floors that its McpServer and its definition name."""

    @property
    def min_tier(self) -> str | None: ...
    @property
    def authored_min_tier(self) -> str | None: ...


class Floor(msgspec.Struct, frozen=True):
    """The fastest tier that may show a tool."""

    tier: str
    limit_ms: float
    """Latency limit of that tier in milliseconds; infinite if the tier has no limit. Tiers with a lower limit do not
    show the tool."""
    source: Source
    tier_exists: bool = True
    """False if the tier does not exist; then only the slowest tiers show the tool."""

    def hides(self, tier: Tier) -> bool:
        """Whether the floor keeps the tool out of a tier."""
        return _limit_ms(tier) < self.limit_ms

    def reason(self, tier: Tier) -> str:
        """Reason why a tier does not show the tool because of the floor, in the format of `over_budget`."""
        unknown = "" if self.tier_exists else " unknown=min_tier"
        return f"{BELOW_FLOOR} min_tier={self.tier} tier={tier.max_latency_ms}ms by={self.source}{unknown}"


class Floors:
    """Resolves floors by the tiers of one installation."""

    def __init__(self, tiers: Iterable[Tier]) -> None:
        self._limits_ms = {tier.name: _limit_ms(tier) for tier in tiers}
        self._slowest_ms = max(self._limits_ms.values(), default=0.0)

    def floor(self, tier: str | None, source: Source) -> Floor | None:
        """The floor for the name of a tier; None without a name. If the tier does not exist, only the slowest tiers
        show the tool, because the name was meant as a bound. An unknown name in a tool's definition is ignored: the
        tool's author cannot know this installation's tiers.
        """
        if tier is None:
            return None
        limit_ms = self._limits_ms.get(tier)
        if limit_ms is not None:
            return Floor(tier, limit_ms, source)
        return None if source == "definition" else Floor(tier, self._slowest_ms, source, tier_exists=False)

    def of(self, tool: Floored) -> Floor | None:
        """The floor of a tool in a catalog: the slower of the McpServer's floor and the author's floor."""
        return slower(self.floor(tool.min_tier, "mcpserver"), self.floor(tool.authored_min_tier, "definition"))


def slower(floor: Floor | None, other: Floor | None) -> Floor | None:
    """The slower of two floors; the first if they are equal."""
    if floor is None or other is None:
        return floor or other
    return other if other.limit_ms > floor.limit_ms else floor


def _limit_ms(tier: Tier) -> float:
    return float("inf") if tier.max_latency_ms is None else float(tier.max_latency_ms)
