"""Decides whether measured figures have changed enough to be published again: by more than a tenth. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_api.documents.state import Quantiles, ToolState

CHANGE_SHARE: Final = 0.1
"""Relative change from which a figure is published again."""
GROWTH_FACTOR: Final = 4
"""Factor by which the number of samples has to grow for unchanged figures to be published again, because a restarted
operator continues from the published number.
"""
HOUR_LENGTH: Final = len("2026-01-31T09")
"""Length of an RFC 3339 time up to its hour, because the age of figures is published hourly."""


def quantiles_differ(published: ToolState | None, now: Quantiles | None) -> bool:
    """Whether a quantile of one tool changed by more than a tenth."""
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


def should_publish(published: ToolState | None, now: Quantiles | None, measured_at: str = "") -> bool:
    """Whether the quantiles of one tool should be published again.

    That is the case if they changed, are from `GROWTH_FACTOR` times as many samples, or were `measured_at` (RFC 3339)
    in a later hour.
    """
    before = published.quantiles if published is not None else None
    grown = before is not None and now is not None and now.samples >= GROWTH_FACTOR * before.samples
    aged = published is not None and measured_at[:HOUR_LENGTH] > published.measured_at[:HOUR_LENGTH]
    return grown or aged or quantiles_differ(published, now)


def round_trips_differ(published: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Whether a round trip of one server, by environment, changed by more than a tenth."""
    return any(name not in published or _has_moved(published[name], value) for name, value in now.items())


def _has_moved(old: float, new: float) -> bool:
    """Whether a figure in milliseconds changed by more than `CHANGE_SHARE`."""
    return abs(new - old) > CHANGE_SHARE * max(old, 0.1)
