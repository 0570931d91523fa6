"""Ended calls, filtered by what a principal may read, as documents of the REST API.

Administrators may read all calls, and other principals their own calls. If authentication is off, everybody may read
all calls. Anonymous callers of a gateway with authentication may not read any calls, as they cannot be told apart.
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
"""Filter for all outcomes except OK."""
_SAFE_MESSAGES: Final = frozenset(
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
"""Outcomes whose messages are written by the gateway. Other messages may repeat arguments or output of a server."""
MAX_VALUES: Final = 100
"""Maximum number of values that are listed for one filter."""


class CallFilter(msgspec.Struct, frozen=True):
    """Filters for calls. Empty values do not filter."""

    agent: str = ""
    """Name of an agent or principal."""
    server: str = ""
    """Server as `namespace/name`, or its name alone."""
    tool: str = ""
    """Exposed name, id, or the server's name of a tool."""
    outcome: str = ""
    """`ok`, `failed` for all other outcomes, or a single outcome."""
    slow_ms: float = 0.0
    """Minimum duration in milliseconds."""


class CallSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Ended call of a tool, or another ended request to a server."""

    id: str
    at: str
    """Start of the call (RFC 3339)."""
    method: str
    """MCP method: `tools/call`, `prompts/get`, `resources/read`, …"""
    name: str
    """Exposed name of the tool; for other methods and unknown tools, the name in the request."""
    server: str = ""
    """Server as `namespace/name`; absent for the gateway's own tools."""
    agent: str
    """Name of the agent in policies; the principal if it has no such name."""
    outcome: str
    """`ok`, `tool_error`, the code of a refusal, or the number of a JSON-RPC error."""
    duration_ms: float
    """Time that the client waited."""
    trace_id: str = ""
    """Trace id, 32 hexadecimal digits."""


class PhaseDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One phase of a call: `checks`, `cache`, `queue`, `session`, `attempt`, `backoff`, `client`, `task` or
    `translation`.
    """

    phase: str
    start_ms: float
    """Start of the phase, relative to the start of the call."""
    duration_ms: float
    error: str = ""
    """Type of the error with which an attempt ended."""


class CallDetails(CallSummary, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All stored details of one call."""

    principal: str
    client: str = ""
    """IP address of the client."""
    tier: str | None = None
    """Latency tier of the client."""
    attempts: int
    """Number of requests to the server."""
    arguments_bytes: int
    result_bytes: int
    message: str = ""
    """Message of the gateway's refusal. Messages from servers and about arguments are not stored."""
    reason: str = ""
    """Policy and rule that denied the call, for administrators."""
    limit: str = ""
    """Scope of the limit that refused the call: `agent`, `policy`, `tool` or `server`."""
    phases: list[PhaseDocument]
    """Phases of the call, in chronological order and without gaps."""
    arguments: Any = None
    """Arguments, full or redacted as in the audit log; absent if the audit log does not contain the call."""
    arguments_hash: str = ""
    arguments_left_out: str = ""
    """Reason why the arguments of this call are missing, although the gateway records arguments."""


