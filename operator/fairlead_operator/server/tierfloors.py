"""Checks whether the tiers that McpServers name as `spec.tools[].minTier` exist. Does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict

_MAX_NAMES: Final = 5
"""Maximum number of tools in a message."""


class TierFloors:
    """The tiers that each server names as `minTier`. `on_change(key)` is called for each server whose verdict may have
    changed.
    """

    def __init__(self, on_change: Callable[[ServerKey], None]) -> None:
        self._on_change = on_change
        self._tiers: frozenset[str] | None = None
        """Existing tiers; None before they are known."""
        self._named_tiers: dict[ServerKey, frozenset[str]] = {}
        """Tiers that each server names."""

    def take_tiers(self, tiers: Collection[str]) -> None:
        """Replace the set of existing tiers."""
        old_tiers, self._tiers = self._tiers, frozenset(tiers)
        for key, named_tiers in self._named_tiers.items():
            if old_tiers is None or named_tiers & (old_tiers ^ self._tiers):
                self._on_change(key)

    def forget(self, key: ServerKey) -> None:
        """Forget a deleted server."""
        self._named_tiers.pop(key, None)

    def verdict(self, server: McpServer) -> ConditionVerdict | None:
        """Verdict PartiallyInvalid of a server that names tiers which do not exist; None if all tiers exist."""
        floors = {tool.name: tool.min_tier for tool in server.spec.tools if tool.min_tier is not None}
        if floors:
            self._named_tiers[server.key] = frozenset(floors.values())
        else:
            self.forget(server.key)
        affected_tools = sorted(
            name for name, tier in floors.items() if self._tiers is not None and tier not in self._tiers
        )
        if not affected_tools:
            return None
        examples = ", ".join(f"{name}: {floors[name]}" for name in affected_tools[:_MAX_NAMES])
        more = f" and {len(affected_tools) - _MAX_NAMES} more" if len(affected_tools) > _MAX_NAMES else ""
        tier_names = ", ".join(sorted(self._tiers or ())) or "none"
        message = (
            f"spec.tools[].minTier names LatencyTiers that do not exist ({examples}{more}), so only the slowest tier "
            f"shows these tools; existing tiers: {tier_names}"
        )
        return ConditionVerdict(True, Cause.UNKNOWN_TIER, message)
