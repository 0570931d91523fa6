"""A selection of a snapshot without a gateway around it: what is shown, to whom, and where calls would go."""

from __future__ import annotations

from typing import Any

from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.model import Server, Snapshot, Tool
from fairlead_gateway.reports.samples import SampleLog
from fairlead_gateway.selection.route import Reach, Route
from fairlead_gateway.selection.selection import Selection, bind_all
from fairlead_gateway.telemetry import Book
from fairlead_gateway.upstream.bounds import Bounds
from fairlead_gateway.upstream.guard import Guard
from fairlead_gateway.upstream.registry import Unreachable

BOOK = Book()


class Upstreams:
    """One upstream per server, replaced on request."""

    def __init__(self) -> None:
        self.by_key: dict[ServerKey, Unreachable] = {}

    def reach(self, server: Server) -> Reach:
        upstream = self.by_key.setdefault(server.key, Unreachable("test"))
        guard = Guard(str(server.key), Bounds(1), lambda delay, action: None)
        return Reach(server, upstream, guard, timeout=1, max_bytes=1, server_info=b"{}")


def bind(reach: Reach, tool: Tool) -> Route:
    """A route that leads nowhere."""
    key = reach.server.key
    return Route(reach, tool, BOOK.recorder("tools/call", tool.name, str(key)), SampleLog().meter(key, tool.name))


def select(
    snapshot: Snapshot, upstreams: Upstreams | None = None, before: Selection | None = None, **more: Any
) -> Selection:
    """A selection without a gateway around it. More keywords are its own."""
    known = upstreams or Upstreams()
    reaches = {key: known.reach(server) for key, server in snapshot.servers.items()}
    return Selection(snapshot, bind_all(reaches, bind, before or Selection()), reaches, before=before, **more)
