"""The route of a tool, prompt or resource: everything about its calls that can be prepared before a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.call_shape import CallShape
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
    """The smaller of two limits; None means unlimited."""
    if first is None or other is None:
        return other if first is None else first
    return min(first, other)


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """Prepared data for calls of one tool, prompt or resource, created once per snapshot and shared by all calls.

    A view that restricts a tool has a changed copy of the route. The class is not a msgspec Struct, so that mypyc can
    compile it: a call reads about 36 of its attributes. It has no `slots=True`, because that creates a second class,
    which mypyc does not support.
    """

    tool: Tool | None = None
    """None for prompts, resources and completions."""
    binding: ServerBinding
    server: Server
    name: str
    """The server's own name or URI of the target."""
    id: str = ""
    """Server and tool, as the key of the tool's limits; empty for other targets."""
    caps: Caps | None = None
    """Limits on calls of all agents together; None if unlimited."""
    member: str = "name"
    """Member of `params` that has the target's name or URI."""
    name_raw: Raw | None = None
    """The server's own name of the target as raw JSON, which replaces the client's name in `member`; None if the
    client's params are sent unchanged.
    """
    name_lines: bytes
    """`Mcp-Name` as a header line; empty for methods without it."""
    upstream: Upstream
    recorder: CallRecorder
    meter: AttemptMeter | None = None
    """Measures durations for the operator; None if they are not measured."""
    timeout: float
    """Timeout of a call in seconds. Each progress notification restarts the timeout of `binding`, within `max_timeout`.
    """
    start_timeout: float = 0.0
    """Timeout in seconds of a call whose server has to start a process first. The tool's own maximum (`maxDurationMs`)
    then begins when the process takes requests. If at most `timeout`, a start does not extend the call.
    """
    max_timeout: float = 0.0
    """Maximum duration in seconds of a call that keeps reporting progress. If at most `timeout`, progress does not
    extend the call.
    """
    max_bytes: int
    """Maximum number of bytes of a result."""
    server_info: bytes
    """`serverInfo` for modern results, raw JSON."""
    guard: AdmissionGuard
    retries: int
    """Attempts after the first."""
    idempotent: bool
    """Whether a request may be sent again although the server may have executed it."""
    per_client: bool
    """Whether each client session has a session of its own with the server (`PerClient`)."""
    cacheable_seconds: int = 0
    """How long a result is cached for equal calls, in seconds; 0 for not at all."""
    cache_scope: bytes = b""
    """Hash of tool and server, the part of a cache key that all calls of the tool share."""
    offline: bool
    """Whether the catalog says that the server cannot be reached."""
    requires: tuple[str, ...] = ()
    """Client capabilities that a session needs for its server to list the tool."""
    param_headers: tuple[Parameter, ...] = ()
    """Arguments that are also sent as headers (`Mcp-Param-*`)."""
    check: SchemaCheck | None = None
    """Validates arguments and results; None if they are not validated."""
    caller_deadline: bool = False
    """Whether the caller or its tier set `timeout`, so that a timeout does not count against the server."""
    caller_set_max_timeout: bool = False
    """Whether the caller or its tier set `max_timeout`."""
    unavailable: Refusal | None = None
    """Refusal of all calls, except those for which `available_to` is True; None if calls are not refused."""
    counted: bool = False
    """Whether `quota` or `caps` limit the number of calls."""
    constraint: ArgumentConstraint | None = None
    """Restrictions of policies on the arguments; None if all are allowed."""
    shape: CallShape | None = None
    """Translates calls of a tool whose shape for clients differs from the server's definition; None if they are the
    same.
    """
    manual: str = ""
    """Why policies do not let the LLM tool loop run the tool automatically; empty if they do."""
    must_escape: bool = False
    """Whether policies require control characters in the server's texts to be escaped."""
    quota: Quota | None = None
    """The caller's quota in the server's namespace; None if unlimited."""
    result_tokens: int | None = None
    """Maximum number of tokens of a result according to the tool; None if unlimited."""
    task: TaskRef | None = None
    """The task that a request is about; None for other requests."""
    verify: Callable[[bytes | Raw], None] | None = None
    """Checks a result that is otherwise passed on unchanged; raises NotMcp."""
    uris: UriNames | None = None
    """Renaming of the server's URIs at the endpoint; None if they are unchanged."""

    @property
    def checks_output(self) -> bool:
        """Whether results are validated against the tool's `outputSchema`."""
        return self.check is not None and self.check.declares_output

    @property
    def max_result_tokens(self) -> int | None:
        """Maximum number of tokens of a result, from the limits of the tool and of policies; None if unlimited."""
        quota = self.quota
        return smaller(self.result_tokens, None if quota is None else quota.result_tokens)

    def timeout_message(self, reported: bool, quiet_after: float) -> str:
        """Message for a call that timed out.

        `reported`: progress notifications had extended the call. `quiet_after` is then the total duration in seconds of
        a call whose progress stopped, or 0 for a call that reached `max_timeout`.
        """
        if reported and quiet_after:
            quiet = f"{self.name} of {self.server.key} reported no progress for {self.binding.timeout:g} s"
            return f"{quiet}, {_TIMEOUT}; the call was abandoned after {quiet_after:.3g} s"
        limit_s = self.max_timeout if reported else self.timeout
        return f"{self.name} of {self.server.key} did not answer within {limit_s:g} s, {self._bound_by(reported)}"

    def _bound_by(self, reported: bool) -> str:
        """Name of the limit that a call reached."""
        if self.caller_set_max_timeout if reported else self.caller_deadline:
            return "the time that the caller or its latency tier allows"
        own_ms = None if self.tool is None else self.tool.max_duration_ms
        if own_ms is not None and own_ms / 1000 <= (self.max_timeout if reported else self.timeout):
            return "the maximum of the tool (maxDurationMs)"
        return "the most for calls that report progress (limits.maxTimeout of the server)" if reported else _TIMEOUT

    def available_to(self, capabilities: bytes | None) -> bool:
        """Whether `unavailable` does not apply to a client with these `capabilities` (raw JSON): it refuses clients
        without a capability, and this client declares the capability.
        """
        if self.unavailable is None or self.unavailable.code != MISSING_CLIENT_CAPABILITY:
            return False
        return all(declares(capabilities, name) for name in self.requires)

    def with_refusal(self, refusal: Refusal) -> Route:
        """A copy that refuses every call."""
        return replace(self, unavailable=refusal)

    def with_time_limit(self, seconds: float) -> Route:
        """A route whose calls take at most `seconds`, also with progress; the route itself if its limits are lower."""
        if seconds < self.timeout:
            return replace(
                self,
                timeout=seconds,
                start_timeout=seconds,
                max_timeout=seconds,
                caller_deadline=True,
                caller_set_max_timeout=True,
            )
        route = self if seconds >= self.max_timeout else replace(self, max_timeout=seconds, caller_set_max_timeout=True)
        return route if seconds >= self.start_timeout else replace(route, start_timeout=seconds)

    def with_retries(self, times: int) -> Route:
        """A copy with `times` attempts after the first."""
        return replace(self, retries=times)
