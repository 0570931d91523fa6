"""Ports of a route: upstream, guard, recorder, meter and checks, as the layers that hold routes know them.

Pure declarations. Guard, Recorder and Meter are classes with methods to override, not Protocols: every call uses them,
and compiled code calls a method of a compiled class ten times as fast as one of a Protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_mcp.errors import McpError
from fairlead_tools.refusal import Refusal
from fairlead_tools.validation.checker import Checker

Ticket: TypeAlias = int
"""How a call was admitted; to be handed back by `Guard.leave`."""

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"
BREAKER_STATES: Final = (CLOSED, HALF_OPEN, OPEN)
"""States of a circuit breaker."""


class Waiter(Protocol):
    """A call waiting for admission. Of one that was queued and not withdrawn, one of `proceed` and `reject` is
    called, once; it may not raise.
    """

    @property
    def agent(self) -> Hashable:
        """The agent that calls: agents that wait are admitted in turns."""
        ...

    @property
    def deadline(self) -> float:
        """Seconds of the guard's clock."""
        ...

    def proceed(self, ticket: Ticket) -> None: ...

    def reject(self, error: McpError) -> None: ...


class AdmissionGuard:
    """Admission of calls to one server: concurrency, rate, circuit breaker, retry budget."""

    clock: Callable[[], float]
    """Seconds, the clock of deadlines."""
    random: Callable[[], float]
    responses_seen: int
    """Answers and other signs of life of the server so far."""

    @property
    def state(self) -> str:
        """State of the circuit breaker."""
        raise NotImplementedError

    def enter_now(self) -> bool:
        """Whether there is room and nothing else to be looked at: the call is in, on a plain ticket."""
        raise NotImplementedError

    def enter(self, waiter: Waiter, *, retry: bool = False) -> Ticket:
        """The ticket, or QUEUED: the waiter will be told. `retry` marks a retry. Raises McpError."""
        raise NotImplementedError

    def still_answers(self) -> bool:
        """Whether the server answered of late and nothing failed since."""
        raise NotImplementedError

    def withdraw(self, waiter: Waiter) -> None:
        """Take a waiter out of the queue, if it is there."""
        raise NotImplementedError

    def leave(
        self, ticket: Ticket, error: Exception | None, responses_seen: int, *, given_up: bool = False, tool: str = ""
    ) -> None:
        """A call is over. `responses_seen` is what `responses_seen` was when it entered."""
        raise NotImplementedError

    def leave_well(self) -> None:
        """`leave` of a call on any ticket that was answered without an error."""
        raise NotImplementedError

    def may_retry(self) -> bool:
        """Take a retry out of the budget, if one is left."""
        raise NotImplementedError


class CallRecorder:
    """Counts the operations of one method of one tool."""

    __slots__ = ()

    def record(self, nanoseconds: int, error_type: str = "") -> None:
        """Count one operation. `error_type` is from a closed set, empty where there was no error."""
        raise NotImplementedError

    def exemplify(self, nanoseconds: int, error_type: str, trace_id: str, span_id: str) -> None:
        """Keep a span as the example of operations that took about as long; ids in hexadecimal digits."""
        raise NotImplementedError


class AttemptMeter:
    """Times the attempts of one tool at its server."""

    __slots__ = ()

    def begin(self, now: float) -> int:
        """An attempt leaves; the number to end it with. `now`: seconds of the gateway's clock."""
        raise NotImplementedError

    def end(self, number: int, now: float, outcome: str) -> None:
        """It is over."""
        raise NotImplementedError


class SchemaCheck(Protocol):
    """The schemas of one tool's definition."""

    declares_output: bool
    """Where this is False, `result` has nothing to say."""

    of_arguments: Checker | None
    """Checker that `arguments` asks, for callers that are compiled as it is; None: ask `arguments`."""

    def arguments(self, arguments: bytes | Raw | None) -> str | None:
        """Errors of a call's raw arguments, one a line; None where nothing is known to be wrong."""
        ...

    def result(self, result: bytes | Raw) -> str | None:
        """Errors of the `structuredContent` of a raw result other than an error."""
        ...

    def count_mismatch(self, server: str) -> None:
        """Count a result of that server that did not fit."""
        ...


class ArgumentConstraint(Protocol):
    """Bounds that policies set to the arguments of one tool."""

    @property
    def by(self) -> str:
        """The rules, for who reads logs."""
        ...

    def refusal(self, arguments: bytes | Raw | None) -> Refusal | None:
        """Why a call with these raw arguments is not made; None: it may be."""
        ...


class Gauges(NamedTuple):
    """An upstream's connections and calls at one moment."""

    busy: int = 0
    idle: int = 0
    waiting: int = 0
    pods_serving: int = 0
    """Pods that calls are spread over; 0 where only one is known."""
    pods_left: int = 0
    """Pods that get no calls, for they do not answer."""


class Pending(Protocol):
    """A request without an answer yet."""

    def cancel(self) -> None:
        """Cancel it at the server too. The sink hears nothing more. No-op once it is answered."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Upstream:
    """One server as it is reached now: an endpoint, a credential, an era."""

    @property
    def modern(self) -> bool:
        """Whether it is spoken to in 2026-07-28 or later."""
        raise NotImplementedError

    @property
    def keeps_tasks(self) -> bool:
        """Whether a call may become a task now, which is there until its end (SEP-2663)."""
        return True

    def next_id(self) -> bytes:
        """A request id, raw JSON, that this upstream has never seen."""
        raise NotImplementedError

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        """Whether requests of such a client are made in the modern era; None: only `negotiate` can tell."""
        return self.modern

    async def negotiate(self, client: ClientPeer | None, deadline: float) -> bool:
        """As `modern_for`, after opening a session where that is needed to tell. Raises McpError."""
        return self.modern

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Send a request, after opening a session where there is none; `sink` gets the outcome. Never raises."""
        raise NotImplementedError

    def end_session(self, session: bytes) -> None:
        """The client's session of that id has ended: so does all that is kept for it."""

    def gauges(self) -> Gauges:
        return Gauges()

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        """Let running requests end for up to `grace` seconds, then close everything. Later requests are refused.
        `replaced`: another upstream of the same server has taken over, and with it a process that they share.
        """