class CallReader:
    """Reads ended calls for one principal, with the names that the tools have in a snapshot."""

    def __init__(self, identity: Identity, snapshot: Snapshot, *, administers: bool) -> None:
        self._owner = identity.owner
        self._snapshot = snapshot
        self._administers = administers
        self._client_names: dict[ServerKey, dict[str, str]] = {}
        """Clients' names of renamed tools, by server and the server's name; filled for the servers of calls."""

    def may_see(self, call: EndedCall) -> bool:
        """Whether the principal may see the call."""
        return self._administers or (self._owner != "" and call.caller.owner == self._owner)

    def matches(self, call: EndedCall, call_filter: CallFilter) -> bool:
        """Whether a call is visible and matches the filter."""
        return (
            self.may_see(call)
            and call.seconds * 1000 >= call_filter.slow_ms
            and (not call_filter.agent or call_filter.agent in (_agent(call), call.caller.principal))
            and (not call_filter.outcome or _has_outcome(call, call_filter.outcome))
            and (not call_filter.server or self._has_server(call, call_filter.server))
            and (not call_filter.tool or self._has_tool(call, call_filter.tool))
        )

    def name(self, call: EndedCall) -> str:
        """Name under which clients know the called tool, prompt or resource."""
        if call.server is None or call.hidden or call.method != CALL:
            return call.name
        server = self._snapshot.servers.get(call.server)
        prefix = None if server is None else server.catalog.prefix
        client_name = self._shown_name(call.server, call.name)
        return tool_id(call.server, client_name) if prefix is None else exposed_name(prefix, client_name)

    def _shown_name(self, key: ServerKey, tool: str) -> str:
        client_names = self._client_names.get(key)
        if client_names is None:
            server = self._snapshot.servers.get(key)
            tools = () if server is None else server.tools
            client_names = self._client_names[key] = {
                each.name: each.shown_name for each in tools if each.renamed is not None
            }
        return client_names.get(tool, tool)

    def server(self, call: EndedCall) -> ServerKey | None:
        """Server of a call; None if there is none, or the principal may not see it."""
        return call.server if self._administers or not call.hidden else None

    def summary(self, call: EndedCall, ident: str, epoch: float) -> CallSummary:
        """Document of a call for a list."""
        return CallSummary(**self._common_members(call, ident, epoch))

    def details(
        self, call: EndedCall, ident: str, epoch: float, render_arguments: ArgumentRenderer | None
    ) -> CallDetails:
        """Document of a call with all details. `render_arguments` returns the members about arguments."""
        phases = [*timeline(call.trail, call.sent_at, call.answered_at, call.started_at, call.ended_at)]
        refusal = call.refusal or CallRefusal()
        return CallDetails(
            **self._common_members(call, ident, epoch),
            principal=call.caller.principal,
            client=call.address,
            tier=call.tier,
            attempts=sum(phase.kind == ATTEMPT for phase in phases),
            arguments_bytes=call.arguments_bytes,
            result_bytes=call.result_bytes,
            message=refusal.message if call.outcome in _SAFE_MESSAGES else "",
            reason=refusal.reason if self._administers else "",
            limit=refusal.limit,
            phases=[
                PhaseDocument(phase.kind, _ms(phase.begin), _ms(phase.end - phase.begin), phase.error)
                for phase in phases
            ],
            **_argument_members(call.arguments, render_arguments),
        )

    def _common_members(self, call: EndedCall, ident: str, epoch: float) -> dict[str, Any]:
        server = self.server(call)
        start = datetime.fromtimestamp(call.started_at + epoch, UTC)
        return {
            "id": ident,
            "at": start.isoformat(timespec="milliseconds"),
            "method": call.method,
            "name": self.name(call),
            "server": "" if server is None else str(server),
            "agent": _agent(call),
            "outcome": call.outcome or OK,
            "duration_ms": _ms(call.seconds),
            "trace_id": call.trace_id,
        }

    def _has_server(self, call: EndedCall, name: str) -> bool:
        server = self.server(call)
        return server is not None and name in (server.name, str(server))

    def _has_tool(self, call: EndedCall, name: str) -> bool:
        if name == call.name or name == self.name(call):
            return True
        server = self.server(call)
        return server is not None and name == tool_id(server, self._shown_name(server, call.name))


class CallValues(msgspec.Struct, frozen=True, rename="camel"):
    """Values of the filters, each of which matches a call that the reader may see; at most 100 per filter."""

    agents: list[str]
    servers: list[str]
    tools: list[str]
    outcomes: list[str]


def values_of(reader: CallReader, calls: Iterable[EndedCall]) -> CallValues:
    """Values of the filters. `calls` must be visible to the reader."""
    values = {(_agent(call), reader.server(call), call.outcome or OK) for call in calls}
    tools = {reader.name(call) for call in calls}
    servers = {str(server) for _, server, _ in values if server is not None}
    agents, outcomes = {agent for agent, _, _ in values}, {outcome for _, _, outcome in values}
    return CallValues(*(sorted(each)[:MAX_VALUES] for each in (agents, servers, tools, outcomes)))


def matching_calls(
    reader: CallReader, call_filter: CallFilter, calls: Iterable[tuple[int, EndedCall]]
) -> Iterator[tuple[int, EndedCall]]:
    """Numbered calls that the reader may see and that match the filter, in the order of `calls`."""
    return ((number, call) for number, call in calls if reader.matches(call, call_filter))


def _agent(call: EndedCall) -> str:
    return call.caller.agent or call.caller.principal


def _has_outcome(call: EndedCall, outcome: str) -> bool:
    return call.outcome != "" if outcome == FAILED else (call.outcome or OK) == outcome


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _argument_members(raw: bytes | None, render_arguments: ArgumentRenderer | None) -> dict[str, Any]:
    if raw is None or render_arguments is None:
        return {}
    if not raw:
        return {"arguments_left_out": "the arguments are too large to be stored"}
    members = render_arguments(Raw(raw))
    names = {"arguments": "arguments", "argumentsHash": "arguments_hash", "argumentsLeftOut": "arguments_left_out"}
    return {names[member]: value for member, value in members.items()}
