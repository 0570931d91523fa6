"""A gateway with every kind of client and every kind of server, and the outcomes of calls.

An outcome is a plain mapping: what the client received (`code`, `says`, `marks`, `heard`), what its server received
(`requests`, and further members for some features), and what was recorded (`audit`, `counted`, `limited`).
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from fairlead_app.gateway import Gateway
from fairlead_gateway.calls.path.call import ToolCall
from fairlead_gateway.policy.tiers import GRACE_SECONDS
from gatewayworld import Clock, running
from matrix_clients import KINDS, Answered, Client
from matrix_servers import BESIDE, SERVERS, EveryServer, catalogs, governing_documents
from otlpreceiver import Receiver, attributes
from ports import free_port
from rawserver import RawServer, Request, raw_server
from waiting import eventually

Outcome = dict[str, Any]
CALL: Final = "tools/call"


@dataclass
class World:
    """A gateway, the server behind it, and a client of each kind for each kind of server."""

    gateway: Gateway
    server: RawServer
    every: EveryServer
    audit: Path
    clients: dict[str, Client]
    collector: Receiver | None = None
    """Receives the gateway's spans; None if the gateway exports none."""

    def requests_seen(self, path: str, method: str) -> list[Request]:
        return [request for request in self.server.seen if request.path == f"/{path}" and request.method == method]

    def count_outcomes(self, method: str) -> Counter[str]:
        """Number of requests of that method so far, by outcome."""
        outcomes: Counter[str] = Counter()
        for (of, _, _, error), histogram in self.gateway.call_metrics.histograms():
            if of == method:
                outcomes[error or "ok"] += histogram.count
        return outcomes

    def audit_lines(self, since: int) -> list[bytes]:
        """Complete lines of the audit log from that byte on."""
        if not self.audit.exists():
            return []
        with self.audit.open("rb") as log:
            log.seek(since)
            return log.read().split(b"\n")[:-1]  # the last line may be incomplete


def slug(kind: str, server: str) -> str:
    """Name of the catalog for one kind of client and one kind of server."""
    return f"c{[*KINDS].index(kind)}-{server}"


@contextlib.asynccontextmanager
async def _export_spans(collector: Receiver | None) -> AsyncIterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        if collector is not None:
            patched.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
            patched.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")  # milliseconds
        yield


@contextlib.asynccontextmanager
async def world(folder: Path, collector: Receiver | None = None) -> AsyncIterator[World]:
    """Start the world. Audit lines are written one by one and spans are sent at once, because tests wait for them."""
    every = EveryServer()
    audit = folder / "audit.log"
    names = {slug(kind, server): (kind, server) for kind in KINDS for server in SERVERS}
    async with raw_server(every.handle) as server, _export_spans(collector):
        url = f"http://127.0.0.1:{server.port}"
        dead = f"http://127.0.0.1:{free_port()}/mcp"
        documents = [document for name, (_, kind) in names.items() for document in catalogs(name, kind, url, dead)]
        clock = Clock()
        clock.forward(-GRACE_SECONDS - 1)
        async with running(
            folder,
            *documents,
            *governing_documents([*names]),
            audit="all",
            audit_file=audit,
            audit_arguments="redact",
            audit_redact=("password",),
            clock=clock,
        ) as gateway:
            assert gateway.endpoint.context.auditor is not None
            gateway.endpoint.context.auditor.writer.gather_seconds = 0.001
            clock.forward(GRACE_SECONDS + 1)  # to the present, when the tool that has left its tier is refused
            clients: dict[str, Client] = {}
            for name, (kind, _) in names.items():
                for more in ("", *BESIDE):
                    clients[name + more] = Client(gateway, KINDS[kind], name + more)
            yield World(gateway, server, every, audit, clients, collector)
            for client in clients.values():
                await client.close()


class Cell:
    """One kind of client with one kind of server, while one feature is tested."""

    def __init__(self, world: World, kind: str, server: str) -> None:
        self.world = world
        self.name = slug(kind, server)
        self.last: Answered | None = None
        self.requests: list[Request] = []
        self._audited = world.audit.stat().st_size if world.audit.exists() else 0

    def owns(self, name: str) -> bool:
        """Whether a catalog belongs to this cell."""
        return name in (self.name, *(self.name + more for more in BESIDE))

    def spans(self, method: str) -> list[Any]:
        """Received spans of requests of that method to this cell's server."""
        assert self.world.collector is not None
        wanted = {"fairlead.server": f"default/{self.name}", "mcp.method.name": method}
        return [span for span in self.world.collector.spans if wanted.items() <= attributes(span).items()]

    async def audit_lines(self, lines: int) -> list[dict[str, Any]]:
        """Wait until this number of lines was added to the audit log since the cell was created, and return them."""
        await eventually(lambda: len(self.world.audit_lines(self._audited)) >= lines, seconds=5)
        return [
            json.loads(line.replace(self.name.encode(), b"SERVER")) for line in self.world.audit_lines(self._audited)
        ]

    async def ask(self, method: str, params: dict[str, Any], at: str = "", abandoned: Any = None) -> Answered:
        name = self.name + at
        before = len(self.world.requests_seen(name, method))
        self.last = await self.world.clients[name].ask(method, params, abandoned)
        self.requests = self.world.requests_seen(name, method)[before:]
        return self.last

    async def call(
        self, tool: str, arguments: dict[str, Any] | None = None, at: str = "", abandoned: Any = None
    ) -> Answered:
        return await self.ask(CALL, {"name": tool, "arguments": arguments or {}}, at, abandoned)


Play = Callable[[Cell], Awaitable[Outcome]]
"""Runs a feature in a cell. Returns further members of the outcome."""


async def outcome(world: World, kind: str, server: str, method: str, play: Play) -> Outcome:
    """Outcome of `play` for one kind of client and one kind of server. `method` selects the counted requests."""
    counted = world.count_outcomes(method)
    limited = Counter(world.gateway.call_metrics.limited)
    cell = Cell(world, kind, server)
    more = await play(cell)
    await eventually(
        lambda: (
            not [
                call
                for call in world.gateway.endpoint.context.calls
                if isinstance(call, ToolCall) and cell.owns(call.route.server.key.name)
            ]
        )
    )
    new = world.count_outcomes(method) - counted
    written = await cell.audit_lines(new.total())
    assert cell.last is not None
    told = {"code": cell.last.code, "says": cell.last.says, "marks": cell.last.marks, "heard": cell.last.heard}
    return {
        **told,
        "requests": len(cell.requests),
        "counted": dict(new),
        "audit": [(line["decision"], line["outcome"], line.get("reason", "")) for line in written],
        "limited": dict(Counter(world.gateway.call_metrics.limited) - limited),
        **more,
    }
