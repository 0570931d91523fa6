"""Whether published figures are worth writing again: what moved by more than a tenth is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_api.documents.state import Quantiles, ToolState

MOVED: Final = 0.1
"""Share by which a figure has to move to be worth a document."""
GROWN: Final = 4
"""Times the calls behind figures that make them worth a document although they stayed: an operator that restarts
goes on from what was published.
"""
HOUR: Final = len("2026-01-31T09")
"""Characters of a time up to its hour: how old figures are is published that often."""


def quantiles_differ(published: ToolState | None, now: Quantiles | None) -> bool:
    """Whether the quantiles of one tool moved."""
    before = published.quantiles if published is not None else None
    if before is None or now is None:
        return before is not now
    pairs = (
        (before.p50_ms, now.p50_ms),
        (before.p90_ms, now.p90_ms),
        (before.p95_ms, now.p95_ms),
        (before.p99_ms, now.p99_ms),
    )
    return any(_has_moved(old, new) for old, new in pairs)


def worth_a_document(published: ToolState | None, now: Quantiles | None, measured_at: str = "") -> bool:
    """Whether the quantiles of one tool moved, far more calls stand behind them, or they were `measured_at` (RFC 3339)
    in a later hour than was published.
    """
    before = published.quantiles if published is not None else None
    grown = before is not None and now is not None and now.samples >= GROWN * before.samples
    aged = published is not None and measured_at[:HOUR] > published.measured_at[:HOUR]
    return grown or aged or quantiles_differ(published, now)


def round_trips_differ(published: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Whether the round trips of one server moved, by environment."""
    return any(name not in published or _has_moved(published[name], value) for name, value in now.items())


def _has_moved(old: float, new: float) -> bool:
    return abs(new - old) > MOVED * max(old, 0.1)
