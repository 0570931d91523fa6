"""Whether a server is worth being called: opens when nothing but failures came of it, tries again by one call.

Pure module, part of `upstream.guard`. Only failures of transport count, for any answer proves that the server lives:
an error result, a JSON-RPC error, even an HTTP 500.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_mcp.errors import ConnectFailed, ConnectionLost, Timeout

FAILURES: Final = 5
"""In a row, without an answer to anybody, before it opens."""
FIRST_SECONDS: Final = 1.0
MAX_SECONDS: Final = 30.0
"""Between two trials: doubled after each that failed, and cut by up to a fifth at random."""

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"
STATES: Final = (CLOSED, HALF_OPEN, OPEN)

_NOT_THE_SERVERS: Final = frozenset({"Closed", "NotCallable"})
"""Reasons of failures that are the gateway's own."""


def counts(error: Exception) -> bool:
    """Whether an error is one of transport, and the server's."""
    if isinstance(error, Timeout | ConnectionLost):
        return not isinstance(error, Timeout) or error.sent
    return isinstance(error, ConnectFailed) and error.reason not in _NOT_THE_SERVERS


class Breaker:
    """See the module. Times are in seconds, of whatever clock the caller has; `random` gives [0, 1)."""

    __slots__ = ("_failures", "_last", "_open_for", "_random", "_trial", "_until", "closed", "opened",
                 "troubled")  # fmt: skip

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.closed = True
        """Whether calls simply go through."""
        self.troubled = False
        """Whether an answer makes a difference: it is not closed, or remembers a failure."""
        self.opened = 0
        """Times that it opened."""
        self._failures = 0
        self._last = ""
        self._open_for = 0.0
        self._until = 0.0
        self._trial = False

    def state(self, now: float) -> str:
        if self.closed:
            return CLOSED
        return OPEN if now < self._until else HALF_OPEN

    def try_now(self, now: float) -> bool:
        """Of one that is not closed: whether a call may be made, as a trial. Whoever gets True makes it, and tells
        `succeeded`, `failed` or `given_up`.
        """
        if self._trial or now < self._until:
            return False
        self._trial = True
        return True

    def wait(self, now: float) -> float:
        """Seconds until it makes sense to ask again."""
        return max(self._until - now, FIRST_SECONDS / 4)

    def why(self) -> str:
        return f"{self._failures} calls failed in a row, the last because {self._last}"

    def succeeded(self) -> None:
        """The server answered."""
        self._failures = 0
        self._open_for = 0.0
        self._trial = False
        self.closed = True
        self.troubled = False

    def failed(self, now: float, error: Exception, *, trial: bool) -> bool:
        """A call failed that `counts`; True where it opens with that."""
        if not self.closed and not trial:
            return False  # a straggler of before
        self.troubled = True
        self._failures += 1
        self._last = str(error)
        self._trial = False
        if self.closed and self._failures < FAILURES:
            return False
        self._open_for = min(self._open_for * 2, MAX_SECONDS) if self._open_for else FIRST_SECONDS
        self._until = now + self._open_for * (1.0 - self._random() / 5)
        self.opened += self.closed
        self.closed = False
        return True

    def given_up(self) -> None:
        """The trial ended without telling anything: the next call is one."""
        self._trial = False
