"""Admission of requests to one server: how many at once, how many a second, and none while it is dead.

Pure module. Servers share nothing here, so that one of them cannot delay the calls of another. Admission is by
callbacks: a call that finds room costs a comparison, one that waits costs no task. Those that wait get in by turns,
an agent at a time.
"""

from __future__ import annotations

import logging
import random as randomness
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fairlead_gateway.core import ports
from fairlead_gateway.core.ports import Ticket, Waiter
from fairlead_gateway.limits.rate import Rate, Sharing
from fairlead_gateway.limits.shares import FairQueue
from fairlead_gateway.upstream.breaker import Breaker, counts
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, PoolFull, Timeout
from fairlead_tools.refusal import BREAKER_OPEN, RATE_LIMITED, AdmissionRefused

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 3.0
"""Seconds without an answer until a server that is said to be offline is believed to be."""
SWEEP_SECONDS: Final = 0.02
MAX_SWEEP_SECONDS: Final = 0.1
"""Upper bound, for a call that was queued later may have an earlier deadline."""
RETRY_BUDGET: Final = 10.0
"""Retries that a server may get at once; each call made adds a tenth of one."""
RETRY_EARNED: Final = 0.1
_NEVER: Final = float("inf")

QUEUED: Final[Ticket] = 0
PLAIN: Final[Ticket] = 1
TRIAL: Final[Ticket] = 2


Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls something after so many seconds, as a loop's `call_later` does."""


Ping: TypeAlias = Callable[[Callable[[Exception | None], None]], None]
"""Begins to ask the server whether it lives, and later calls with the error, or None for an answer."""


@dataclass(frozen=True)
class Timing:
    """Time and chance, which a test makes its own."""

    later: Later
    clock: Callable[[], float] = time.monotonic
    """Seconds, the clock of deadlines."""
    random: Callable[[], float] = randomness.random
    """Gives [0, 1)."""


