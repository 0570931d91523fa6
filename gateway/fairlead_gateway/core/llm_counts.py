"""Counters of the LLM endpoints. Pure module."""

from __future__ import annotations


class LlmCounts:
    """Counters of one gateway since its start."""

    def __init__(self) -> None:
        self.tier_changes: dict[str, int] = {}
        """Turns with another tier than the previous turn, by the new tier."""

    def count_tier_change(self, tier: str) -> None:
        """Count a turn whose tier differs from the tier of the previous turn; `tier` is the new one."""
        self.tier_changes[tier] = self.tier_changes.get(tier, 0) + 1
