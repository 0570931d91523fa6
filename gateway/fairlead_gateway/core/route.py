"""Where one tool is called: everything that can be prepared before a request."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_gateway.core.ports import (
    AdmissionGuard,
    ArgumentConstraint,
    AttemptMeter,
    CallRecorder,
    SchemaCheck,
    Upstream,
)
from fairlead_gateway.core.quota import Caps, Quota
from fairlead_gateway.core.refusal import MISSING_CLIENT_CAPABILITY, Refusal
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_mcp.capabilities import declares
from fairlead_mcp.parameters import Parameter


class Route(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How calls of one tool are made: prepared once per snapshot, shared by all calls. Narrowed by copies alone, which
    `msgspec.structs.replace` makes of all attributes. Not compiled, for a Struct cannot be.
    """

    tool: Tool | None = None
    """None for prompts, resources and completions."""
    binding: ServerBinding
    server: Server
    name: str
    id: str = ""
    caps: Caps | None = None
    """Bounds of calls by all agents together; None for any number."""
    name_raw: Raw = Raw(b"")
    name_lines: bytes
    """`Mcp-Name` as a line of an HTTP head; empty where the method has none."""
    upstream: Upstream
    recorder: CallRecorder
    meter: AttemptMeter | None = None
    """Times the server's answers for the operator; None where nothing is timed."""
    timeout: float
    """Seconds that a call may take."""
    max_bytes: int
    """Bound of a result."""
    server_info: bytes
    guard: AdmissionGuard
    retries: int
    """Attempts after the first."""
    idempotent: bool
    per_client: bool
    cacheable_seconds: int = 0
    cache_scope: bytes = b""
    """Prefix of the keys of cached results."""
    offline: bool
    param_headers: tuple[Parameter, ...] = ()
    """Arguments that travel in headers too."""
    check: SchemaCheck | None = None
    """Schemas of arguments and results; None where they are not checked."""
    caller_deadline: bool = False
    """Whether `timeout` is the caller's own or that of a tier, and says nothing of the server."""
    closed: Refusal | None = None
    """Why it is not called; answered in place of the server. See `opens_to`."""
    counted: bool = False
    """Whether a quota or its caps bound how many calls there may be of it."""
    constraint: ArgumentConstraint | None = None
    """Bounds that policies set to the arguments; None: any are allowed."""
    escapes: bool = False
    """Whether policies want control characters in what its server says made visible."""
    quota: Quota | None = None
    """Bounds that policies set to the caller in the server's namespace; None: it may take up anything."""

    @property
    def requires(self) -> tuple[str, ...]:
        """Client capabilities without which its server does not know the tool."""
        return () if self.tool is None else self.tool.requires

    @property
    def bound_by(self) -> str:
        """Source of the limit on a call's time, in words."""
        if self.caller_deadline:
            return "the time that the caller or its latency tier gives it"
        limit_ms = None if self.tool is None else self.tool.max_duration_ms
        if limit_ms is not None and limit_ms / 1000 <= self.binding.timeout:
            return "its own maximum (maxDurationMs)"
        return "the time of a call (limits.timeout of the server, or FAIRLEAD_CALL_TIMEOUT)"

    def opens_to(self, capabilities: bytes | None) -> bool:
        """Whether it is closed for clients without some capability alone, and a client that declared these (raw JSON)
        is none of them.
        """
        if self.closed is None or self.closed.code != MISSING_CLIENT_CAPABILITY:
            return False
        return all(declares(capabilities, name) for name in self.requires)

    def closed_by(self, refusal: Refusal) -> Route:
        """A copy that answers every call with a refusal."""
        return msgspec.structs.replace(self, closed=refusal)

    def within(self, seconds: float) -> Route:
        """A copy with that time for a call, if it has more; itself if not."""
        return self if seconds >= self.timeout else msgspec.structs.replace(self, timeout=seconds, caller_deadline=True)

    def retried(self, times: int) -> Route:
        """A copy with that many attempts after the first."""
        return msgspec.structs.replace(self, retries=times)
