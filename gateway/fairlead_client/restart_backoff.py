"""Delays restarts of a server's process that failed, and refuses starts before. Pure module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, McpError

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0


class RestartDelayed(ConnectFailed):
    """A process that failed, and is not started again yet. `retry_after` is in seconds."""

    def __init__(self, failure: McpError, failures: int, retry_after: float) -> None:
        times = "once" if failures == 1 else f"{failures} times in a row"
        super().__init__(
            f"{failure} (it failed {times}; the next use after {max(1, round(retry_after))} s starts it again, "
            "refresh_cache() at once)",
            reason=failure.reason,
        )
        self.retry_after = retry_after


class RestartBackoff:
    """Failures in a row of one process, and the growing delays between its starts. A life of `Backoff.stable` seconds
    ends the row; the first process of a row that ends after a successful start is replaced at once.
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(random, base=FIRST_SECONDS, cap=LONGEST_SECONDS)
        self._failure: McpError | None = None
        self._due = float("-inf")
        self._began = float("-inf")

    def up(self) -> None:
        """The process was started and negotiated with."""
        self._began = self._clock()
        self._failure = None

    def note_failure(self, error: McpError) -> None:
        """It could not be started, or did not list its tools. The same error counts once."""
        self._count_failure(error, 0.0)

    def note_loss(self, error: McpError) -> None:
        """It ended after a successful start."""
        lived = self._clock() - self._began
        first = lived >= self._backoff.stable or self._backoff.failures == 0
        self._count_failure(error, lived)
        if first:
            self._due = float("-inf")

    def forget(self) -> None:
        """The next use starts it, whatever happened."""
        self._due = float("-inf")

    @property
    def refusal(self) -> RestartDelayed | None:
        """Error for a caller who needs the process now; None where it may be started."""
        left = self._due - self._clock()
        if self._failure is None or left <= 0:
            return None
        return RestartDelayed(self._failure, self._backoff.failures, left)

    def _count_failure(self, error: McpError, lived: float) -> None:
        if error is not self._failure:
            self._failure = error
            self._due = self._clock() + self._backoff.after(lived)
