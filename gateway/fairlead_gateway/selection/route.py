"""Where one tool is called, with everything about it that can be prepared before a call.

Pure module. Made by the composition root with each snapshot, found by `selection.view`, followed by `calls.dispatch`.
"""

from __future__ import annotations

import copy

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.cache import scope
from fairlead_gateway.calls.mirrored import mirrored
from fairlead_gateway.calls.refusals import Refusal
from fairlead_gateway.catalog.model import Server, Tool
from fairlead_gateway.reports.samples import Meter
from fairlead_gateway.telemetry import Recorder
from fairlead_gateway.upstream.base import Upstream
from fairlead_gateway.upstream.guard import Guard
from fairlead_gateway.validation.shelf import ToolCheck
from fairlead_mcp import eras, jsonrpc


class Route:
    """See the module. Prepared once, shared by all calls."""

    __slots__ = ("cache_scope", "cacheable_seconds", "check", "closed", "guard", "idempotent", "impatient",
                 "max_bytes", "meter", "mirrored", "name", "name_header", "name_raw", "offline", "per_client",
                 "recorder", "retries", "server", "server_info", "timeout", "upstream")  # fmt: skip

    def __init__(
        self,
        server: Server,
        tool: Tool,
        upstream: Upstream,
        recorder: Recorder,
        guard: Guard,
        meter: Meter,
        *,
        timeout: float,
        max_bytes: int,
        server_info: bytes,
        check: ToolCheck | None = None,
        retries: int = 0,
    ) -> None:
        self.server = server
        self.name = tool.name
        self.name_raw = Raw(jsonrpc.encode(tool.name))
        self.name_header = eras.header_value(tool.name)
        self.upstream = upstream
        self.recorder = recorder
        self.meter = meter
        """Of the time that the server took, for the operator."""
        self.timeout = timeout
        """Seconds that a call may take."""
        self.max_bytes = max_bytes
        """Of a result."""
        self.server_info = server_info
        """Raw, for results that carry it; never without name and version."""
        self.guard = guard
        """Of its server."""
        self.retries = retries
        """Attempts after the first."""
        self.idempotent = tool.idempotent
        self.per_client = server.catalog.session == "PerClient"
        self.cacheable_seconds = tool.cacheable_seconds
        self.cache_scope = _cache_scope(server, tool) if tool.cacheable_seconds else b""
        """What keys of kept results begin with."""
        self.impatient = False
        """Whether `timeout` is the caller's own or that of a tier, and says nothing of the server."""
        self.check = check
        """Of arguments and results; None where they are not checked."""
        self.offline = not server.catalog.online
        self.closed: Refusal | None = None
        """Why it is not called; answered in place of the server."""
        self.mirrored = mirrored(tool.definition)
        """Arguments that travel in headers too."""

    def closed_by(self, refusal: Refusal) -> Route:
        """The same route, that answers every call with a refusal."""
        closed = copy.copy(self)
        closed.closed = refusal
        return closed

    def within(self, seconds: float) -> Route:
        """The same route with that time for a call, if it has more; itself if not."""
        if seconds >= self.timeout:
            return self
        shorter = copy.copy(self)
        shorter.timeout, shorter.impatient = seconds, True
        return shorter


def _cache_scope(server: Server, tool: Tool) -> bytes:
    catalog = server.catalog
    reached = msgspec.json.encode((catalog.endpoint, catalog.credential, catalog.protocol_version))
    return scope(str(server.key), reached, tool.name, tool.hash, tool.definition)
