"""A selection of a snapshot without a gateway: visible tools by caller, and the targets of calls."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fairlead_api.meta import ServerKey
from fairlead_api.slices import finish
from fairlead_gateway.calls.routes.routing import tool_route
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.policy.selection import Selection, select_in_slices
from fairlead_gateway.reports.samples import SampleLog
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.guard import Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_gateway.upstream.upstream_factory import Unreachable

METRICS = MetricsRegistry()


class Upstreams:
    """One upstream per server, replaced on request."""

    def __init__(self) -> None:
        self.by_key: dict[ServerKey, Unreachable] = {}

    def bind(self, server: Server) -> ServerBinding:
        upstream = self.by_key.setdefault(server.key, Unreachable("test"))
        guard = Guard(str(server.key), AdmissionLimits(1), Timing(lambda delay, action: None))
        return ServerBinding(server, upstream, guard, timeout=1, max_bytes=1, server_info=b"{}")


def route_of(binding: ServerBinding, tool: Tool) -> Route:
    """Route of a tool, without a target."""
    key = binding.server.key
    return tool_route(
        binding, tool, METRICS.recorder("tools/call", tool.name, str(key)), SampleLog().meter(key, tool.name)
    )


def select(
    snapshot: Snapshot,
    upstreams: Upstreams | None = None,
    before: Selection | None = None,
    *,
    now: float = 0.0,
    with_latency: bool = False,
    **more: Any,
) -> Selection:
    """A selection without a gateway. Further keywords are those of the selection."""
    return finish(build_selection(snapshot, upstreams, before, now=now, with_latency=with_latency, **more))


def build_selection(
    snapshot: Snapshot,
    upstreams: Upstreams | None = None,
    before: Selection | None = None,
    *,
    now: float = 0.0,
    with_latency: bool = False,
    **more: Any,
) -> Generator[None, None, Selection]:
    """Build a selection in slices, as in the gateway."""
    upstreams = upstreams or Upstreams()
    bindings = {key: upstreams.bind(server) for key, server in snapshot.servers.items()}
    return (
        yield from select_in_slices(snapshot, bindings, route_of, before, now=now, with_latency=with_latency, **more)
    )
