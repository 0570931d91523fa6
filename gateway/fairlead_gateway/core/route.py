"""Where one tool is called: everything that can be prepared before a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

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
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.task import TaskRef
from fairlead_mcp.capabilities import declares
from fairlead_mcp.parameters import Parameter
from fairlead_mcp.uris import UriNames
from fairlead_tools.refusal import MISSING_CLIENT_CAPABILITY, Refusal

_TIMEOUT: Final = "the time of a call (limits.timeout of the server, or FAIRLEAD_CALL_TIMEOUT)"


def smaller(first: int | None, other: int | None) -> int | None:
    """The smaller of two bounds, of which None bounds nothing."""
    if first is None or other is None:
        return other if first is None else first
    return min(first, other)


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """How calls of one tool are made: prepared once per snapshot, shared by all calls. Narrowed by copies alone, which
    `dataclasses.replace` makes of all attributes. No Struct, so that it can be compiled: a call reads three dozen of
    its attributes. Without `slots=True`, which makes a second class, and mypyc cannot.
    """

    tool: Tool | None = None
    """None for prompts, resources and completions."""
    binding: ServerBinding
    server: Server
    name: str
    id: str = ""
    caps: Caps | None = None
    """Bounds of calls by all agents together; None for any number."""
    member: str = "name"
    """Member of `params` that `name_raw` is put into."""
    name_raw: Raw | None = None
    """The target's own name as raw JSON, which takes the place of the client's in that member; None where the client's
    params are those of the server.
    """
    name_lines: bytes
    """`Mcp-Name` as a line of an HTTP head; empty where the method has none."""
    upstream: Upstream
    recorder: CallRecorder
    meter: AttemptMeter | None = None
    """Times the server's answers for the operator; None where nothing is timed."""
    timeout: float
    """Seconds that a call may take; progress begins those of `binding` again, up to `longest`."""
    longest: float = 0.0
    """Seconds that a call may take that goes on reporting progress; `timeout`, or less, where that changes nothing."""
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
    requires: tuple[str, ...] = ()
    """Client capabilities without which its server does not know the tool."""
    param_headers: tuple[Parameter, ...] = ()
    """Arguments that travel in headers too."""
    check: SchemaCheck | None = None
    """Schemas of arguments and results; None where they are not checked."""
    caller_deadline: bool = False
    """Whether `timeout` is the caller's own or that of a tier, and says nothing of the server."""
    caller_longest: bool = False
    """Whether `longest` is."""
    unavailable: Refusal | None = None
    """Why it is not called; answered in place of the server. See `available_to`."""
    counted: bool = False
    """Whether a quota or its caps bound how many calls there may be of it."""
    constraint: ArgumentConstraint | None = None
    """Bounds that policies set to the arguments; None: any are allowed."""
    manual: str = ""
    """Why policies let no loop of model and tools call it by itself; empty where one may."""
    escapes: bool = False
    """Whether policies want control characters in what its server says made visible."""
    quota: Quota | None = None
    """Bounds that policies set to the caller in the server's namespace; None: it may take up anything."""
    result_tokens: int | None = None
    """Tokens of a result that its tool declares; None for any number."""
    task: TaskRef | None = None
    """Task that a request is about."""
    verify: Callable[[bytes | Raw], None] | None = None
    """Check of a result that is passed on as it is, or not at all; raises NotMcp."""
    uris: UriNames | None = None
    """Names of the server's URIs on the endpoint; None where they are its own."""

    @property
    def checks_output(self) -> bool:
        """Whether results are compared with a schema of the tool."""
        return self.check is not None and self.check.declares_output

    @property
    def most_tokens(self) -> int | None:
        """Tokens of a result, by its tool and by policies: the smaller; None for any number."""
        quota = self.quota
        return smaller(self.result_tokens, None if quota is None else quota.result_tokens)

    def timeout_message(self, reported: bool, quiet_after: float) -> str:
        """Message for a call that timed out at the server; `reported`: progress had moved its end. `quiet_after`:
        seconds in all of one whose progress had ended, 0 for one that used up `longest`.
        """
        if reported and quiet_after:
            quiet = f"{self.name} of {self.server.key} reported no progress for {self.binding.timeout:g} s"
            return f"{quiet}, {_TIMEOUT}; it was given up after {quiet_after:.3g} s"
        limit_s = self.longest if reported else self.timeout
        return f"{self.name} of {self.server.key} did not answer within {limit_s:g} s, {self._bound_by(reported)}"

    def _bound_by(self, reported: bool) -> str:
        """Source of the limit on a call's time, in words."""
        if self.caller_longest if reported else self.caller_deadline:
            return "the time that the caller or its latency tier gives it"
        own_ms = None if self.tool is None else self.tool.max_duration_ms
        if own_ms is not None and own_ms / 1000 <= (self.longest if reported else self.timeout):
            return "its own maximum (maxDurationMs)"
        return "the most for calls that report progress (limits.maxTimeout of the server)" if reported else _TIMEOUT

    def available_to(self, capabilities: bytes | None) -> bool:
        """Whether nothing but a missing capability makes it unavailable, and a client that declared these (raw JSON)
        has it.
        """
        if self.unavailable is None or self.unavailable.code != MISSING_CLIENT_CAPABILITY:
            return False
        return all(declares(capabilities, name) for name in self.requires)

    def refusing(self, refusal: Refusal) -> Route:
        """A copy that answers every call with a refusal."""
        return replace(self, unavailable=refusal)

    def within(self, seconds: float) -> Route:
        """A copy with that time for a call, if it has more; itself if not. No progress moves that."""
        if seconds >= self.timeout:
            return self if seconds >= self.longest else replace(self, longest=seconds, caller_longest=True)
        return replace(self, timeout=seconds, longest=seconds, caller_deadline=True, caller_longest=True)

    def with_retries(self, times: int) -> Route:
        """A copy with that many attempts after the first."""
        return replace(self, retries=times)
