"""Calls that are over, as one principal may read them: all of them or its own, filtered, as documents.

Who may read which: administrators all (so does everybody where nobody is asked who they are), a principal its own, and
anonymous callers of a gateway that knows others none, for nothing tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.dispatch import CALL
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.recent.ended_call import CallRefusal, EndedCall
from fairlead_gateway.recent.phases import ATTEMPT, timeline
from fairlead_gateway.recent.ring import ArgumentRenderer
from fairlead_tools import refusal
from fairlead_tools.names import exposed_name, tool_id

OK: Final = "ok"
FAILED: Final = "failed"
"""Filter for every outcome but OK."""
_WORDED: Final = frozenset(
    {
        refusal.BREAKER_OPEN,
        refusal.CANCELLED,
        refusal.CONNECTION_LOST,
        refusal.MISSING_CLIENT_CAPABILITY,
        refusal.OVER_BUDGET,
        refusal.RATE_LIMITED,
        refusal.RESULT_TOO_LARGE,
        refusal.STARTING,
        refusal.TIMEOUT,
    }
)
"""Outcomes whose words are the gateway's own: others may repeat arguments, or what a server said."""
MAX_VALUES: Final = 100
"""Values that one filter is offered."""


class CallFilter(msgspec.Struct, frozen=True):
    """Wishes of the reader; empty ones do not filter."""

    agent: str = ""
    """Agent or principal."""
    server: str = ""
    """`namespace/name`, or the name alone."""
    tool: str = ""
    """Exposed name, id, or the server's own name."""
    outcome: str = ""
    """`ok`, `failed`, or one outcome."""
    slow_ms: float = 0.0
    """Shortest duration."""


class CallSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One call, or another request to a server, that is over."""

    id: str
    at: str
    """RFC 3339, when it began."""
    method: str
    """Method of MCP: `tools/call`, `prompts/get`, `resources/read`, …"""
    name: str
    """Exposed name of a tool; of anything else, and of a tool that nobody has, what was asked for."""
    server: str = ""
    """`namespace/name`; absent for tools of the gateway's own."""
    agent: str
    """Name that policies know the caller by, else its principal."""
    outcome: str
    """`ok`, `tool_error`, a code of refusals, or the number of a JSON-RPC error."""
    duration_ms: float
    """Time that its client waited."""
    trace_id: str = ""
    """32 hexadecimal digits."""


class PhaseDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One phase of a call: `checks`, `cache`, `queue`, `session`, `attempt`, `backoff`, `client`, `task` or
    `translation`.
    """

    phase: str
    start_ms: float
    """From the beginning of the call on."""
    duration_ms: float
    error: str = ""
    """Kind of error that an attempt ended with."""


class CallDetails(CallSummary, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All that is kept of one call."""

    principal: str
    client: str = ""
    """IP address."""
    tier: str | None = None
    """Latency tier of the client."""
    attempts: int
    """Requests to the server."""
    arguments_bytes: int
    result_bytes: int
    message: str = ""
    """Why the gateway refused it; what servers say is not kept, nor what is wrong with arguments."""
    reason: str = ""
    """Policy and rule that denied it, for administrators."""
    limit: str = ""
    """Limit that refused it: that of `agent`, `policy`, `tool` or `server`."""
    phases: list[PhaseDocument]
    """Without gaps, in the order of time."""
    arguments: Any = None
    """As the settings of the audit log have them, and only where that has the call: full or redacted."""
    arguments_hash: str = ""
    arguments_left_out: str = ""
    """Why they are not here although calls have them."""


