"""Attempts of one request at its server: admission by the server's guard, sending, and retries.

Held by the calls of clients and by those that a bridge makes for them. An upstream calls it back from its parser; a
task waits only where the era in which the server serves the client has to be negotiated first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_api.reports import NEUTRAL
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.watched_calls import NOT_AGAIN
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.ports import Pending, Ticket
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.recent.phases import ATTEMPT, BACKOFF, NEVER, QUEUE, SESSION, CallPhase, CallTrail
from fairlead_gateway.reports.outcomes import outcome_of
from fairlead_gateway.tracing.spans import CallSpan
from fairlead_gateway.upstream.guard import PLAIN, QUEUED
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import McpError, Timeout
from fairlead_mcp.messages import Message, ResultMembers
from fairlead_mcp.retries import next_delay


@mypyc_attr(allow_interpreted_subclasses=True)
class AttemptOwner:
    """Decides what a request to a server is, and takes its outcome and what the server sends before it.

    A class and no Protocol: compiled code calls a method of a compiled class ten times as fast.
    """

    __slots__ = ()

    @property
    def agent(self) -> str:
        """Agent that the request is counted for."""
        return ""

    def build_request(self, modern: bool) -> UpstreamRequest | None:
        """The request for a server of that era; None where it has been answered without one. Raises McpError."""
        raise NotImplementedError  # of attempts that are over, too: they fail, and free their place

    def accept_result(self, result: Raw, members: ResultMembers | None) -> None:
        """The raw result of the last attempt; `members` are its own, where they were read already."""

    def give_up(self, error: Exception) -> None:
        """The error of the last attempt. A McpError, but for defects of the gateway."""

    def relay(self, message: Message) -> bool:
        """Pass a notification of the server on; True for progress of this request."""
        return False

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """Have a request of the server answered, by its client or with an error."""
        answer(jsonrpc.reply_to_server(message))

    def pause(self) -> None:
        """Pause the client's stream as the server paused its own (SEP-1699); no-op unless overridden."""

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent."""
        return False

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when the client reads again, or is gone."""
        go_on()


_NOBODY: Final = AttemptOwner()
"""Owner of attempts that are over."""


