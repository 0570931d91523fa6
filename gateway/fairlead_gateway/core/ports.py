"""Interfaces that a route refers to: upstream, admission guard, recorder, meter and schema checks.

Declarations only. Guard, recorder and meter are base classes, not Protocols: every call uses them, and compiled code
calls a method of a compiled class ten times as fast as one of a Protocol.
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
"""How a call was admitted; it has to be passed to `AdmissionGuard.leave`."""

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"
BREAKER_STATES: Final = (CLOSED, HALF_OPEN, OPEN)
"""States of a circuit breaker."""


class Waiter(Protocol):
    """A call waiting for admission. Unless a queued call is withdrawn, `proceed` or `reject` is called exactly once;
    they must not raise.
    """

    @property
    def agent(self) -> Hashable:
        """The calling agent; waiting agents are admitted in rotation."""
        ...

    @property
    def deadline(self) -> float:
        """Time on the guard's clock, in seconds, at which the call times out."""
        ...

    def proceed(self, ticket: Ticket) -> None: ...

    def reject(self, error: McpError) -> None: ...


class AdmissionGuard:
    """Admits calls to one server: concurrency, rate, circuit breaker, retry budget."""

    clock: Callable[[], float]
    """Monotonic clock of deadlines, in seconds."""
    random: Callable[[], float]
    responses_seen: int
    """Responses and other messages from the server so far."""

    @property
    def state(self) -> str:
        """State of the circuit breaker."""
        raise NotImplementedError

    def enter_now(self) -> bool:
        """Admit a call if there is room and no further check is needed; True if it was admitted, with a
        plain ticket.
        """
        raise NotImplementedError

    def enter(self, waiter: Waiter, *, retry: bool = False) -> Ticket:
        """Admit a call and return its ticket, or queue it and return `QUEUED`; then `waiter` is notified. `retry` marks
        a retry. Raises McpError.
        """
        raise NotImplementedError

    def still_answers(self) -> bool:
        """Whether the server responded recently and no call has failed since."""
        raise NotImplementedError

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a waiter from the queue; no-op if it is not queued."""
        raise NotImplementedError

    def leave(
        self, ticket: Ticket, error: Exception | None, responses_seen: int, *, abandoned: bool = False, tool: str = ""
    ) -> None:
        """Report the end of a call. `responses_seen` is the value of the attribute when the call was admitted;
        `abandoned` says that the gateway abandoned it.
        """
        raise NotImplementedError

    def leave_well(self) -> None:
        """Report the end of a call without an error, whatever its ticket."""
        raise NotImplementedError

    def may_retry(self) -> bool:
        """Take one retry from the budget; False if none is left."""
        raise NotImplementedError


class CallRecorder:
    """Counts the operations of one method of one tool."""

    __slots__ = ()

    def record(self, nanoseconds: int, error_type: str = "") -> None:
        """Count one operation. `error_type` is one of a fixed set, or empty for a success."""
        raise NotImplementedError

    def exemplify(self, nanoseconds: int, error_type: str, trace_id: str, span_id: str) -> None:
        """Store a span as the exemplar of the histogram bucket of its duration; ids are hexadecimal."""
        raise NotImplementedError


class AttemptMeter:
    """Measures the duration of attempts to call one tool at its server."""

    __slots__ = ()

    def begin(self, now: float) -> int:
        """Start an attempt and return the number to end it with. `now` is in seconds of the gateway's clock."""
        raise NotImplementedError

    def end(self, number: int, now: float, outcome: str) -> None:
        """End the attempt with that number."""
        raise NotImplementedError


class SchemaCheck(Protocol):
    """Validates arguments and results against the schemas of one tool."""

    declares_output: bool
    """Whether the tool has an `outputSchema`; if not, `result` always returns None."""

    of_arguments: Checker | None
    """The checker behind `arguments`, which compiled callers use directly; None if they have to call `arguments`."""

    def arguments(self, arguments: bytes | Raw | None) -> str | None:
        """Errors in the raw arguments of a call, one per line; None if there are none."""
        ...

    def result(self, result: bytes | Raw) -> str | None:
        """Errors in the `structuredContent` of a raw result that is not an error; None if there are none."""
        ...

    def count_mismatch(self, server: str) -> None:
        """Count a result of `server` that does not match its schema."""
        ...


class ArgumentConstraint(Protocol):
    """Restrictions of policies on the arguments of one tool."""

    @property
    def by(self) -> str:
        """Names of the rules for logs."""
        ...

    def refusal(self, arguments: bytes | Raw | None) -> Refusal | None:
        """Refusal of a call with these raw arguments; None if the rules allow it."""
        ...


class Gauges(NamedTuple):
    """Current numbers of an upstream's connections and calls."""

    busy: int = 0
    idle: int = 0
    waiting: int = 0
    pods_serving: int = 0
    """Pods that calls are distributed to; 0 if only one is known."""
    pods_left: int = 0
    """Pods that get no calls because they do not respond."""


class Pending(Protocol):
    """A request in flight."""

    def cancel(self) -> None:
        """Cancel the request, at the server too. The sink is not called afterwards. No-op after the response."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Upstream:
    """Connection to one server, with its current endpoint, credential and era."""

    @property
    def modern(self) -> bool:
        """Whether the server is used in the modern era (2026-07-28 or later)."""
        raise NotImplementedError

    @property
    def keeps_tasks(self) -> bool:
        """Whether calls may create tasks now, that is, whether the task can still be reached later (SEP-2663)."""
        return True

    def next_id(self) -> bytes:
        """A new request id, as raw JSON."""
        raise NotImplementedError

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        """Whether requests of a client are sent in the modern era; None if only `negotiate` can decide that."""
        return self.modern

    async def negotiate(self, client: ClientPeer | None, deadline: float) -> bool:
        """Whether requests of a client are sent in the modern era; opens a session if needed. Raises McpError."""
        return self.modern

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Send a request, after opening a session if needed; `sink` receives the outcome. Never raises."""
        raise NotImplementedError

    def end_session(self, session: bytes) -> None:
        """Drop all state of the client's session with that id, which has ended."""

    def gauges(self) -> Gauges:
        return Gauges()

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        """Wait up to `grace` seconds for requests in flight, then close all connections. New requests are refused.
        `replaced` says that a new upstream of the same server has taken over, including a process that both share.
        """
