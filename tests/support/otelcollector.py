"""A real OpenTelemetry Collector with the configuration of `examples/traces`, and what it wrote.

async with collector(tmp_path) as running:
    environ = running.variables("grpc")
    ... running.spans() ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from controlplane import REPOSITORY
from ports import free_port, listens
from waiting import until_async

EXAMPLE: Final = REPOSITORY / "examples" / "traces"
INTERNAL: Final = 1
"""Kind of an internal span; 2 is a server's, 3 a client's."""


@dataclass(frozen=True)
class CollectedSpan:
    """A span in the collector's output."""

    service: str
    name: str
    trace: str
    ident: str
    parent: str
    kind: int
    start_ns: int
    end_ns: int


def collector_program() -> str:
    """Path of the program. If it is missing, skips the test, or fails it in CI."""
    done = subprocess.run(
        [REPOSITORY / "hack" / "otel", "collector", "--kept"], capture_output=True, text=True, check=False, timeout=20
    )
    if done.returncode == 0:
        return done.stdout.strip()
    reason = "no OpenTelemetry Collector here: hack/otel collector compiles one"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class RunningCollector:
    """A running collector."""

    file: Path
    grpc: int
    http: int

    def variables(self, protocol: str) -> dict[str, str]:
        """Environment variables of OpenTelemetry for this collector."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.grpc if protocol == 'grpc' else self.http}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_BLRP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }

    def resources(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Service and content of each resource in `resourceSpans`, `resourceMetrics` or `resourceLogs`."""
        for line in self.file.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the last line may be incomplete
                for each in json.loads(line).get(kind, []):
                    attributes = {attribute["key"]: attribute["value"] for attribute in each["resource"]["attributes"]}
                    yield attributes["service.name"]["stringValue"], each

    def spans(self) -> list[CollectedSpan]:
        """All spans so far, sorted by time."""
        spans = [
            CollectedSpan(
                service,
                span["name"],
                span["traceId"],
                span["spanId"],
                span.get("parentSpanId", ""),
                span["kind"],
                int(span["startTimeUnixNano"]),
                int(span["endTimeUnixNano"]),
            )
            for service, resource in self.resources("resourceSpans")
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]
        return sorted(spans, key=lambda span: span.start_ns)

    def metrics(self) -> dict[str, Any]:
        """Last value of each metric, by name."""
        return {
            metric["name"]: metric
            for _, resource in self.resources("resourceMetrics")
            for scope in resource["scopeMetrics"]
            for metric in scope["metrics"]
        }

    def logs(self) -> dict[str, list[str]]:
        """Log messages by service."""
        bodies: dict[str, list[str]] = {}
        for service, resource in self.resources("resourceLogs"):
            for scope in resource["scopeLogs"]:
                bodies.setdefault(service, []).extend(record["body"]["stringValue"] for record in scope["logRecords"])
        return bodies


@contextlib.asynccontextmanager
async def collector(folder: Path, *, zipkin: int = 0) -> AsyncIterator[RunningCollector]:
    """A collector on free ports. `zipkin` is the port of a Zipkin server for its traces."""
    made = RunningCollector(folder / "telemetry.jsonl", free_port(), free_port())
    ports = {"GRPC_PORT": str(made.grpc), "HTTP_PORT": str(made.http), "ZIPKIN_PORT": str(zipkin or free_port())}
    process = await asyncio.create_subprocess_exec(
        collector_program(),
        "--config",
        EXAMPLE / "collector.yaml",
        env={**os.environ, **ports, "TELEMETRY_FILE": str(made.file)},
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def ready() -> bool:
        assert process.returncode is None, f"the collector ended with {process.returncode}"
        return listens(made.grpc) and listens(made.http)

    try:
        await until_async("the collector listens", ready)
        yield made
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
