"""The operator while it reads, compiles and publishes a large document: how long its loop stops.

Real: kube-apiserver, etcd and the operator, each a process. The document is served over HTTP.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controlplane import ControlPlane
from fairlead_kube.resources import MCP_SERVERS
from ports import free_port
from rawserver import Reply, Request, raw_server
from rig.harness import Unmeasurable
from rig.processes import Stage, memory
from scale.bench_operator import RELEASE

PATIENCE: Final = 300.0
"""Seconds for the server to become Ready."""
SETTLE_SECONDS: Final = 2.0
"""Seconds of further measurement after the server is Ready."""
NAME: Final = "large"
NAMESPACE: Final = "bench-url"
MB: Final = 1 << 20


@dataclass(frozen=True)
class OperatorStops:
    """Costs of one document to the operator."""

    tools: int
    ready_seconds: float
    """Seconds from the McpServer's creation until it was Ready."""
    thread_ms: float
    """Maximum processor time of the loop's thread between two turns of a timer."""
    wall_ms: float
    """Maximum wall-clock time between two turns."""
    process_ms: float
    """Maximum processor time of the whole process between two turns, including threads, which may keep the interpreter
    from the loop."""
    peak_mb: float
    """Peak memory of the operator, without the process that compiles."""


def served_documents(plane: ControlPlane, folder: Path) -> list[Path]:
    """Write the API server's own OpenAPI documents, one for each group and version, as files into `folder`."""
    _, index = plane.request("GET", "/openapi/v3")
    files = []
    for name in sorted(index["paths"]):
        _, document = plane.request("GET", index["paths"][name]["serverRelativeURL"])
        file = folder / f"{name.replace('/', '_')}.json"
        file.write_text(json.dumps(document))
        files.append(file)
    return files


def measure(stage: Stage, plane: ControlPlane, document: bytes) -> OperatorStops:
    """Publish one document. Raises Unmeasurable if the server does not become Ready."""
    return asyncio.run(_measure(stage, plane, document))


async def _measure(stage: Stage, plane: ControlPlane, document: bytes) -> OperatorStops:
    port = free_port()
    settings = {
        "FAIRLEAD_KUBECONFIG": str(plane.kubeconfig_for("operator", ["system:masters"])),
        "FAIRLEAD_NAMESPACE": RELEASE,
        "FAIRLEAD_METRICS_PORT": str(port),
        "FAIRLEAD_LOG_LEVEL": "WARNING",
    }
    record = stage.folder / "stops.json"
    command: list[str | Path] = [sys.executable, Path(__file__).with_name("operator_stops.py"), record]
    process = stage.start("operator", command, core=None, env={**os.environ, **settings})
    await asyncio.to_thread(stage.wait_ready, "operator", process, port, "/readyz")

    async def handle(request: Request, reply: Reply) -> None:
        reply.send(200, document)

    async with raw_server(handle) as server:
        process.send_signal(signal.SIGUSR1)
        start = time.monotonic()
        tools = await _published(plane, f"http://127.0.0.1:{server.port}")
        seconds = time.monotonic() - start
        await asyncio.sleep(SETTLE_SECONDS)
    peak = memory(process.pid).peak / MB
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait, 30)
    stops = json.loads(record.read_text())
    return OperatorStops(tools, seconds, stops["thread"], stops["wall"], stops["process"], peak)


async def _published(plane: ControlPlane, url: str) -> int:
    """Create the McpServer, and return the number of its tools when it is Ready."""
    manifest = {
        "apiVersion": MCP_SERVERS.api_version,
        "kind": MCP_SERVERS.kind,
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"openapi": {"url": f"{url}/openapi.json", "baseURL": url}},
    }
    path = MCP_SERVERS.path(NAMESPACE)
    status, answer = await asyncio.to_thread(plane.request, "POST", path, manifest)
    if status != 201:
        raise Unmeasurable(f"the McpServer cannot be created: {answer}")
    ready: dict[str, str] = {}
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE:
        _, shown = await asyncio.to_thread(plane.request, "GET", f"{path}/{NAME}")
        conditions = shown.get("status", {}).get("conditions", ())
        ready = next((each for each in conditions if each["type"] == "Ready"), {})
        if ready.get("status") == "True":
            return int(shown["status"]["tools"])
        await asyncio.sleep(0.2)
    raise Unmeasurable(f"the McpServer is not Ready after {PATIENCE:g} s: {ready.get('message')}")
