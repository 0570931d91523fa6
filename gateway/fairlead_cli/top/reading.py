"""Readings: the state of a gateway's servers and tools at one moment, from its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fairlead_api.documents.servers import FileProblem
from fairlead_cli.failure import Failure
from fairlead_cli.rest import ManagementClient
from fairlead_mcp.misread_values import explain_misreading

Answer = TypeVar("Answer")


class CountedCalls(msgspec.Struct, frozen=True):
    """Calls since the start of the gateway process."""

    calls: int
    errors: int


class MeasuredTool(msgspec.Struct, frozen=True, rename="camel"):
    """One tool in `/v1/scores`; None for unknown values."""

    name: str
    server: str
    basis: str
    median_ms: float | None
    p95_ms: float | None
    tier: str | None
    """The fastest tier that shows the tool."""
    count: CountedCalls | None

    @property
    def p50_ms(self) -> float | None:
        """The measured median; None if the median is only declared."""
        return self.median_ms if self.p95_ms is not None else None


class WatchedServer(msgspec.Struct, frozen=True):
    """One server in `/v1/servers`."""

    server: str
    state: str
    tools: int | None = None
    restarts: int | None = None
    cause: str = ""
    reason: str = ""


class _Scores(msgspec.Struct, frozen=True):
    origin: str
    tools: tuple[MeasuredTool, ...]


class _Servers(msgspec.Struct, frozen=True, rename="camel"):
    servers: tuple[WatchedServer, ...]
    file_problems: tuple[FileProblem, ...] = ()


@dataclass(frozen=True)
class GatewayReading:
    """State and counts at one moment."""

    at: float
    """Time on a monotonic clock, in seconds."""
    origin: str
    """Opaque id of the gateway process, which separates the counts of replicas and restarts."""
    servers: tuple[WatchedServer, ...]
    tools: tuple[MeasuredTool, ...]
    documents: Mapping[str, dict[str, Any]]
    """Complete responses about servers, by `namespace/name`."""
    file_problems: tuple[FileProblem, ...] = ()
    """Problems of files that declare servers, if the gateway discloses them to this principal."""


def read(client: ManagementClient, clock: Callable[[], float] = time.monotonic) -> GatewayReading:
    """Read from the gateway. Raises Failure."""
    documents = client.get("/v1/servers")
    servers = _convert(documents, _Servers)
    scores = _convert(client.get("/v1/scores"), _Scores)
    return GatewayReading(
        at=clock(),
        origin=scores.origin,
        servers=servers.servers,
        tools=scores.tools,
        documents={str(document["server"]): document for document in documents["servers"]},
        file_problems=servers.file_problems,
    )


def _convert(answer: Any, type_: type[Answer]) -> Answer:
    try:
        return msgspec.convert(answer, type_)
    except msgspec.ValidationError as error:
        raise Failure(
            f"the gateway's response has another format: {explain_misreading(error, 'it')}; `fairlead top` needs a "
            "gateway of its own version"
        ) from error