class Guard(ports.AdmissionGuard):
    """Limits, queue, circuit breaker and retry budget of one server. `lost` gets the reason each time that the server
    could not be reached, or went away under a call; with `sharing` the rate is that of all replicas. Without `ping`,
    time-outs of one tool open nothing.
    """

    def __init__(
        self,
        name: str,
        bounds: AdmissionLimits,
        timing: Timing,
        *,
        sharing: Sharing | None = None,
        lost: Callable[[str], None] = lambda reason: None,
        ping: Ping | None = None,
    ) -> None:
        self.name = name
        self._ping = ping
        self._pinging = False
        self._lost = lost
        self.breaker = Breaker(timing.random)
        self.random = timing.random
        self.clock = timing.clock
        self.busy = 0
        self._noted = (0, float("-inf"))
        self.responses_seen = 0
        """Answers and other signs of life of the server so far."""
        self.retries = self.hedges = self.hedges_won = 0
        """Made so far; the hedges that answered first."""
        self._bounds = bounds
        self._limit = bounds.limit
        self._turns: FairQueue[Waiter] = FairQueue()
        self._waiting = self._turns.ring
        """Empty while nobody waits."""
        self._later = timing.later
        self._sweeping = False
        self.rate = None if bounds.rate is None else Rate(bounds.rate, 1.0, f"server:{name}", sharing, bounds.burst)
        """Limit on calls a second, retries not counted."""
        self._budget = RETRY_BUDGET
        self._plain = bounds.rate is None

    @property
    def waiting(self) -> int:
        return len(self._turns)

    @property
    def bounds(self) -> AdmissionLimits:
        return self._bounds

    @property
    def state(self) -> str:
        """State of the breaker: closed, half-open or open."""
        return self.breaker.state(self.clock())

    def enter_now(self) -> bool:
        """Whether there is room and nothing else to be looked at: the call is in, on a plain ticket."""
        if self._plain and self.busy < self._limit and self.breaker.closed and not self._waiting:
            self.busy += 1
            return True
        return False

    def enter(self, waiter: Waiter, *, retry: bool = False) -> Ticket:
        """The ticket, or QUEUED: the waiter is called when its turn is. `retry` marks a retry, which the rate does
        not count. Raises AdmissionRefused.
        """
        now = self.clock()
        ticket = self._past_breaker(now)
        if ticket == TRIAL:
            self.busy += 1
            return ticket
        if not retry and not self._plain:
            self._spend(now)
        if self.busy < self._limit and not self._waiting:
            self.busy += 1
            return ticket
        self._queue(waiter, now)
        return QUEUED

    def still_answers(self) -> bool:
        """Whether the server answered in the last FRESH_SECONDS and nothing failed since, whatever its catalog says. It
        costs nothing per call: two looks compare how many answers there were.
        """
        responses_seen, since = self._noted
        now = self.clock()
        if self.breaker.troubled:
            return False
        if self.responses_seen != responses_seen:
            self._noted = (self.responses_seen, now)
            return True
        return now - since < FRESH_SECONDS

    def withdraw(self, waiter: Waiter) -> None:
        """Take a waiter out of the queue, if it is there."""
        self._turns.remove(waiter)

    def leave(
        self, ticket: Ticket, error: Exception | None, responses_seen: int, *, given_up: bool = False, tool: str = ""
    ) -> None:
        """End a call. `responses_seen` is `Guard.responses_seen` as it was when the call entered; `given_up` where its
        end tells nothing of the server: the client went away, or had set a time of its own. `tool`: name of the tool
        that took too long, for a Timeout.
        """
        self.busy -= 1
        if self._budget < RETRY_BUDGET:
            self._budget += RETRY_EARNED
        if isinstance(error, ConnectFailed | ConnectionLost) and counts(error):
            self._lost(error.reason)
        if given_up:
            if ticket == TRIAL:
                self.breaker.give_up()
        elif error is None or not self._bounds.breaks or not counts(error):
            self._judge_answer(error, ticket)
        elif (
            not isinstance(error, Timeout) or self.responses_seen == responses_seen
        ):  # else it is the tool that is slow
            self._failed(error, ticket, tool if isinstance(error, Timeout) else "")
        elif ticket == TRIAL:
            self._recovered()
        if self._waiting:
            self._let_in()

    def leave_well(self) -> None:
        """`leave` of a call on any ticket that was answered without an error."""
        self.busy -= 1
        self.responses_seen += 1
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

    def enter_hedge(self) -> bool:
        """Whether a call may be made a second time beside itself: there is room that nobody waits for, and the budget
        of retries is not spent. It is in then, on a plain ticket.
        """
        if self._waiting or self.busy >= self._limit or self._budget < 1.0 or not self.breaker.closed:
            return False
        self._budget -= 1.0
        self.busy += 1
        self.hedges += 1
        return True

    # Inside

    def _failed(self, error: Exception, ticket: Ticket, tool: str) -> None:
        breaker, trial = self.breaker, ticket == TRIAL
        was_closed = breaker.closed
        if trial and tool and self._ask(trial=True):
            return  # the trial goes on until the server answers that, or does not
        if breaker.record_failure(self.clock(), error, trial=trial, tool=tool):
            self._opened(was_closed=was_closed)
        elif breaker.undecided:
            self._ask(trial=False)

    def _opened(self, *, was_closed: bool) -> None:
        self._refuse_waiting()
        if was_closed:
            log.warning("%s is not called for a while: %s", self.name, self.breaker.why())

    def _ask(self, *, trial: bool) -> bool:
        """Whether the server is asked for a sign of life: one tool took too long, and nothing else is known."""
        if self._ping is None or self._pinging:
            return False
        self._pinging = True
        responses_seen = self.responses_seen
        self._ping(lambda error: self._told(error, responses_seen, trial=trial))
        return True

    def _told(self, error: Exception | None, responses_seen: int, *, trial: bool) -> None:
        """Take the outcome of a ping."""
        self._pinging = False
        if error is not None and counts(error) and self.responses_seen == responses_seen:
            was_closed = self.breaker.closed
            if self.breaker.record_silence(self.clock(), trial=trial):
                self._opened(was_closed=was_closed)
        else:
            self._judge_answer(error, TRIAL if trial else PLAIN)
            self._let_in()

    def _recovered(self) -> None:
        if not self.breaker.closed:
            log.warning("%s answers again", self.name)
        self.breaker.record_success()

    def _judge_answer(self, error: Exception | None, ticket: Ticket) -> None:
        if error is None or not _says_nothing(error):
            self.responses_seen += 1
            if self.breaker.troubled:
                self._recovered()
        elif ticket == TRIAL:
            self.breaker.give_up()

    def _past_breaker(self, now: float) -> Ticket:
        breaker = self.breaker
        if breaker.closed:
            return PLAIN
        if breaker.try_now(now):
            return TRIAL
        raise self._open(now)

    def _open(self, now: float) -> AdmissionRefused:
        text = f"{self.name} is not called for a while: {self.breaker.why()}"
        return AdmissionRefused(text, code=BREAKER_OPEN, retry_after=self.breaker.wait(now))

    def _spend(self, now: float) -> None:
        assert self.rate is not None
        wait = self.rate.take(now)
        if wait:
            text = f"{self.name} takes {60 * self.rate.calls:g} calls a minute"
            if self.rate.blocked:
                text = "limits that replicas share cannot be looked up now"
            raise AdmissionRefused(text, code=RATE_LIMITED, retry_after=wait)

    def _queue(self, waiter: Waiter, now: float) -> None:
        """Raises AdmissionRefused where the queue is full, and nobody has more of it than this one's agent."""
        agent, last = waiter.agent, None
        if len(self._turns) >= self._bounds.waiting:
            last = self._turns.give_way(agent)
            if last is None:
                raise self._full()
        self._turns.add(agent, waiter, min(waiter.deadline, now + self._bounds.queue))
        if last is not None:
            last.reject(self._full())
        self._watch(now)

    def _full(self) -> AdmissionRefused:
        text = f"{self.name} is busy with {self.busy} calls, and {len(self._turns)} more are waiting already"
        return AdmissionRefused(text, code=RATE_LIMITED, retry_after=1.0)

    def _let_in(self) -> None:
        while self._waiting and self.busy < self._limit and self.breaker.closed:
            self.busy += 1
            self._turns.next().proceed(PLAIN)

    def _refuse_waiting(self) -> None:
        now = self.clock()
        for waiter in [*self._turns.take_all()]:
            waiter.reject(self._open(now))

    def _watch(self, now: float) -> None:
        """One timer for the whole queue. Deadlines do not come in order, but a queue is short-lived."""
        if not self._sweeping:
            self._sweeping = True
            wait = min(max(self._turns.first_end() - now, SWEEP_SECONDS), MAX_SWEEP_SECONDS)
            self._later(wait, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        now = self.clock()
        for waiter in self._turns.take_late(now):
            if waiter.deadline <= now:
                waiter.reject(Timeout(f"{self.name} was busy with {self.busy} other calls all the time", sent=False))
            else:
                text = f"{self.name} is busy with {self.busy} calls; none ended within {self._bounds.queue:g} s"
                waiter.reject(AdmissionRefused(text, code=RATE_LIMITED, retry_after=1.0))
        if self._waiting:
            self._watch(now)


def _says_nothing(error: Exception) -> bool:
    """Errors of transport that come from this side of the wire: nothing was sent, or not to the server."""
    return isinstance(error, ConnectFailed | PoolFull | AdmissionRefused) or (
        isinstance(error, Timeout) and not error.sent
    )
