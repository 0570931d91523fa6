"""Computes delays before restarts of a failed server process. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, McpError

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0


class RestartDelayed(ConnectFailed):
    """A failed process is not restarted yet. `retry_after` is in seconds."""

    def __init__(self, failure: McpError, failures: int, retry_after: float) -> None:
        times = "once" if failures == 1 else f"{failures} times in a row"
        super().__init__(
            f"{failure} (the server failed {times}; the first use after {max(1, round(retry_after))} s restarts it, "
            "and refresh_cache() restarts it now)",
            reason=failure.reason,
        )
        self.retry_after = retry_after


class RestartBackoff:
    """Counts consecutive failures of one server's process, and computes growing delays between its starts. The count is
    reset when the process ends after it ran for at least `Backoff.stable` seconds. A process that ends after a
    successful start is restarted at once if the count was 0.
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(random, base=FIRST_SECONDS, cap=LONGEST_SECONDS)
        self._failure: McpError | None = None
        self._restart_at = float("-inf")
        self._began = float("-inf")

    def note_start(self) -> None:
        """Record a successful start and handshake."""
        self._began = self._clock()
        self._failure = None

    def note_failure(self, error: McpError) -> None:
        """Record that the process could not be started, or could not list its tools. If several callers of one attempt
        record the same error, it counts once.
        """
        self._count_failure(error, 0.0)

    def note_loss(self, error: McpError) -> None:
        """Record that the process ended after a successful start."""
        lifetime = self._clock() - self._began
        is_first = lifetime >= self._backoff.stable or self._backoff.failures == 0
        self._count_failure(error, lifetime)
        if is_first:
            self._restart_at = float("-inf")

    def end_delay(self) -> None:
        """End the delay, so that the next use starts the process."""
        self._restart_at = float("-inf")

    @property
    def refusal(self) -> RestartDelayed | None:
        """Error for a caller that needs the process during a delay; None if the process may be started."""
        remaining = self._restart_at - self._clock()
        if self._failure is None or remaining <= 0:
            return None
        return RestartDelayed(self._failure, self._backoff.failures, remaining)

    def _count_failure(self, error: McpError, lifetime: float) -> None:
        if error is not self._failure:
            self._failure = error
            self._restart_at = self._clock() + self._backoff.delay_after(lifetime)