class Attempts(ResponseSink):
    """Attempts of one request. `started` is in seconds of the context's clock; the owner has to `release` it."""

    __slots__ = (
        "_attempts",
        "_measured",
        "_outgoing",
        "_owner",
        "_responses_seen",
        "_ticket",
        "_watched",
        "answered_at",
        "client",
        "context",
        "done",
        "idempotent",
        "moved_to",
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
        """Client whose own session with the server is used."""
        self.idempotent = route.idempotent
        self.span: CallSpan | None = None
        """Where calls are traced."""
        self.done = False
        """Whether it was released."""
        self._outgoing: UpstreamRequest | None = None
        self.pending: Pending | asyncio.Task[None] | asyncio.TimerHandle | None = None
        """Work that its end cancels: an attempt, a wait for the next one, or a task between attempts."""
        self._attempts = 0
        self._ticket: Ticket = QUEUED
        self._responses_seen = 0
        self._measured = 0
        """Number of the attempt at its tool's meter; 0 between attempts."""
        self.moved_to = NEVER
        """Deadline that its last progress led to."""
        self._watched = False
        """Whether its deadline moves, and its upstream would wait for the last one."""
        self.sent_at = NEVER
        """When its last attempt began, unless that is in `trail`."""
        self.answered_at = NEVER
        """When that ended."""
        self.trail: CallTrail | None = None
        """Phases beside its last attempt; None for a plain call."""

    @property
    def agent(self) -> str:
        return self._owner.agent

    @property
    def deadline(self) -> float:
        return self.started + self.route.timeout if self.moved_to < 0 else self.moved_to

    def begin(self) -> None:
        """Send it as soon as its server's guard admits it. Raises nothing."""
        guard = self.route.guard
        if guard.enter_now():
            self.proceed(PLAIN)
            return
        try:
            ticket = guard.enter(self, retry=self._attempts > 0 or self.route.task is not None)  # no quota is on polls
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
        except Exception as error:  # noqa: BLE001  # it may be called from another call's end; `give_up` logs defects
            self.take_error(error)

    def reject(self, error: McpError) -> None:
        self._owner.give_up(error)

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self.answered_at = self.context.clock()
        if self._ticket:
            self._ticket = QUEUED
            self.route.guard.leave_well()
        self._owner.accept_result(result, members)

    def take_error(self, error: Exception) -> None:
        self.answered_at = self.context.clock()
        # the caller's own time says nothing of the tool
        own = isinstance(error, Timeout) and self._is_bounded_by_caller()
        self.measure(NEUTRAL if own else outcome_of(error))
        if self.span is not None:
            self.span.end_attempt(type(error).__name__)
        self._leave_attempt(type(error).__name__)
        self._leave(error, given_up=own)
        if not self._retry_later(error):
            self._owner.give_up(error)

    def notify(self, message: Message) -> None:
        self.route.guard.responses_seen += 1
        if self._owner.relay(message):
            self._extend_deadline()

    def ask(self, message: Message, answer: AnswerServer) -> None:
        self.route.guard.responses_seen += 1
        self.measure(NEUTRAL)  # from here on it is a person or a model that takes its time
        self._owner.ask(message, answer)

    def pause(self) -> None:
        self._owner.pause()

    @property
    def congested(self) -> bool:
        return self._owner.congested

    def when_writable(self, go_on: Callable[[], None]) -> None:
        self._owner.when_writable(go_on)

    def begin_again(self) -> None:
        """Send another request in place of the last one, with attempts of its own."""
        self._outgoing = None
        self._attempts = 0
        self.begin()

    def release(self, *, listens: bool = False) -> None:
        """Let go of the owner, who holds this and is kept until the garbage collector comes otherwise. With `listens`
        it still gets messages of the server: a session keeps the sink that subscribed last, for updates.
        """
        self.done = True
        self.pending = None
        if not listens:
            self._owner = _NOBODY
        self._unwatch()

    def measure(self, outcome: str) -> None:
        """Record how long the attempt took, for the operator; no-op after the first time in an attempt."""
        number, meter = self._measured, self.route.meter
        if number and meter is not None:
            self._measured = 0
            meter.end(number, self.context.clock() if self.answered_at < 0 else self.answered_at, outcome)

    def stop(self) -> None:
        """Give the attempt up, at the server too."""
        pending, self.pending = self.pending, None
        if self._ticket == QUEUED:
            self.route.guard.withdraw(self)
        self.measure(NEUTRAL)
        self._leave(None, given_up=True)
        if pending is not None:
            pending.cancel()

    def watch_deadline(self) -> float:
        """Deadline for the upstream of a request that asks for progress, which moves its own one up to there."""
        route = self.route
        longest = self.started + route.longest
        if longest <= self.deadline:
            return self.deadline
        if not self._watched:
            self._watched = True
            self.context.watched.add(self, self.deadline)
        return longest

    def _extend_deadline(self) -> None:
        """The server reported progress: begin its time again (MCP, Lifecycle, "Timeouts"), but that of nobody else."""
        if self._watched:
            route = self.route
            self.moved_to = min(self.context.clock() + route.binding.timeout, self.started + route.longest)

    def timeout_message(self) -> str:
        """Message for an attempt that timed out at the server: which bound it was."""
        # not by durations, of which rounding may leave a little more or less than `longest`
        bounded = self.moved_to >= self.started + self.route.longest
        return self.route.timeout_message(self.moved_to >= 0, 0.0 if bounded else self.moved_to - self.started)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self.context.watched.discard(self)

    def look_at_time(self, now: float) -> float:
        """End the attempt at a deadline that has come; implements WatchedCall. What comes between attempts has a limit
        of its own.
        """
        deadline, pending = self.deadline, self.pending
        if deadline > now or not self._ticket or isinstance(pending, asyncio.Task):
            return deadline
        self._unwatch()
        self.pending = None
        if pending is not None:
            pending.cancel()
        self.take_error(Timeout("it was not answered in time", sent=True))
        return NOT_AGAIN

    def enter_phase(self, kind: str, since: float = NEVER) -> None:
        """Note what the call waits for beside attempts, from now on unless it began before."""
        self._leave_attempt("")
        if self.trail is None:
            self.trail = CallTrail()
        self.trail.begin(kind, self.context.clock() if since < 0 else since)

    # Inside

    def _is_bounded_by_caller(self) -> bool:
        """Whether its deadline is that of its caller or of a tier."""
        if self.moved_to < 0:
            return self.route.caller_deadline
        return self.route.caller_longest and self.moved_to >= self.started + self.route.longest

    def _leave_attempt(self, error: str) -> None:
        """Put the attempt that is over into the trail, before something else begins; no-op where there is none."""
        if self.sent_at >= 0:
            if self.trail is None:
                self.trail = CallTrail()
            end = self.context.clock() if self.answered_at < 0 else self.answered_at
            self.trail.add(CallPhase(ATTEMPT, self.sent_at, end, error))
            self.sent_at = NEVER

    def _send(self, request: UpstreamRequest) -> None:
        route = self.route
        if self.span is not None:
            params, lines = self.span.attempt(jsonrpc.decode_object(request.params))
            request = request.with_trace(jsonrpc.encode(params), lines)  # each attempt has a span of its own
        now = self.context.clock()
        if self.trail is not None:
            self.trail.end(now)
        self.sent_at = now
        self.answered_at = NEVER
        meter = route.meter
        if meter is not None:
            self._measured = meter.begin(now)
        pending = route.upstream.send(request, self)
        if self._ticket:  # else it is over already
            self.pending = pending

    def _negotiate(self) -> None:
        self.enter_phase(SESSION)
        self.pending = task = asyncio.get_running_loop().create_task(self._send_negotiated(), name="negotiate")
        self.context.own(task)

    async def _send_negotiated(self) -> None:
        try:
            modern = await self.route.upstream.negotiate(self.client, self.deadline)
            request = self._outgoing = self._owner.build_request(modern)
            if request is not None:
                self._send(request)
        except asyncio.CancelledError:
            if not self.done:
                self.take_error(McpError("the request was stopped with the gateway"))
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `give_up` logs all but errors of the wire
            self.take_error(error)

    def _leave(self, error: Exception | None, *, given_up: bool = False) -> None:
        """Free the attempt's place at the server; no-op after the first time in an attempt."""
        ticket = self._ticket
        if ticket:
            self._ticket = QUEUED
            self.route.guard.leave(ticket, error, self._responses_seen, given_up=given_up, tool=self.route.name)

    def _retry_later(self, error: Exception) -> bool:
        """Whether another attempt will follow."""
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


class ClientCall(AttemptOwner):
    """A client's request to a server: what it is, what its checks have set, and the attempts that are made of it."""

    __slots__ = (
        "attempts",
        "context",
        "continued",
        "denied",
        "exchange",
        "level",
        "limit",
        "param_lines",
        "refusal",
        "request",
        "rounds",
        "route",
    )

    def __init__(
        self, context: CallContext, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes
    ) -> None:
        self.context = context
        self.exchange = exchange
        self.route = route
        self.request = request
        self.attempts = Attempts(self, context, route, context.clock())
        self.param_lines = param_lines
        """`Mcp-Param-*`, as lines of an HTTP head."""
        self.level: str | None = None
        """Least severe log message that the client asked for."""
        self.continued = False
        """Whether it goes on with a call that was answered by questions (SEP-2322)."""
        self.rounds = 0
        """Times that a modern server asked a legacy client."""
        self.refusal = ""
        """Why the gateway did not let it be answered by its server, as the client was told."""
        self.denied = ""
        """Policy that does not allow its arguments."""
        self.limit = ""
        """Limit that refused it because there were too many calls."""

    @property
    def done(self) -> bool:
        """Whether it is answered, or nobody waits for its answer any more."""
        return self.attempts.done

    @property
    def own_session(self) -> bytes | None:
        """Id of the client's session, where it was signed here: another may be anybody's."""
        request = self.request
        return request.session if request.opened is not None else None

    def finish(self, result: Raw, members: ResultMembers | None = None, *, from_modern: bool) -> None:
        """Answer with a server's result; `members`: read already. Raises ANSWER_ERRORS for anything else."""
        raise NotImplementedError

    def answer_with_questions(self, questions: bytes) -> None:
        """Answer a modern client with the questions of a legacy server, as its result. Raises ANSWER_ERRORS."""
        raise NotImplementedError

    def reject_answer(self, error: Exception) -> None:
        """Give up because of what the server answered."""
        raise NotImplementedError
