"""What stands between calls and one server: how many at once, how many a second, and none while it is dead.

Pure module. Made by `upstream.registry` beside each upstream, used by `calls.flight` and `calls.attempts`. Servers
share nothing here, so that one of them cannot delay the calls of another. Admission is by callbacks: a call that finds
room costs a comparison, one that waits costs no task.
"""

from __future__ import annotations

import logging
import random as randomness
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from fairlead_gateway.upstream.breaker import Breaker, counts
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, Timeout

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1024
QUEUE_SECONDS: Final = 10.0
SWEEP_SECONDS: Final = 0.02
MAX_SWEEP_SECONDS: Final = 0.1
"""A call that came later may have to go earlier."""
RETRY_BUDGET: Final = 10.0
"""Retries that a server may get at once; each call made adds a tenth of one."""
RETRY_EARNED: Final = 0.1
_NEVER: Final = float("inf")

Ticket: TypeAlias = int
"""How a call got in: PLAIN or TRIAL. To be handed back by `Guard.leave`."""
QUEUED: Final[Ticket] = 0
PLAIN: Final[Ticket] = 1
TRIAL: Final[Ticket] = 2

BREAKER_OPEN: Final = "BREAKER_OPEN"
RATE_LIMITED: Final = "RATE_LIMITED"


class Refused(McpError):
    """A guard does not let a call through. `code` is BREAKER_OPEN or RATE_LIMITED, `retry_after` in seconds."""

    reason = "Refused"

    def __init__(self, message: str, *, code: str, retry_after: float) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class Waiter(Protocol):
    """A call that wants in. Of one that was queued and not withdrawn, one method is called, once; it may not raise."""

    @property
    def deadline(self) -> float:
        """Seconds of the guard's clock."""
        ...

    def admitted(self, ticket: Ticket) -> None: ...

    def refused(self, error: McpError) -> None: ...


class Bounds(msgspec.Struct, frozen=True):
    """`limit` calls at once, `waiting` more that wait for up to `queue` seconds; `rate` a second, None for any."""

    limit: int
    rate: float | None = None
    waiting: int = MAX_WAITING
    queue: float = QUEUE_SECONDS
    breaks: bool = True
    """False for what no transport lies before."""


Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds, as a loop's `call_later` does."""


