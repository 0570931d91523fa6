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


def quantiles_differ(published: ToolState | None, new_quantiles: Quantiles | None) -> bool:
    """Whether a quantile of one tool changed by more than a tenth."""
    old_quantiles = published.quantiles if published is not None else None
    if old_quantiles is None or new_quantiles is None:
        return old_quantiles is not new_quantiles
    pairs = (
        (old_quantiles.p50_ms, new_quantiles.p50_ms),
        (old_quantiles.p90_ms, new_quantiles.p90_ms),
        (old_quantiles.p95_ms, new_quantiles.p95_ms),
        (old_quantiles.p99_ms, new_quantiles.p99_ms),
    )
    return any(_has_moved(old, new) for old, new in pairs)


def should_publish(published: ToolState | None, new_quantiles: Quantiles | None, measured_at: str = "") -> bool:
    """Whether the quantiles of one tool should be published again.

    That is the case if they changed, are from `GROWTH_FACTOR` times as many samples, or were `measured_at` (RFC 3339)
    in a later hour.
    """
    old_quantiles = published.quantiles if published is not None else None
    has_grown = (
        old_quantiles is not None
        and new_quantiles is not None
        and new_quantiles.samples >= GROWTH_FACTOR * old_quantiles.samples
    )
    is_outdated = published is not None and measured_at[:HOUR_LENGTH] > published.measured_at[:HOUR_LENGTH]
    return has_grown or is_outdated or quantiles_differ(published, new_quantiles)


def round_trips_differ(published: Mapping[str, float], new_round_trips: Mapping[str, float]) -> bool:
    """Whether a round trip of one server, by environment, changed by more than a tenth."""
    return any(name not in published or _has_moved(published[name], value) for name, value in new_round_trips.items())


def _has_moved(old_ms: float, new_ms: float) -> bool:
    """Whether a figure in milliseconds changed by more than `CHANGE_SHARE`."""
    return abs(new_ms - old_ms) > CHANGE_SHARE * max(old_ms, 0.1)
