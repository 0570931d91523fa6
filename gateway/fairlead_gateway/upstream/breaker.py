"""Circuit breaker of one server: opens after failures without an answer between them, and tries again by one call.

Pure module. Only failures of transport count, for any answer proves that the server lives:
an error result, a JSON-RPC error, even an HTTP 500. Time-outs of one tool alone are that tool's failures and open
nothing by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.ports import CLOSED, HALF_OPEN, OPEN
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, Timeout
from fairlead_mcp.wording import without_address

FAILURES: Final = 5
"""In a row, without an answer to anybody, before it opens."""
FIRST_SECONDS: Final = 1.0
MAX_SECONDS: Final = 30.0
"""Between two trials: doubled after each that failed, and cut by up to a fifth at random."""

_NOT_THE_SERVERS: Final = frozenset({"Closed", "NotCallable"})
"""Reasons of failures that are the gateway's own."""


def counts(error: Exception) -> bool:
    """Whether an error is one of transport, and the server's."""
    if isinstance(error, Timeout | ConnectionLost):
        return not isinstance(error, Timeout) or error.sent
    return isinstance(error, ConnectFailed) and error.reason not in _NOT_THE_SERVERS


class Breaker:
    """Closed, open or half-open by the outcomes of calls. Times are seconds of one clock; `random` gives [0, 1)."""

    __slots__ = (
        "_failures",
        "_last",
        "_late",
        "_open_for",
        "_others",
        "_random",
        "_trial",
        "_until",
        "closed",
        "opened",
        "troubled",
    )

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.closed = True
        """Whether calls simply go through."""
        self.troubled = False
        """Whether an answer changes its state: it is not closed, or remembers a failure."""
        self.opened = 0
        """Times that it opened."""
        self._failures = 0
        self._others = 0
        """Failures other than time-outs of a tool."""
        self._late: set[str] = set()
        """Tools that the other failures are time-outs of; not all of them where there are many."""
        self._last = ""
        self._open_for = 0.0
        self._until = 0.0
        self._trial = False

    def state(self, now: float) -> str:
        if self.closed:
            return CLOSED
        return OPEN if now < self._until else HALF_OPEN

    def try_now(self, now: float) -> bool:
        """Whether a call may be made as a trial, while it is not closed. True obliges the caller to make it, and
        to call `succeeded`, `failed` or `given_up`.
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

    @property
    def undecided(self) -> bool:
        """Whether enough failed in a row, and all of it may be due to one tool that takes too long."""
        return self.closed and self._failures >= FAILURES > self._others and len(self._late) == 1

    def record_success(self) -> None:
        """The server answered."""
        self._failures = self._others = 0
        self._late.clear()
        self._open_for = 0.0
        self._trial = False
        self.closed = True
        self.troubled = False

    def record_failure(self, now: float, error: Exception, *, trial: bool, tool: str = "") -> bool:
        """Count a failure that `counts`; True where it opens with that. `tool`: the tool that took too long; empty
        where the server itself failed.
        """
        if not self.closed and not trial:
            return False  # a straggler of before
        self.troubled = True
        self._failures += 1
        if not tool:
            self._others += 1
        elif len(self._late) < FAILURES:
            self._late.add(tool)
        self._last = without_address(error)
        self._trial = False
        if self.closed and (self._failures < FAILURES or self.undecided):
            return False
        return self._open(now)

    def record_silence(self, now: float, *, trial: bool) -> bool:
        """Take a ping that was not answered; True where it opens with that."""
        if not self.closed and not trial:
            return False
        self._last += ", and the server answers no ping either"
        self._trial = False
        return self._open(now)

    def _open(self, now: float) -> bool:
        self._open_for = min(self._open_for * 2, MAX_SECONDS) if self._open_for else FIRST_SECONDS
        self._until = now + self._open_for * (1.0 - self._random() / 5)
        self.opened += self.closed
        self.closed = False
        return True

    def give_up(self) -> None:
        """End a trial that says nothing of the server; the next call is one."""
        self._trial = False
