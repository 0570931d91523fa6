"""Counts of the endpoints in front of models. Pure module."""

from __future__ import annotations


class LlmCounts:
    """Counts of one gateway since its start."""

    def __init__(self) -> None:
        self.tier_changes: dict[str, int] = {}
        """Turns for which the rules chose another tier than for the turn before, by the tier that they chose."""

    def count_tier_change(self, tier: str) -> None:
        """Count a turn with another tier than the one before; `tier` is one of the installation's."""
        self.tier_changes[tier] = self.tier_changes.get(tier, 0) + 1