class Guard:
    """See the module. `clock` is the one of deadlines, in seconds; `random` gives [0, 1). `lost` is told the reason
    each time that the server could not be reached, or went away under a call.
    """

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        later: Later,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
        lost: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.name = name
        self._lost = lost
        self.breaker = Breaker(random)
        self.random = random
        self.clock = clock
        self.busy = 0
        self.heard = 0
        """Answers and other signs of life of the server so far."""
        self.retries = 0
        """Made so far."""
        self._bounds = bounds
        self._limit = bounds.limit
        self._waiting: deque[tuple[float, Waiter]] = deque()
        self._later = later
        self._sweeping = False
        self._tokens = _burst(bounds.rate)
        self._filled_at = clock()
        self._budget = RETRY_BUDGET
        self._plain = bounds.rate is None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    @property
    def state(self) -> str:
        """Of the breaker: closed, half-open or open."""
        return self.breaker.state(self.clock())

    def enter_now(self) -> bool:
        """Whether there is room and nothing else to be looked at: the call is in, on a plain ticket."""
        if self._plain and self.busy < self._limit and self.breaker.closed and not self._waiting:
            self.busy += 1
            return True
        return False

    def enter(self, waiter: Waiter, *, again: bool = False) -> Ticket:
        """The ticket, or QUEUED: the waiter stands in the queue and will be told. `again` is for retries, which the
        rate does not count. Raises Refused.
        """
        now = self.clock()
        ticket = self._past_breaker(now)
        if ticket == TRIAL:
            self.busy += 1
            return ticket
        if not again and not self._plain:
            self._spend(now)
        if self.busy < self._limit and not self._waiting:
            self.busy += 1
            return ticket
        if len(self._waiting) >= self._bounds.waiting:
            raise Refused(
                f"{self.name} is busy with {self.busy} calls, and {len(self._waiting)} more are waiting already",
                code=RATE_LIMITED, retry_after=1.0,
            )  # fmt: skip
        self._waiting.append((min(waiter.deadline, now + self._bounds.queue), waiter))
        self._watch(now)
        return QUEUED

    def withdraw(self, waiter: Waiter) -> None:
        """A waiter gives up. No-op for one that stands in no queue."""
        for entry in self._waiting:
            if entry[1] is waiter:
                self._waiting.remove(entry)
                return

    def leave(self, ticket: Ticket, error: Exception | None, heard: int, *, given_up: bool = False) -> None:
        """A call is over. `heard` is what `Guard.heard` was when it entered; `given_up` where its end tells nothing
        of the server: the client went away, or had set a time of its own.
        """
        self.busy -= 1
        if self._budget < RETRY_BUDGET:
            self._budget += RETRY_EARNED
        if isinstance(error, ConnectFailed | ConnectionLost) and counts(error):
            self._lost(error.reason)
        if given_up:
            if ticket == TRIAL:
                self.breaker.given_up()
        elif error is None or not self._bounds.breaks or not counts(error):
            self._judge_answer(error, ticket)
        elif not isinstance(error, Timeout) or self.heard == heard:  # else it is the tool that is slow
            self._failed(error, ticket)
        elif ticket == TRIAL:
            self._recovered()
        if self._waiting:
            self._let_in()

    def leave_answered(self) -> None:
        """`leave` of a call on any ticket that was answered without an error."""
        self.busy -= 1
        self.heard += 1
        if self._budget < RETRY_BUDGET:
            self._budget += RETRY_EARNED
        if self.breaker.troubled:
            self._recovered()
        if self._waiting:
            self._let_in()

    def may_retry(self) -> bool:
        """Take a retry out of the budget, so that retries cannot multiply an outage."""
        if self._budget < 1.0 or not self.breaker.closed:
            return False
        self._budget -= 1.0
        self.retries += 1
        return True

    # Inside

    def _failed(self, error: Exception, ticket: Ticket) -> None:
        was_closed = self.breaker.closed
        if self.breaker.failed(self.clock(), error, trial=ticket == TRIAL):
            self._refuse_waiting()
            if was_closed:
                log.warning("%s is not called for a while: %s", self.name, self.breaker.why())

    def _recovered(self) -> None:
        if not self.breaker.closed:
            log.warning("%s answers again", self.name)
        self.breaker.succeeded()

    def _judge_answer(self, error: Exception | None, ticket: Ticket) -> None:
        if error is None or not _says_nothing(error):
            self.heard += 1
            if self.breaker.troubled:
                self._recovered()
        elif ticket == TRIAL:
            self.breaker.given_up()

    def _past_breaker(self, now: float) -> Ticket:
        breaker = self.breaker
        if breaker.closed:
            return PLAIN
        if breaker.try_now(now):
            return TRIAL
        raise self._open(now)

    def _open(self, now: float) -> Refused:
        text = f"{self.name} is not called for a while: {self.breaker.why()}"
        return Refused(text, code=BREAKER_OPEN, retry_after=self.breaker.wait(now))

    def _spend(self, now: float) -> None:
        rate = self._bounds.rate
        assert rate is not None
        self._tokens = min(_burst(rate), self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens < 1.0:
            wait = (1.0 - self._tokens) / rate
            raise Refused(f"{self.name} takes {rate:g} calls a second", code=RATE_LIMITED, retry_after=wait)
        self._tokens -= 1.0

    def _let_in(self) -> None:
        while self._waiting and self.busy < self._limit and self.breaker.closed:
            _, waiter = self._waiting.popleft()
            self.busy += 1
            waiter.admitted(PLAIN)

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        now = self.clock()
        for _, waiter in waiting:
            waiter.refused(self._open(now))

    def _watch(self, now: float) -> None:
        """One timer for the whole queue. Deadlines do not come in order, but a queue is short-lived."""
        if not self._sweeping:
            self._sweeping = True
            first = min(until for until, _ in self._waiting)
            self._later(min(max(first - now, SWEEP_SECONDS), MAX_SWEEP_SECONDS), self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        now = self.clock()
        late = [entry for entry in self._waiting if entry[0] <= now]
        for entry in late:
            self._waiting.remove(entry)
            waiter = entry[1]
            if waiter.deadline <= now:
                waiter.refused(Timeout(f"{self.name} was busy with {self.busy} other calls all the time", sent=False))
            else:
                text = f"{self.name} is busy with {self.busy} calls; none ended within {self._bounds.queue:g} s"
                waiter.refused(Refused(text, code=RATE_LIMITED, retry_after=1.0))
        if self._waiting:
            self._watch(now)


def _says_nothing(error: Exception) -> bool:
    """Errors of transport that come from this side of the wire: nothing was sent, or not to the server."""
    return isinstance(error, ConnectFailed | PoolFull | Refused) or (isinstance(error, Timeout) and not error.sent)


def _burst(rate: float | None) -> float:
    """Calls at once after a pause: those of a second, and one at least."""
    return max(1.0, rate) if rate is not None else 0.0
