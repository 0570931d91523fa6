"""Admission of requests to one server: limits on concurrency and rate, a queue, and a circuit breaker.

Pure module. The guards of servers share no state, so that one server cannot delay the calls of another. Admission uses
callbacks: below the limits it costs one comparison, and a waiting call needs no task. Agents with waiting calls are
served in rotation.
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
from fairlead_gateway.upstream.breaker import Breaker, counts_as_failure
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import ArgumentsRefused, ConnectFailed, ConnectionLost, PoolFull, Timeout
from fairlead_tools.refusal import BREAKER_OPEN, RATE_LIMITED, AdmissionRefused

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 3.0
"""Seconds for which a recent answer outweighs a catalog that reports the server as offline."""
SWEEP_SECONDS: Final = 0.02
"""Shortest interval of checks for expired calls in the queue."""
MAX_SWEEP_SECONDS: Final = 0.1
"""Longest interval of these checks, because a call that is queued later may have an earlier deadline."""
RETRY_BUDGET: Final = 10.0
"""Largest number of retries in reserve."""
RETRY_EARNED: Final = 0.1
"""Retries that each ended call adds to the reserve."""
_NEVER: Final = float("inf")

QUEUED: Final[Ticket] = 0
"""Ticket of a call that is not admitted yet and waits in the queue."""
PLAIN: Final[Ticket] = 1
"""Ticket of an admitted call."""
TRIAL: Final[Ticket] = 2
"""Ticket of the call that tests, while the circuit breaker is open, whether the server has recovered."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls a function after a number of seconds, like `loop.call_later`."""


Ping: TypeAlias = Callable[[Callable[[Exception | None], None]], None]
"""Starts a ping of the server, and later calls back with its error, or with None if the server answered."""


@dataclass(frozen=True)
class Timing:
    """Timer, clock and random numbers, which tests replace."""

    later: CallLater
    clock: Callable[[], float] = time.monotonic
    """Clock of deadlines, in seconds."""
    random: Callable[[], float] = randomness.random
    """Returns values in [0, 1)."""


