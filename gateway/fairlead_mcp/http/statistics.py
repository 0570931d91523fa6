"""Statistics of a pool, for metrics and for messages. Declarations only."""

from __future__ import annotations

import msgspec


class PoolStatistics(msgspec.Struct, frozen=True):
    """A pool at one moment: connections by state, waiting requests, and counts since its start."""

    busy: int
    idle: int
    dialing: int
    waiting: int
    dialed: int
    exchanges: int


class PoolActivity(msgspec.Struct, frozen=True):
    """Signs of life of the other side at one moment, in seconds of the pool's clock."""

    oldest: float
    """When the call that waits longest was sent; infinity where none waits."""
    answered_at: float
    """Last answer; 0 for none."""
    overtaken: bool
    """Whether an exchange that began after the oldest call was answered before it."""
    dialing: bool
    """Whether calls wait for a connection."""