class CallReader:
    """Reads calls on behalf of one principal, named by a snapshot."""

    def __init__(self, identity: Identity, snapshot: Snapshot, *, administers: bool) -> None:
        self._owner = identity.owner
        self._snapshot = snapshot
        self._administers = administers

    def visible(self, call: EndedCall) -> bool:
        """Whether the principal may know of the call."""
        return self._administers or (self._owner != "" and call.caller.owner == self._owner)

    def matches(self, call: EndedCall, wanted: CallFilter) -> bool:
        """Whether it is visible and passes the filter."""
        return (
            self.visible(call)
            and call.seconds * 1000 >= wanted.slow_ms
            and (not wanted.agent or wanted.agent in (_agent(call), call.caller.principal))
            and (not wanted.outcome or _matches(call, wanted.outcome))
            and (not wanted.server or self._is_of(call, wanted.server))
            and (not wanted.tool or self._is_named(call, wanted.tool))
        )

    def name(self, call: EndedCall) -> str:
        """Name that clients have for what was called."""
        if call.server is None or call.hidden or call.method != CALL:
            return call.name
        served = self._snapshot.servers.get(call.server)
        prefix = None if served is None else served.catalog.prefix
        return tool_id(call.server, call.name) if prefix is None else exposed_name(prefix, call.name)

    def server(self, call: EndedCall) -> ServerKey | None:
        """Its server, as far as the principal may know of that."""
        return call.server if self._administers or not call.hidden else None

    def summary(self, call: EndedCall, ident: str, epoch: float) -> CallSummary:
        """Document of one call in a list."""
        return CallSummary(**self._common(call, ident, epoch))

    def details(self, call: EndedCall, ident: str, epoch: float, tell: ArgumentRenderer | None) -> CallDetails:
        """Document of one call. `tell` says what there is to say of arguments."""
        phases = [*timeline(call.trail, call.sent, call.answered, call.began, call.ended)]
        why = call.why or CallRefusal()
        return CallDetails(
            **self._common(call, ident, epoch),
            principal=call.caller.principal,
            client=call.address,
            tier=call.tier,
            attempts=sum(phase.kind == ATTEMPT for phase in phases),
            arguments_bytes=call.arguments_bytes,
            result_bytes=call.result_bytes,
            message=why.message if call.outcome in _WORDED else "",
            reason=why.reason if self._administers else "",
            limit=why.limit,
            phases=[
                PhaseDocument(phase.kind, _ms(phase.begin), _ms(phase.end - phase.begin), phase.error)
                for phase in phases
            ],
            **_members(call.arguments, tell),
        )

    def _common(self, call: EndedCall, ident: str, epoch: float) -> dict[str, Any]:
        server = self.server(call)
        began = datetime.fromtimestamp(call.began + epoch, UTC)
        return {
            "id": ident,
            "at": began.isoformat(timespec="milliseconds"),
            "method": call.method,
            "name": self.name(call),
            "server": "" if server is None else str(server),
            "agent": _agent(call),
            "outcome": call.outcome or OK,
            "duration_ms": _ms(call.seconds),
            "trace_id": call.trace_id,
        }

    def _is_of(self, call: EndedCall, wanted: str) -> bool:
        server = self.server(call)
        return server is not None and wanted in (server.name, str(server))

    def _is_named(self, call: EndedCall, wanted: str) -> bool:
        if wanted == call.name or wanted == self.name(call):
            return True
        server = self.server(call)
        return server is not None and wanted == tool_id(server, call.name)


class CallValues(msgspec.Struct, frozen=True, rename="camel"):
    """Values of the filters that find something among all calls that the reader may see; the first 100 of each."""

    agents: list[str]
    servers: list[str]
    tools: list[str]
    outcomes: list[str]


def values_of(reader: CallReader, calls: Iterable[EndedCall]) -> CallValues:
    """Values for the filters. `calls` are visible to the reader."""
    seen = {(_agent(call), reader.server(call), call.outcome or OK) for call in calls}
    tools = {reader.name(call) for call in calls}
    servers = {str(server) for _, server, _ in seen if server is not None}
    agents, outcomes = {agent for agent, _, _ in seen}, {outcome for _, _, outcome in seen}
    return CallValues(*(sorted(values)[:MAX_VALUES] for values in (agents, servers, tools, outcomes)))


def newest(
    reader: CallReader, wanted: CallFilter, calls: Iterable[tuple[int, EndedCall]]
) -> Iterator[tuple[int, EndedCall]]:
    """Numbers and calls that pass, in the order in which they are given."""
    return ((number, call) for number, call in calls if reader.matches(call, wanted))


def _agent(call: EndedCall) -> str:
    return call.caller.agent or call.caller.principal


def _matches(call: EndedCall, wanted: str) -> bool:
    return call.outcome != "" if wanted == FAILED else (call.outcome or OK) == wanted


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _members(raw: bytes | None, tell: ArgumentRenderer | None) -> dict[str, Any]:
    if raw is None or tell is None:
        return {}
    if not raw:
        return {"arguments_left_out": "they are too large to be kept"}
    told = tell(Raw(raw))
    names = {"arguments": "arguments", "argumentsHash": "arguments_hash", "argumentsLeftOut": "arguments_left_out"}
    return {names[member]: value for member, value in told.items()}