class Guard(ports.AdmissionGuard):
    """Limits, queue, circuit breaker and retry budget of one server.

    `on_unreachable` is called with the reason each time that the server cannot be reached or drops a connection during
    a call. With `sharing`, all replicas share the rate limit. Without `ping`, timeouts of a single tool never open the
    breaker.
    """

    def __init__(
        self,
        name: str,
        bounds: AdmissionLimits,
        timing: Timing,
        *,
        sharing: Sharing | None = None,
        on_unreachable: Callable[[str], None] = lambda reason: None,
        ping: Ping | None = None,
    ) -> None:
        self.name = name
        self._ping = ping
        self._pinging = False
        self._on_unreachable = on_unreachable
        self.breaker = Breaker(timing.random)
        self.random = timing.random
        self.clock = timing.clock
        self.busy = 0
        self._last_check = (0, float("-inf"))
        """`responses_seen` and time of the last check of `still_answers` that saw a new answer."""
        self.responses_seen = 0
        """Number of answers and other messages of the server so far."""
        self.retries = self.hedges = self.hedges_won = 0
        """Numbers of retries, of hedged attempts, and of hedged attempts that were answered first."""
        self._bounds = bounds
        self._limit = bounds.limit
        self._queue: FairQueue[Waiter] = FairQueue()
        self._agent_queues = self._queue.ring
        """The queue's agents with waiting calls; empty while no call waits."""
        self._call_later = timing.later
        self._sweep_is_scheduled = False
        self.rate = None if bounds.rate is None else Rate(bounds.rate, 1.0, f"server:{name}", sharing, bounds.burst)
        """Rate limit in calls a second, which does not count retries; None for no limit."""
        self._retries_in_reserve = RETRY_BUDGET
        """Retries in reserve."""
        self._no_rate_limit = bounds.rate is None

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def bounds(self) -> AdmissionLimits:
        return self._bounds

    @property
    def state(self) -> str:
        """State of the breaker: closed, half-open or open."""
        return self.breaker.state(self.clock())

    def enter_now(self) -> bool:
        """Admit a call with a PLAIN ticket if nothing limits it; False if `enter` has to decide."""
        if self._no_rate_limit and self.busy < self._limit and self.breaker.closed and not self._agent_queues:
            self.busy += 1
            return True
        return False

    def enter(self, waiter: Waiter, *, retry: bool = False) -> Ticket:
        """Admit a call and return its ticket, or QUEUED: then `waiter.proceed` or `waiter.reject` is called later.

        `retry` marks a retry, which the rate limit does not count. Raises AdmissionRefused.
        """
        now = self.clock()
        ticket = self._pass_breaker(now)
        if ticket == TRIAL:
            self.busy += 1
            return ticket
        if not retry and not self._no_rate_limit:
            self._take_from_rate(now)
        if self.busy < self._limit and not self._agent_queues:
            self.busy += 1
            return ticket
        self._enqueue(waiter, now)
        return QUEUED

    def still_answers(self) -> bool:
        """Whether the server answered in the last FRESH_SECONDS, without a failure since.

        Compares the number of answers with the number at the previous check, so that calls need not store a time.
        """
        responses_seen, checked_at = self._last_check
        now = self.clock()
        if self.breaker.has_failures:
            return False
        if self.responses_seen != responses_seen:
            self._last_check = (self.responses_seen, now)
            return True
        return now - checked_at < FRESH_SECONDS

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a waiter from the queue; no-op if it is not queued."""
        self._queue.remove(waiter)

    def leave(
        self, ticket: Ticket, error: Exception | None, responses_seen: int, *, abandoned: bool = False, tool: str = ""
    ) -> None:
        """Record the end of a call, and admit waiting calls.

        `responses_seen` is the value of `Guard.responses_seen` when the call was admitted. With `abandoned` the end
        says nothing about the server: the client disconnected, or its own timeout passed. `tool` is the name of the
        called tool, for which the breaker counts a Timeout.
        """
        self.busy -= 1
        if self._retries_in_reserve < RETRY_BUDGET:
            self._retries_in_reserve += RETRY_EARNED
        if isinstance(error, ConnectFailed | ConnectionLost) and counts_as_failure(error):
            self._on_unreachable(error.reason)
        if abandoned:
            if ticket == TRIAL:
                self.breaker.give_up()
        elif error is None or not self._bounds.breaks or not counts_as_failure(error):
            self._judge_answer(error, ticket)
        elif (
            not isinstance(error, Timeout) or self.responses_seen == responses_seen
        ):  # if the server sent anything since, the timeout is that of a slow tool
            self._record_failure(error, ticket, tool if isinstance(error, Timeout) else "")
        elif ticket == TRIAL:
            self._record_recovery()
        if self._agent_queues:
            self._admit_waiting()

    def leave_after_success(self) -> None:
        """Record the end of a call that was answered without an error; a faster `leave`."""
        self.busy -= 1
        self.responses_seen += 1
        if self._retries_in_reserve < RETRY_BUDGET:
            self._retries_in_reserve += RETRY_EARNED
        if self.breaker.has_failures:
            self._record_recovery()
        if self._agent_queues:
            self._admit_waiting()

    def may_retry(self) -> bool:
        """Take a retry from the budget, which keeps retries from multiplying the load of an outage; False if none is
        left.
        """
        if self._retries_in_reserve < 1.0 or not self.breaker.closed:
            return False
        self._retries_in_reserve -= 1.0
        self.retries += 1
        return True

    def enter_hedge(self) -> bool:
        """Admit a hedged attempt with a PLAIN ticket, if no call waits and the retry budget allows it."""
        if self._agent_queues or self.busy >= self._limit or not self.breaker.closed:
            return False
        if self._retries_in_reserve < 1.0:
            return False
        self._retries_in_reserve -= 1.0
        self.busy += 1
        self.hedges += 1
        return True

    # Internals

    def _record_failure(self, error: Exception, ticket: Ticket, tool: str) -> None:
        breaker, trial = self.breaker, ticket == TRIAL
        was_closed = breaker.closed
        if trial and tool and self._start_ping(trial=True):
            return  # the outcome of the ping decides the trial
        if breaker.record_failure(self.clock(), error, trial=trial, tool=tool):
            self._on_breaker_opened(was_closed=was_closed)
        elif breaker.undecided:
            self._start_ping(trial=False)

    def _on_breaker_opened(self, *, was_closed: bool) -> None:
        self._refuse_waiting()
        if was_closed:
            log.warning("Server %s is not called for a while: %s", self.name, self.breaker.describe_failures())

    def _start_ping(self, *, trial: bool) -> bool:
        """Ping the server after timeouts of a single tool; False if no ping is possible or one is in progress."""
        if self._ping is None or self._pinging:
            return False
        self._pinging = True
        responses_seen = self.responses_seen
        self._ping(lambda error: self._take_ping_outcome(error, responses_seen, trial=trial))
        return True

    def _take_ping_outcome(self, error: Exception | None, responses_seen: int, *, trial: bool) -> None:
        """Close or open the breaker by the outcome of a ping; `error` is None if the server answered."""
        self._pinging = False
        if error is not None and counts_as_failure(error) and self.responses_seen == responses_seen:
            was_closed = self.breaker.closed
            if self.breaker.record_silence(self.clock(), trial=trial):
                self._on_breaker_opened(was_closed=was_closed)
        else:
            self._judge_answer(error, TRIAL if trial else PLAIN)
            self._admit_waiting()

    def _record_recovery(self) -> None:
        if not self.breaker.closed:
            log.warning("Server %s answers again", self.name)
        self.breaker.record_success()

    def _judge_answer(self, error: Exception | None, ticket: Ticket) -> None:
        if error is None or not _is_local_error(error):
            self.responses_seen += 1
            if self.breaker.has_failures:
                self._record_recovery()
        elif ticket == TRIAL:
            self.breaker.give_up()

    def _pass_breaker(self, now: float) -> Ticket:
        breaker = self.breaker
        if breaker.closed:
            return PLAIN
        if breaker.try_now(now):
            return TRIAL
        raise self._breaker_error(now)

    def _breaker_error(self, now: float) -> AdmissionRefused:
        text = f"the server {self.name} is not called for a while: {self.breaker.describe_failures()}"
        return AdmissionRefused(text, code=BREAKER_OPEN, retry_after=self.breaker.wait(now))

    def _take_from_rate(self, now: float) -> None:
        assert self.rate is not None
        wait = self.rate.take(now)
        if wait:
            text = (
                f"the limit of {60 * self.rate.calls:g} calls a minute for the server {self.name} is reached: "
                "retry later"
            )
            if self.rate.blocked:
                text = "the limits that replicas share in Redis cannot be read now: retry later"
            raise AdmissionRefused(text, code=RATE_LIMITED, retry_after=wait)

    def _enqueue(self, waiter: Waiter, now: float) -> None:
        """Add a waiter. If the queue is full, the last call of the agent with the most waiting calls is refused.

        Raises AdmissionRefused if that agent is the waiter's own.
        """
        agent, evicted_waiter = waiter.agent, None
        if len(self._queue) >= self._bounds.waiting:
            evicted_waiter = self._queue.give_way(agent)
            if evicted_waiter is None:
                raise self._queue_full_error()
        self._queue.add(agent, waiter, min(waiter.deadline, now + self._bounds.queue))
        if evicted_waiter is not None:
            evicted_waiter.reject(self._queue_full_error())
        self._watch(now)

    def _queue_full_error(self) -> AdmissionRefused:
        text = (
            f"the server {self.name} is busy with {self.busy} calls, and {len(self._queue)} more fill its "
            "queue: retry later"
        )
        return AdmissionRefused(text, code=RATE_LIMITED, retry_after=1.0)

    def _admit_waiting(self) -> None:
        while self._agent_queues and self.busy < self._limit and self.breaker.closed:
            self.busy += 1
            self._queue.next().proceed(PLAIN)

    def _refuse_waiting(self) -> None:
        now = self.clock()
        for waiter in [*self._queue.take_all()]:
            waiter.reject(self._breaker_error(now))

    def _watch(self, now: float) -> None:
        """Start the queue's timer. One timer checks all waiters, because their deadlines are not in order. Checking all
        of them is cheap, because a queue is short-lived.
        """
        if not self._sweep_is_scheduled:
            self._sweep_is_scheduled = True
            wait = min(max(self._queue.first_end() - now, SWEEP_SECONDS), MAX_SWEEP_SECONDS)
            self._call_later(wait, self._sweep)

    def _sweep(self) -> None:
        self._sweep_is_scheduled = False
        now = self.clock()
        for waiter in self._queue.take_late(now):
            if waiter.deadline <= now:
                text = f"the deadline passed while the server {self.name} was busy with {self.busy} other calls"
                waiter.reject(Timeout(text, sent=False))
            else:
                text = (
                    f"the server {self.name} is busy with {self.busy} calls; none ended within "
                    f"{self._bounds.queue:g} s: retry later"
                )
                waiter.reject(AdmissionRefused(text, code=RATE_LIMITED, retry_after=1.0))
        if self._agent_queues:
            self._watch(now)


def _is_local_error(error: Exception) -> bool:
    """Whether an error arose before anything was sent to the server, and so says nothing about it."""
    return isinstance(error, ConnectFailed | PoolFull | AdmissionRefused | ArgumentsRefused) or (
        isinstance(error, Timeout) and not error.sent
    )
