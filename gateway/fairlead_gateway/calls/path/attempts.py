"""Sends one request to its server: admission by the server's guard (limits, circuit breaker), sending, and retries.

`Attempts` is a `ResponseSink`: the parser of the server's response calls its methods, so that a call needs no asyncio
task. Only the acquisition of an access token that is not cached, and the negotiation of the era with a server before
the first request, run in a task. A token is acquired before admission, so that a call that waits for a token occupies
no slot of the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_api.reports import NEUTRAL, OK
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.watched_calls import CALL_ENDED
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.outbound import CallCredential, CallCredentials
from fairlead_gateway.core.ports import Pending, Ticket
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.recent.phases import ATTEMPT, BACKOFF, CREDENTIAL, NEVER, QUEUE, SESSION, CallPhase, CallTrail
from fairlead_gateway.reports.outcomes import outcome_of
from fairlead_gateway.tracing.spans import CallSpan
from fairlead_gateway.upstream.guard import PLAIN, QUEUED
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import McpError, Timeout
from fairlead_mcp.messages import Message, ResultMembers
from fairlead_mcp.oauth.challenge import Challenge, challenge_of
from fairlead_mcp.retries import next_delay


@mypyc_attr(allow_interpreted_subclasses=True)
class AttemptOwner:
    """Builds the request that `Attempts` sends, and receives the server's messages and the outcome.

    A class instead of a Protocol, because mypyc calls methods of compiled classes ten times as fast.
    """

    __slots__ = ()

    @property
    def agent(self) -> str:
        """Agent that the request is counted for."""
        return ""

    @property
    def identity(self) -> Identity:
        """Caller whose credential the request has at a server with access tokens per call."""
        return ANONYMOUS

    def build_request(self, modern: bool) -> UpstreamRequest | None:
        """The request to send; None if none is needed, because this method has answered the client itself.

        `modern` tells the era of the server. Raises McpError.
        """
        # after `release` the owner is `_NO_OWNER`: a late attempt fails here, which frees its slot at the guard
        raise NotImplementedError

    def accept_result(self, result: Raw, members: ResultMembers | None) -> None:
        """Take the raw result of the last attempt; `members` are its parsed members, or None if it was not parsed."""

    def give_up(self, error: Exception) -> None:
        """Take the error of the last attempt: a McpError, or another exception for a defect of the gateway."""

    def relay(self, message: Message) -> bool:
        """Forward a notification of the server; True if it reports progress of this request."""
        return False

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """Answer a request of the server through `answer`: with the client's response, or with an error."""
        answer(jsonrpc.reply_to_server(message))

    def pause(self) -> None:
        """Close the client's SSE stream, which the client resumes later, because the server closed its stream to the
        gateway in the same way (SEP-1699). No-op by default.
        """

    @property
    def congested(self) -> bool:
        """Whether the client's connection has a full write buffer."""
        return False

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the client reads again or has disconnected."""
        resume()


_NO_OWNER: Final = AttemptOwner()
"""Owner of all `Attempts` after their `release`."""


class Attempts(ResponseSink):
    """Sends one request to its server and retries failed attempts, one attempt at a time.

    The owner has to call `release` when the request has ended. `started` is the time of the client's request, in
    seconds of `CallContext.clock`.
    """

    __slots__ = (
        "_attempts",
        "_credential",
        "_handled_reasons",
        "_measurement",
        "_outgoing",
        "_owner",
        "_responses_seen",
        "_start_began",
        "_start_seconds",
        "_ticket",
        "_watched",
        "answered_at",
        "client",
        "context",
        "done",
        "extended_deadline",
        "idempotent",
        "pending",
        "route",
        "sent_at",
        "span",
        "started",
        "trail",
    )

    def __init__(self, owner: AttemptOwner, context: CallContext, route: Route, started: float) -> None:
        self._owner = owner
        self.context = context
        self.route = route
        self.started = started
        self.client: ClientPeer | None = None
        """Client whose own session with the server is used; None for a shared session."""
        self.idempotent = route.idempotent
        """Whether the request may be sent again although the server may have executed it."""
        self.span: CallSpan | None = None
        """Trace span of the call; None where calls are not traced."""
        self.done = False
        """Whether `release` was called."""
        self._outgoing: UpstreamRequest | None = None
        """Request as sent to the server; None until it is built."""
        self.pending: Pending | asyncio.Task[None] | asyncio.TimerHandle | None = None
        """Work to cancel with the request: an attempt, the timer of a retry, or an asyncio task between attempts."""
        self._attempts = 0
        """Number of attempts so far."""
        self._ticket: Ticket = QUEUED
        """The guard's admission of the current attempt; QUEUED, which is false, without one."""
        self._responses_seen = 0
        """`responses_seen` of the guard when the current attempt was admitted."""
        self._credential: CallCredential | None = None
        """Access token of the current attempt; None if the server has one credential for all requests."""
        self._handled_reasons: tuple[str, ...] = ()
        """Reasons for which the server has refused tokens (`Challenge.refusal_reason`). For each reason, the request is
        sent once more, with another token.
        """
        self._measurement = 0
        """Number that the tool's latency meter gave the attempt; 0 between attempts."""
        self.extended_deadline = NEVER
        """Deadline as extended by the server's last progress notification; NEVER before the first."""
        self._watched = False
        """Whether progress may extend the deadline. If so, `WatchedCalls` enforces the current deadline, because the
        upstream only knows the latest deadline possible.
        """
        self._start_began = NEVER
        """Time at which the attempt began to wait for the start of the server's process, minus the duration of earlier
        waits; NEVER while it does not wait.
        """
        self._start_seconds = 0.0
        """Seconds spent on starts of the server's process, which the deadline does not count. While the process starts,
        it is the maximum that this can become.
        """
        self.sent_at = NEVER
        """Start of the last attempt; NEVER once the attempt is in `trail`."""
        self.answered_at = NEVER
        """End of the last attempt; NEVER while it runs."""
        self.trail: CallTrail | None = None
        """Phases of the call before the current attempt: earlier attempts, queue, backoff. None if there were none."""

    @property
    def agent(self) -> str:
        return self._owner.agent

    @property
    def deadline(self) -> float:
        return (
            self.started + self._start_seconds + self.route.timeout
            if self.extended_deadline < 0
            else self.extended_deadline
        )

    def begin(self) -> None:
        """Send the request as soon as it has a credential and the server's guard admits it. Raises nothing."""
        credentials = self.route.binding.credentials
        if credentials is None or self._take_cached(credentials):
            self._enter_guard()

    def _enter_guard(self) -> None:
        """Send the request as soon as the server's guard admits it."""
        guard = self.route.guard
        if guard.enter_now():
            self.proceed(PLAIN)
            return
        try:
            # `retry` exempts a request from the server's rate limit: polls of a task must not use up the limit
            is_repeated = self._attempts > 0 or bool(self._handled_reasons)
            ticket = guard.enter(self, retry=is_repeated or self.route.task is not None)
        except McpError as error:
            self.reject(error)
            return
        if ticket:
            self.proceed(ticket)
        else:
            self.enter_phase(QUEUE)

    def proceed(self, ticket: Ticket) -> None:
        route = self.route
        self._ticket = ticket
        self._responses_seen = route.guard.responses_seen
        self._attempts += 1
        request = self._outgoing
        try:
            if request is None:
                modern = route.upstream.modern_for(self.client)
                if modern is None:
                    self._negotiate()
                    return
                request = self._outgoing = self._owner.build_request(modern)
            if request is not None:
                self._send(request)
        except Exception as error:  # noqa: BLE001  # must not fail the call whose end admitted this one; `give_up` logs
            self.take_error(error)

    def reject(self, error: McpError) -> None:
        self._owner.give_up(error)

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self.answered_at = self.context.clock()
        if self._ticket:
            self._ticket = QUEUED
            self.route.guard.leave_after_success()
        self._owner.accept_result(result, members)

    def take_error(self, error: Exception) -> None:
        self.answered_at = self.context.clock()
        if self._start_began >= 0:  # a process that does not start counts as a failure of its tool
            self._start_seconds = min(self._start_seconds, self.answered_at - self._start_began)
            self._begin_measurement(self._start_began)
            self._start_began = NEVER
        # a timeout that the caller chose may be too short for the tool, and does not show that the tool is slow
        caller_timeout = isinstance(error, Timeout) and self._is_bounded_by_caller()
        self.measure(NEUTRAL if caller_timeout else outcome_of(error))
        if self.span is not None:
            self.span.end_attempt(type(error).__name__)
        self._record_attempt(type(error).__name__)
        self._return_ticket(error, abandoned=caller_timeout)
        credentials = self.route.binding.credentials
        if credentials is not None and isinstance(error, McpError) and not self.done:
            challenge = challenge_of(error)
            if challenge is not None and challenge.refusal_reason not in self._handled_reasons:
                self._renew(credentials, challenge)
                return
            if challenge is not None:
                error = credentials.refusal_error(self._owner.identity, challenge)
        if not self._retry_later(error):
            self._owner.give_up(error)

    def notify(self, message: Message) -> None:
        self.route.guard.responses_seen += 1
        if self._owner.relay(message):
            self._extend_deadline()

    def ask(self, message: Message, answer: AnswerServer) -> None:
        self.route.guard.responses_seen += 1
        self.measure(NEUTRAL)  # from here on a user or a model is awaited, whose time is not the tool's latency
        self._owner.ask(message, answer)

    def wait_for_start(self, deadline: float) -> float:
        self.enter_phase(SESSION)
        number, meter = self._measurement, self.route.meter
        if number and meter is not None:
            self._measurement = 0
            meter.forget(number)
        self._start_began = self.context.clock() - self._start_seconds
        self._start_seconds = max(self.route.start_timeout - self.route.timeout, 0.0)
        return max(deadline, self.deadline)

    def process_started(self, deadline: float) -> float:
        now = self.context.clock()
        self._start_seconds = min(self._start_seconds, now - self._start_began)
        self._start_began = NEVER
        self._begin_attempt(now)
        return max(deadline, self.deadline)

    def answer_arrived(self) -> None:
        self.answered_at = self.context.clock()
        self.measure(OK)  # the rest is the gateway's time, not the server's
        if self._ticket:
            self._ticket = QUEUED
            self.route.guard.leave_after_success()

    def pause(self) -> None:
        self._owner.pause()

    @property
    def congested(self) -> bool:
        return self._owner.congested

    def when_writable(self, resume: Callable[[], None]) -> None:
        self._owner.when_writable(resume)

    def begin_again(self) -> None:
        """Build and send the owner's next request, with the full number of retries."""
        self._outgoing = None
        self._attempts = 0
        self._handled_reasons = ()
        self.begin()

    def release(self, *, listens: bool = False) -> None:
        """Mark the request as ended, and drop the reference to the owner, which refers back to this object: without
        the cycle both are freed at once, not by the garbage collector.

        With `listens` the reference stays: the request was a subscription, and the session with the server goes on
        sending resource updates to this object.
        """
        self.done = True
        self.pending = None
        if not listens:
            self._owner = _NO_OWNER
        self._unwatch()

    def measure(self, outcome: str) -> None:
        """Record the attempt's duration and `outcome` as a latency sample; no-op after the first time in an attempt."""
        number, meter = self._measurement, self.route.meter
        if number and meter is not None:
            self._measurement = 0
            meter.end(number, self.context.clock() if self.answered_at < 0 else self.answered_at, outcome)

    def stop(self) -> None:
        """Abandon the attempt, and cancel the request at the server."""
        pending, self.pending = self.pending, None
        if self._ticket == QUEUED:
            self.route.guard.withdraw(self)
        self.measure(NEUTRAL)
        self._return_ticket(None, abandoned=True)
        if pending is not None:
            pending.cancel()

    def watch_deadline(self) -> float:
        """Latest possible deadline of a request that asks for progress, to be enforced by the upstream.

        The current deadline is earlier, and is enforced by `WatchedCalls`. Each progress notification extends it, up
        to the latest one.
        """
        route = self.route
        latest_deadline = self.started + route.max_timeout
        if latest_deadline <= self.deadline:
            return self.deadline
        if not self._watched:
            self._watched = True
            self.context.watched_calls.add(self, self.deadline)
        return latest_deadline

    def _extend_deadline(self) -> None:
        """Restart the timeout after a progress notification (MCP, Lifecycle, "Timeouts"), up to `Route.max_timeout`."""
        if self._watched:
            route = self.route
            self.extended_deadline = min(self.context.clock() + route.binding.timeout, self.started + route.max_timeout)

    def restart_timeout(self) -> None:
        """Restart the timeout after the call has waited for a user, within the maximum duration of a call."""
        route = self.route
        max_seconds = max(route.timeout, route.max_timeout)
        self.extended_deadline = min(self.context.clock() + route.binding.timeout, self.started + max_seconds)

    def timeout_message(self) -> str:
        """Error message of a timed-out attempt, which names the limit that applied."""
        # compares deadlines instead of durations, which may differ from `Route.max_timeout` by a rounding error
        bounded = self.extended_deadline >= self.started + self.route.max_timeout
        return self.route.timeout_message(
            self.extended_deadline >= 0, 0.0 if bounded else self.extended_deadline - self.started
        )

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self.context.watched_calls.discard(self)

    def check_deadline(self, now: float) -> float:
        """Fail the attempt if its deadline has passed; returns the time of the next check (implements WatchedCall).

        An asyncio task between attempts, such as a question to the client, is not stopped: it has its own timeout.
        """
        deadline, pending = self.deadline, self.pending
        if deadline > now or not self._ticket or isinstance(pending, asyncio.Task):
            return deadline
        self._unwatch()
        self.pending = None
        if pending is not None:
            pending.cancel()
        self.take_error(Timeout("the server did not answer the request in time", sent=True))
        return CALL_ENDED

    def enter_phase(self, kind: str, since: float = NEVER) -> None:
        """Record that the call now waits for something other than an attempt: `kind`, a constant of `recent.phases`.

        `since` is the start of the wait, if it began before now.
        """
        self._record_attempt("")
        if self.trail is None:
            self.trail = CallTrail()
        self.trail.begin(kind, self.context.clock() if since < 0 else since)

    # Internals

    def _is_bounded_by_caller(self) -> bool:
        """Whether the deadline was set by the caller or by a tier, not by the server's own timeout."""
        if self.extended_deadline < 0:
            return self.route.caller_deadline or self._has_used_start_timeout()
        return self.route.caller_set_max_timeout and self.extended_deadline >= self.started + self.route.max_timeout

    def _has_used_start_timeout(self) -> bool:
        """Whether the caller or a tier set the deadline because the server's process took so long to start."""
        route, seconds = self.route, self._start_seconds
        return 0 < seconds >= route.start_timeout - route.timeout and route.start_timeout < route.binding.timeout

    def _record_attempt(self, error: str) -> None:
        """Append the last attempt to the trail, before another phase begins; no-op without an attempt."""
        if self.sent_at >= 0:
            if self.trail is None:
                self.trail = CallTrail()
            end = self.context.clock() if self.answered_at < 0 else self.answered_at
            self.trail.add(CallPhase(ATTEMPT, self.sent_at, end, error))
            self.sent_at = NEVER

    def _send(self, request: UpstreamRequest) -> None:
        route = self.route
        if self.span is not None:
            params, lines = self.span.attempt(request.params)
            request = request.with_trace(params, lines)  # each attempt has a span of its own
        if self._credential is not None:
            request.authorize(self._credential)
        self._begin_attempt(self.context.clock())
        pending = route.upstream.send(request, self)
        if self._ticket:  # otherwise the attempt ended within `send`
            self.pending = pending

    def _begin_attempt(self, now: float) -> None:
        if self.trail is not None:
            self.trail.end(now)
        self.sent_at = now
        self.answered_at = NEVER
        self._begin_measurement(now)

    def _begin_measurement(self, now: float) -> None:
        meter = self.route.meter
        if meter is not None:
            self._measurement = meter.begin(now)

    def _negotiate(self) -> None:
        self.enter_phase(SESSION)
        self.pending = task = asyncio.get_running_loop().create_task(self._send_negotiated(), name="negotiate")
        self.context.keep_task(task)

    async def _send_negotiated(self) -> None:
        try:
            modern = await self.route.upstream.negotiate(self.client, self.deadline, self._credential)
            request = self._outgoing = self._owner.build_request(modern)
            if request is not None:
                self._send(request)
        except asyncio.CancelledError:
            if not self.done:
                self.take_error(McpError("the gateway was stopped before it sent the request"))
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `give_up` logs all but McpErrors
            self.take_error(error)

    def _take_cached(self, credentials: CallCredentials) -> bool:
        """Take the caller's cached credential; False if it has to be acquired, or the request has failed."""
        try:
            self._credential = credentials.find_cached(self._owner.identity)
        except McpError as error:
            self.reject(error)
            return False
        if self._credential is None:
            self._acquire(credentials, None)
        return self._credential is not None

    def _renew(self, credentials: CallCredentials, challenge: Challenge) -> None:
        """Send the request again with another token, because the server refused the token and so executed nothing."""
        self._handled_reasons += (challenge.refusal_reason,)
        self._attempts -= 1
        if self._outgoing is not None:
            self._outgoing = self._outgoing.with_id(self.route.upstream.next_id())
        self._acquire(credentials, challenge)

    def _acquire(self, credentials: CallCredentials, challenge: Challenge | None) -> None:
        self.enter_phase(CREDENTIAL)
        work = self._acquire_and_enter(credentials, challenge)
        self.pending = task = asyncio.get_running_loop().create_task(work, name="acquire a credential")
        self.context.keep_task(task)

    async def _acquire_and_enter(self, credentials: CallCredentials, challenge: Challenge | None) -> None:
        refused_credential, owner = self._credential, self._owner
        try:
            self._credential = await credentials.acquire(owner.identity, self.deadline, refused_credential, challenge)
            self.pending = None
            self._enter_guard()
        except asyncio.CancelledError:
            if not self.done:
                owner.give_up(McpError("the gateway was stopped before it sent the request"))
            raise
        except Exception as failure:  # noqa: BLE001  # the edge of the task; `give_up` logs all but McpErrors
            owner.give_up(failure)

    def _return_ticket(self, error: Exception | None, *, abandoned: bool = False) -> None:
        """Return the attempt's ticket to the server's guard; no-op after the first time in an attempt."""
        ticket = self._ticket
        if ticket:
            self._ticket = QUEUED
            self.route.guard.leave(ticket, error, self._responses_seen, abandoned=abandoned, tool=self.route.name)

    def _retry_later(self, error: Exception) -> bool:
        """Schedule a retry of the failed attempt; False where it is not retried."""
        request = self._outgoing
        if self.done or request is None or self._attempts > self.route.retries or not isinstance(error, McpError):
            return False
        guard = self.route.guard
        wait = next_delay(
            error,
            attempt=self._attempts,
            retries=self.route.retries,
            idempotent=self.idempotent,
            left=self.deadline - guard.clock(),
            random=guard.random(),
        )
        if wait is None or not guard.may_retry():
            return False
        self._outgoing = request.with_id(self.route.upstream.next_id())
        self.enter_phase(BACKOFF, self.answered_at)
        self.pending = asyncio.get_running_loop().call_later(wait, self._attempt_again)
        return True

    def _attempt_again(self) -> None:
        self.pending = None
        if not self.done:
            self.begin()
