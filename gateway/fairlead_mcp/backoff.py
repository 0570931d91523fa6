"""Exponential back-off with jitter. No I/O; randomness is a parameter."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays in seconds: `base`, doubled with each consecutive failure up to `cap`, less a random part of up to a half.

    A connection that lasted `stable` seconds resets the delay to `base`.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        base: float = 0.5,
        cap: float = 60.0,
        stable: float = 10.0,
    ) -> None:
        self.base = base
        self.cap = cap
        self.stable = stable
        self.failures = 0
        self._random = random

    def delay_after(self, lifetime: float) -> float:
        """Return the delay after the failure of a connection that lasted `lifetime` seconds (0 if it never opened)."""
        if lifetime >= self.stable:
            self.failures = 0
        delay = min(self.cap, self.base * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return delay * (1.0 - self._random() / 2)
