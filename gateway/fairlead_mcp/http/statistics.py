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
