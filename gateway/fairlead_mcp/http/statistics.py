"""Statistics of a connection pool."""

from __future__ import annotations

import msgspec


class PoolStatistics(msgspec.Struct, frozen=True):
    """Current connections by state and waiting requests; `dialed` and `exchanges` count since the start."""

    busy: int
    idle: int
    dialing: int
    waiting: int
    dialed: int
    exchanges: int


class PoolActivity(msgspec.Struct, frozen=True):
    """Times of a server's last answers, in seconds of the pool's clock, to detect a server that hangs."""

    oldest: float
    """When the oldest unanswered call was sent; infinity without one."""
    answered_at: float
    """Time of the last answer; 0 without one."""
    overtaken: bool
    """Whether a later exchange was answered before the oldest unanswered call."""
    dialing: bool
    """Whether calls wait for a connection that is being opened."""
