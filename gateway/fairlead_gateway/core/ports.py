"""Interfaces of the objects that a route refers to: upstream, admission guard, recorder, meter and schema checks.

Guard, recorder and meter are base classes, not Protocols: every call uses them, and code compiled by mypyc calls a
method of a compiled class ten times as fast as a method of a Protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.outbound import CallCredential
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
    """A call waiting for admission by an `AdmissionGuard`.

    Unless the call is withdrawn from the queue, the guard calls `proceed` or `reject` exactly once. These methods must
    not raise.
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
    """Random numbers from 0 to 1, which vary the delays of retries."""
    responses_seen: int
    """Number of responses and other messages from the server so far, which show that the server still answers."""

    @property
    def state(self) -> str:
        """State of the circuit breaker."""
        raise NotImplementedError

    def enter_now(self) -> bool:
        """Admit a call with a plain ticket if it is below all limits and needs no further check; False otherwise."""
        raise NotImplementedError

    def enter(self, waiter: Waiter, *, retry: bool = False) -> Ticket:
        """Admit a call and return its ticket, or queue the call, which gets its ticket by `Waiter.proceed` later.

        Returns `QUEUED` for a queued call. `retry` exempts a call from the rate limit. Raises McpError for a refusal.
        """
        raise NotImplementedError

    def still_answers(self) -> bool:
        """Whether the server responded recently and no call has failed since."""
        raise NotImplementedError

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a call from the queue; no-op if the call is not queued."""
        raise NotImplementedError

    def leave(
        self, ticket: Ticket, error: Exception | None, responses_seen: int, *, abandoned: bool = False, tool: str = ""
    ) -> None:
        """Report the end of a call. `error` is None for a success.

        `responses_seen` is the value of the guard's attribute when the call was admitted. `abandoned`: the gateway did
        not wait for the answer. `tool` is for logs.
        """
        raise NotImplementedError

    def leave_after_success(self) -> None:
        """Report the end of a call that was admitted with any ticket and has succeeded."""
        raise NotImplementedError

    def may_retry(self) -> bool:
        """Take one retry from the budget; False if none is left."""
        raise NotImplementedError


class CallRecorder:
    """Records number and durations of operations: of one MCP method and, for `tools/call`, of one tool."""

    __slots__ = ()

    def record(self, nanoseconds: int, error_type: str = "") -> None:
        """Count one operation. `error_type` is one of a fixed set, or empty for a success."""
        raise NotImplementedError

    def set_exemplar(self, nanoseconds: int, error_type: str, trace_id: str, span_id: str) -> None:
        """Store a span as the exemplar of the histogram bucket of its duration; ids are hexadecimal."""
        raise NotImplementedError


class AttemptMeter:
    """Measures the duration of attempts to call one tool at its server."""

    __slots__ = ()

    def begin(self, now: float) -> int:
        """Record the start of an attempt, and return its number. `now` is in seconds of the gateway's clock."""
        raise NotImplementedError

    def end(self, number: int, now: float, outcome: str) -> None:
        """Record the end and the outcome of the attempt that `begin` gave this number."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """Discard the attempt that `begin` gave this number, because it begins later."""
        raise NotImplementedError


class SchemaCheck(Protocol):
    """Validates arguments and results against the schemas of one tool."""

    declares_output: bool
    """Whether the tool has an `outputSchema`; if not, `result` always returns None."""

    arguments_checker: Checker | None
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
    def rule_names(self) -> str:
        """Names of the policy rules, for logs."""
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
    def accepts_tasks(self) -> bool:
        """Whether calls may create tasks now (SEP-2663): another task may run, and the gateway can reach it later."""
        return True

    def next_id(self) -> bytes:
        """A new request id, as raw JSON."""
        raise NotImplementedError

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        """Whether requests of a client are sent in the modern era; None if only `negotiate` can decide that."""
        return self.modern

    async def negotiate(
        self, client: ClientPeer | None, deadline: float, credential: CallCredential | None = None
    ) -> bool:
        """Whether requests of a client are sent in the modern era; opens a session, with `credential`, if needed.

        Raises McpError.
        """
        return self.modern

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Send a request, after opening a session if needed; `sink` receives the outcome. Never raises."""
        raise NotImplementedError

    def end_session(self, session: bytes) -> None:
        """Drop all state of a client session that has ended; `session` is its id."""

    def has_sessions_of(self, person: bytes) -> bool:
        """Whether any session or process of the server is open that was opened with the credential of an outbound
        user.
        """
        return False

    def end_sessions_of(self, person: bytes) -> None:
        """End all sessions and processes that were opened with the credential of an outbound user, because the
        credential has ended or was replaced.
        """

    def gauges(self) -> Gauges:
        return Gauges()

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        """Wait up to `grace` seconds for requests in flight, then close all connections. New requests are refused.

        `replaced`: another upstream of the same server is now in use, which may share the server's process. The process
        is then not stopped.
        """
