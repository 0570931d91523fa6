"""Clocks, and the source of chance, that the parts of one operator share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Time of day, monotonic time, and by how much waits differ from each other."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """Time of day."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds."""
    rng: random.Random = field(default_factory=random.Random)
    """For jitter."""
