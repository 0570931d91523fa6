"""Where one tool is called: everything that can be prepared before a request.

Pure module. Made by the composition root with each snapshot, found by `policy.view`, followed by `calls.dispatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.cache import scope
from fairlead_gateway.calls.mirrored import Mirrored, mirrored
from fairlead_gateway.calls.refusals import MISSING_CLIENT_CAPABILITY, Refusal, lacking
from fairlead_gateway.catalog.model import Server, Tool
from fairlead_gateway.policy.reach import Reach
from fairlead_gateway.reports.samples import Meter
from fairlead_gateway.telemetry import Recorder
from fairlead_gateway.upstream.base import Submit, Upstream
from fairlead_gateway.validation.constraint import Constraint
from fairlead_gateway.validation.shelf import ToolCheck
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.capabilities import declares

if TYPE_CHECKING:
    from fairlead_gateway.policy.rules import Share


class Route:
    """See the module. Prepared once, shared by all calls."""

    __slots__ = ("_tool", "cache_scope", "cacheable_seconds", "caps", "check", "closed", "constraint", "counted",
                 "escapes", "guard", "id", "idempotent", "impatient", "max_bytes", "meter", "mirrored", "modern",
                 "name", "name_header", "name_raw", "offline", "per_client", "reach", "recorder", "retries", "server",
                 "server_info", "share", "submit", "timeout", "upstream")  # fmt: skip

    def __init__(
        self,
        reach: Reach,
        tool: Tool,
        recorder: Recorder,
        meter: Meter,
        *,
        check: ToolCheck | None = None,
        upstream: Upstream | None = None,
        like: Route | None = None,
    ) -> None:
        """`upstream` takes its calls in place of the server's own. `like` is a route of the same tool: what it has
        prepared is not prepared anew.
        """
        server = reach.server
        self._tool = tool
        self.reach = reach
        self.server = server
        self.name = tool.name
        self.id: str = f"{server.key}/{tool.name}" if like is None else like.id
        self.caps = tool.caps
        """What it takes from everybody together; None for any number of calls."""
        self.name_raw: Raw = Raw(jsonrpc.encode(tool.name)) if like is None else like.name_raw
        self.name_header: bytes = eras.header_value(tool.name) if like is None else like.name_header
        self.upstream = reach.upstream if upstream is None else upstream
        self.modern = self.upstream.modern
        self.submit: Submit | None = getattr(self.upstream, "submit", None)
        """Of an upstream that has it."""
        self.recorder = recorder
        self.meter = meter
        """Of the time that the server took, for the operator."""
        limit_ms = tool.max_duration_ms
        self.timeout = reach.timeout if limit_ms is None else min(reach.timeout, limit_ms / 1000)
        """Seconds that a call may take."""
        self.max_bytes = reach.max_bytes
        self.server_info = reach.server_info
        self.guard = reach.guard
        self.retries, self.idempotent = reach.retries, tool.idempotent
        self.per_client = server.catalog.session == "PerClient"
        self.cacheable_seconds = tool.cacheable_seconds
        self.cache_scope: bytes = _cache_scope(server, tool) if like is None else like.cache_scope
        """What keys of kept results begin with."""
        self.impatient = reach.impatient
        self.check = check
        """Of arguments and results; None where they are not checked."""
        self.offline = not server.catalog.online
        self.closed: Refusal | None = lacking(tool.name, server.key, tool.requires) if tool.requires else None
        """Why it is not called; answered in place of the server. See `opens_to`."""
        self.constraint: Constraint | None = None
        """What policies allow of the arguments; None: anything."""
        self.escapes = False
        """Whether policies want control characters in what its server says made visible."""
        self.share: Share | None = None
        """What policies allow the asker to take up of the server's namespace; None: anything."""
        self.counted = bool(tool.caps)
        """Whether a share or its caps bound how many calls there may be of it."""
        self.mirrored: Mirrored = mirrored(tool.definition) if like is None else like.mirrored
        """Arguments that travel in headers too."""

    @property
    def requires(self) -> tuple[str, ...]:
        """Client capabilities without which its server does not know the tool."""
        return self._tool.requires

    @property
    def bound_by(self) -> str:
        """Source of the limit on a call's time, in words."""
        if self.impatient:
            return "the time that the caller or its latency tier gives it"
        limit_ms = self._tool.max_duration_ms
        if limit_ms is not None and limit_ms / 1000 <= self.reach.timeout:
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
        """The same route, that answers every call with a refusal."""
        closed = self._again()
        closed.closed = refusal
        return closed

    def bounded(self, constraint: Constraint | None, share: Share | None, *, escapes: bool = False) -> Route:
        """The same route for somebody whom policies bound."""
        bounded = self._again()
        bounded.escapes = escapes
        bounded.constraint, bounded.share = constraint, share
        bounded.counted = self.counted or share is not None
        return bounded

    def within(self, seconds: float) -> Route:
        """The same route with that time for a call, if it has more; itself if not."""
        if seconds >= self.timeout:
            return self
        shorter = self._again()
        shorter.timeout, shorter.impatient = seconds, True
        return shorter

    def retried(self, times: int) -> Route:
        """The same route with that many attempts after the first."""
        retried = self._again()
        retried.retries = times
        return retried

    def _again(self) -> Route:
        """The same, to be changed by whoever asks. Not by `copy`, which what is compiled does not take part in."""
        again = Route(
            self.reach, self._tool, self.recorder, self.meter, check=self.check, upstream=self.upstream, like=self
        )
        again.timeout, again.impatient = self.timeout, self.impatient
        again.closed, again.constraint, again.share = self.closed, self.constraint, self.share
        again.counted, again.retries, again.escapes = self.counted, self.retries, self.escapes
        return again


def _cache_scope(server: Server, tool: Tool) -> bytes:
    if not tool.cacheable_seconds:
        return b""
    catalog = server.catalog
    reached = msgspec.json.encode((catalog.endpoint, catalog.credential, catalog.protocol_version))
    return scope(str(server.key), reached, tool.name, tool.hash, tool.definition)
