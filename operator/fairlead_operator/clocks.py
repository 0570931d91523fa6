"""Clocks and random number generator that the components of one operator share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Wall clock, monotonic clock and random number generator; tests replace them."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """Wall-clock time, with a time zone."""
    monotonic: Callable[[], float] = time.monotonic
    """Monotonic time in seconds."""
    rng: random.Random = field(default_factory=random.Random)
    """Source of jitter."""
