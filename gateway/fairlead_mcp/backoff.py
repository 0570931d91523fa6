"""When to try again: exponential delays with jitter. Pure; randomness is a parameter."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays in seconds: `base` doubled per failure in a row up to `cap`, each cut by up to a half at random.

    A life of at least `stable` seconds ends a row of failures.
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

    def after(self, lived: float) -> float:
        """The delay after a failure that ended a life of `lived` seconds (0: it never came up)."""
        if lived >= self.stable:
            self.failures = 0
        delay = min(self.cap, self.base * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return delay * (1.0 - self._random() / 2)
