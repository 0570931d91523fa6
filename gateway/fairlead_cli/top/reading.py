"""Readings: what a gateway's REST plane says of its servers and tools at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fairlead_cli.failure import Failure
from fairlead_cli.rest import Plane

Answer = TypeVar("Answer")


class CountedCalls(msgspec.Struct, frozen=True):
    """Calls since the start of the gateway's process."""

    calls: int
    errors: int


class MeasuredTool(msgspec.Struct, frozen=True, rename="camel"):
    """One tool as `/v1/scores` has it; null for what is not known."""

    name: str
    server: str
    basis: str
    median_ms: float | None
    p95_ms: float | None
    tier: str | None
    """The fastest tier that shows it."""
    count: CountedCalls | None

    @property
    def p50_ms(self) -> float | None:
        """The measured median; None where it is only declared."""
        return self.median_ms if self.p95_ms is not None else None


class WatchedServer(msgspec.Struct, frozen=True):
    """One server as `/v1/servers` has it."""

    server: str
    state: str
    tools: int | None = None
    restarts: int | None = None
    cause: str = ""
    reason: str = ""


class _Scores(msgspec.Struct, frozen=True):
    origin: str
    tools: tuple[MeasuredTool, ...]


class _Servers(msgspec.Struct, frozen=True):
    servers: tuple[WatchedServer, ...]


@dataclass(frozen=True)
class GatewayReading:
    """State and counts at one moment."""

    at: float
    """Seconds of a clock that never goes back."""
    origin: str
    """Opaque id of the gateway's process, by which counts of replicas and runs are told apart."""
    servers: tuple[WatchedServer, ...]
    tools: tuple[MeasuredTool, ...]
    documents: Mapping[str, dict[str, Any]]
    """Answers about servers, whole, by `namespace/name`."""


def read(plane: Plane, clock: Callable[[], float] = time.monotonic) -> GatewayReading:
    """Ask the gateway. Raises Failure."""
    documents = plane.get("/v1/servers")
    servers = _convert(documents, _Servers).servers
    scores = _convert(plane.get("/v1/scores"), _Scores)
    return GatewayReading(
        at=clock(),
        origin=scores.origin,
        servers=servers,
        tools=scores.tools,
        documents={str(document["server"]): document for document in documents["servers"]},
    )


def _convert(answer: Any, type_: type[Answer]) -> Answer:
    try:
        return msgspec.convert(answer, type_)
    except msgspec.ValidationError as error:
        raise Failure(
            f"the gateway's answer has figures of another kind: {error}; `fairlead top` needs a gateway of its version"
        ) from error
