"""Circuit breaker of one server: opens after consecutive failures, and tests recovery with a single trial call.

Pure module. Only transport failures count, because any answer proves that the server is alive: an error result, a
JSON-RPC error, even an HTTP 500. Timeouts of a single tool do not open the breaker by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.ports import CLOSED, HALF_OPEN, OPEN
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, Timeout
from fairlead_mcp.wording import without_address

MAX_FAILURES: Final = 5
"""Consecutive failures, without any answer of the server, that open the breaker."""
FIRST_SECONDS: Final = 1.0
"""Time that the breaker is open before its first trial."""
MAX_SECONDS: Final = 30.0
"""Longest time between trials. The time doubles after each failed trial. A random part of up to a fifth is subtracted
from it.
"""

_GATEWAY_REASONS: Final = frozenset({"Closed", "NotCallable"})
"""Reasons of failures caused by the gateway itself."""


def counts_as_failure(error: Exception) -> bool:
    """Whether an error is a transport failure of the server."""
    if isinstance(error, Timeout | ConnectionLost):
        return not isinstance(error, Timeout) or error.sent
    return isinstance(error, ConnectFailed) and error.reason not in _GATEWAY_REASONS


class Breaker:
    """State of a circuit breaker: closed, open or half-open.

    Times are in seconds of one clock. `random` returns values in [0, 1).
    """

    __slots__ = (
        "_failures",
        "_last_reason",
        "_next_trial_at",
        "_open_for",
        "_random",
        "_timed_out_tools",
        "_transport_failures",
        "_trial_in_progress",
        "closed",
        "has_failures",
        "opened_total",
    )

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.closed = True
        """Whether all calls are admitted."""
        self.has_failures = False
        """Whether the breaker is not closed, or has counted failures, so that the next success has to be recorded."""
        self.opened_total = 0
        """Number of times that the breaker has opened."""
        self._failures = 0
        self._transport_failures = 0
        """Failures other than timeouts of a tool."""
        self._timed_out_tools: set[str] = set()
        """Up to MAX_FAILURES tools whose timeouts were counted."""
        self._last_reason = ""
        self._open_for = 0.0
        """Seconds for which the breaker has last opened, before the random part is subtracted; 0 while closed."""
        self._next_trial_at = 0.0
        """Time of the next trial, while the breaker is not closed."""
        self._trial_in_progress = False
        """Whether a trial call is in progress."""

    def state(self, now: float) -> str:
        if self.closed:
            return CLOSED
        return OPEN if now < self._next_trial_at else HALF_OPEN

    def try_now(self, now: float) -> bool:
        """Whether a trial call may be made now, while the breaker is not closed.

        After True, the trial has to be made, and ended by `record_success`, `record_failure` or `give_up`.
        """
        if self._trial_in_progress or now < self._next_trial_at:
            return False
        self._trial_in_progress = True
        return True

    def wait(self, now: float) -> float:
        """Seconds after which a refused call should be retried."""
        return max(self._next_trial_at - now, FIRST_SECONDS / 4)

    def describe_failures(self) -> str:
        return f"{self._failures} calls failed in a row, the last because {self._last_reason}"

    @property
    def undecided(self) -> bool:
        """Whether enough calls have failed to open the breaker, but one slow tool may be the only cause."""
        return (
            self.closed
            and self._failures >= MAX_FAILURES > self._transport_failures
            and len(self._timed_out_tools) == 1
        )

    def record_success(self) -> None:
        """Record an answer of the server, and close the breaker."""
        self._failures = self._transport_failures = 0
        self._timed_out_tools.clear()
        self._open_for = 0.0
        self._trial_in_progress = False
        self.closed = True
        self.has_failures = False

    def record_failure(self, now: float, error: Exception, *, trial: bool, tool: str = "") -> bool:
        """Count a failure for which `counts_as_failure` is true; True if the breaker opens.

        `tool` is the tool that timed out; empty if the server itself failed.
        """
        if not self.closed and not trial:
            return False  # a call that was sent before the breaker opened
        self.has_failures = True
        self._failures += 1
        if not tool:
            self._transport_failures += 1
        elif len(self._timed_out_tools) < MAX_FAILURES:
            self._timed_out_tools.add(tool)
        self._last_reason = without_address(error)
        self._trial_in_progress = False
        if self.closed and (self._failures < MAX_FAILURES or self.undecided):
            return False
        return self._open_breaker(now)

    def record_silence(self, now: float, *, trial: bool) -> bool:
        """Record a failed ping; True if the breaker opens."""
        if not self.closed and not trial:
            return False
        self._last_reason += ", and the server did not answer a ping either"
        self._trial_in_progress = False
        return self._open_breaker(now)

    def _open_breaker(self, now: float) -> bool:
        self._open_for = min(self._open_for * 2, MAX_SECONDS) if self._open_for else FIRST_SECONDS
        self._next_trial_at = now + self._open_for * (1.0 - self._random() / 5)
        self.opened_total += self.closed
        self.closed = False
        return True

    def give_up(self) -> None:
        """End a trial without an outcome; the next call is a trial again."""
        self._trial_in_progress = False
