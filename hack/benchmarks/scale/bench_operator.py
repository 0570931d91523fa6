"""The control plane at scale: operator and gateway on a real API server with 100, 500 and 1,000 McpServers.

Real: kube-apiserver, etcd, the operator, the gateway, each a process. Faked: the MCP servers (one answers for all), and
kubelet and Deployment controller. Half of the McpServers have a `url`, half an `image`, each 10 tools. Writes are those
that the API server's audit log has of the operator's user, so that none is missed from any part of its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from audit import Write
from controlplane import ControlPlane, NoControlPlane, find_assets
from fairlead_api.documents.codec import catalog_name
from fairlead_api.meta import LABEL_DOCUMENT, ServerKey
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_kube.resources import LATENCY_TIERS, MCP_SERVERS
from ports import free_port
from rig.harness import Cell, Goal, Report, Settings, Unmeasurable
from rig.processes import Stage, cpu_time, machine_time, memory
from scale.fleet import KINDS, TOOLS, Fleet, Readiness, answering, create, namespace_of, watched

SIZES: Final = (100, 500, 1000)
USER: Final = "operator"
RELEASE: Final = "fairlead-system"
PATIENCE: Final = 300.0
"""Maximum seconds for a fleet to become Ready."""
SLOWEST: Final = "deep"
"""Name of the tier that shows tools that have never been called."""
CHANGES: Final = 5
"""Number of single changes for which the gateway's swap is timed."""
APART: Final = 2.5
"""Seconds between the changes; the gateway delays a swap that follows another one closely."""
MB: Final = 1 << 20


@dataclass
class Found:
    """Results for one number of servers."""

    servers: int
    seconds: float = 0.0
    """From the first McpServer's creation until all were Ready."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds of processor time in that window by process; `foreign` is that of other programs."""
    writes: dict[str, Counter[str]] = field(default_factory=dict)
    """Number of writes of each resource, by kind of server."""
    operator_peak: int = 0
    operator_settled: int = 0
    gateway_settled: int = 0
    swap_ms: float = 0.0
    seen_ms: float = 0.0
    idle_seconds: float = 0.0
    idle_writes: Counter[str] = field(default_factory=Counter)
    """Number of writes by resource while nothing changes."""
    idle_requests: int = 0
    """Number of all requests of the operator while nothing changes, including those for its Lease."""
    idle_cpu: float = 0.0
    documents: list[int] = field(default_factory=list)
    """Sizes of the published ConfigMaps in bytes, as the API server stores them: JSON with metadata."""
    restart_seconds: float = 0.0
    restart_writes: int = 0


class Installation:
    """A control plane with an operator and a gateway as processes."""

    def __init__(self, stage: Stage, plane: ControlPlane, fleet: Fleet) -> None:
        self._stage = stage
        self._fleet = fleet
        self.plane = plane
        self.operator_port = free_port()
        self.gateway_port = free_port()
        self.metrics_port = free_port()
        self.operator = self._start_operator()
        config = plane.kubeconfig_for("gateway", ["system:masters"])
        command: list[str | Path] = [Path(sys.executable).with_name("fairlead"), "gateway", "--namespace", RELEASE]
        command += ["--anonymous", "allow"]
        command += ["--host", "127.0.0.1", "--port", str(self.gateway_port), "--metrics-port", str(self.metrics_port)]
        self.gateway = stage.start("gateway", command, core=None, env={**os.environ, "KUBECONFIG": str(config)})
        stage.wait_ready("gateway", self.gateway, self.gateway_port, "/readyz")

    def _start_operator(self) -> subprocess.Popen[bytes]:
        settings = {
            "FAIRLEAD_KUBECONFIG": str(self.plane.kubeconfig_for(USER, ["system:masters"])),
            "FAIRLEAD_NAMESPACE": RELEASE,
            "FAIRLEAD_METRICS_PORT": str(self.operator_port),
            "FAIRLEAD_LOG_LEVEL": "WARNING",
        }
        command: list[str | Path] = [sys.executable, Path(__file__).with_name("operator_process.py")]
        command.append(str(self._fleet.port))
        process = self._stage.start("operator", command, core=None, env={**os.environ, **settings})
        self._stage.wait_ready("operator", process, self.operator_port, "/readyz")
        return process

    def restart_operator(self) -> None:
        self.operator.send_signal(signal.SIGTERM)
        self.operator.wait(30)
        self.operator = self._start_operator()

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time so far, by process."""
        pids = {**self.plane.pids(), "operator": self.operator.pid, "gateway": self.gateway.pid}
        times = {name: cpu_time(pid).total for name, pid in pids.items()}
        times["this benchmark"] = time.process_time()
        times["machine"] = machine_time()
        return times

    def writes(self, since: int) -> list[Write]:
        """Number of writes of the operator, without those to its Lease."""
        assert self.plane.audit is not None
        return [w for w in self.plane.audit.writes(since) if w.user == USER and w.resource != "leases"]

    def figure(self, port: int, name: str) -> float:
        """Sum of a metric over all its label sets."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


@contextlib.contextmanager
def plane_in(folder: Path) -> Iterator[ControlPlane]:
    """Run a separate control plane with an audit log."""
    folder.mkdir()
    try:
        with ControlPlane(folder, find_assets(), audit=True) as plane:
            plane.install_crds()
            for name in (RELEASE, *map(namespace_of, KINDS)):
                plane.create_namespace(name)
            yield plane
    except NoControlPlane as error:
        raise Unmeasurable(str(error)) from error


@contextlib.asynccontextmanager
async def administrator(plane: ControlPlane) -> AsyncIterator[Kube]:
    """A client with full permissions."""
    kube = Kube.connect(await load_configuration(str(plane.kubeconfig)))
    try:
        yield kube
    finally:
        await kube.aclose()


def between(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Processor time within a window, with `foreign` instead of the machine's."""
    used = {name: after[name] - before[name] for name in after}
    used["foreign"] = max(0.0, used["machine"] - sum(v for k, v in used.items() if k != "machine"))
    del used["machine"]
    return used


def by_kind(writes: list[Write], servers: int) -> dict[str, Counter[str]]:
    """Number of writes by kind of server. In the release's namespace, the kind is part of the object's name."""
    catalogs = {
        catalog_name(ServerKey(namespace_of(KINDS[n % 2]), f"{KINDS[n % 2]}-{n}")): KINDS[n % 2] for n in range(servers)
    }
    counters: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    kinds = {namespace_of(kind): kind for kind in KINDS}
    for write in writes:
        kind = kinds.get(write.namespace) or catalogs.get(write.name)
        if kind is not None:
            counters[kind][write.resource] += 1
    return counters


async def converge(installation: Installation, kube: Kube, fleet: Fleet, readiness: Readiness, result: Found) -> None:
    """Create all McpServers at once, and wait until every one is Ready."""
    assert installation.plane.audit is not None
    mark, before, start = installation.plane.audit.mark(), installation.cpu(), time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            await create(kube, result.servers, fleet.port)
            await readiness.reaches(result.servers)
    except TimeoutError as error:
        raise Unmeasurable(f"{len(readiness)} of {result.servers} servers Ready after {PATIENCE:g} s") from error
    result.seconds = time.monotonic() - start
    result.cpu = between(before, installation.cpu())
    await settled(installation)
    result.writes = by_kind(installation.writes(mark), result.servers)
    await counted(installation, result.servers)
    result.operator_peak = memory(installation.operator.pid).peak


async def settled(installation: Installation, quiet: float = 2.0) -> None:
    """Wait until the operator has stopped writing."""
    assert installation.plane.audit is not None
    while True:
        mark = installation.plane.audit.mark()
        await asyncio.sleep(quiet)
        if not installation.writes(mark):
            return


async def counted(installation: Installation, servers: int) -> None:
    """Wait until the LatencyTiers show the number of tools, which they update at most once a minute."""
    path = f"{LATENCY_TIERS.path()}/{SLOWEST}"
    async with asyncio.timeout(PATIENCE):
        while True:
            _, tier = await asyncio.to_thread(installation.plane.request, "GET", path)
            if tier.get("status", {}).get("tools") == servers * TOOLS:
                break
            await asyncio.sleep(0.5)
    await settled(installation)


async def idle(installation: Installation, result: Found, seconds: float) -> None:
    """Measure a window in which nothing changes."""
    assert installation.plane.audit is not None
    mark, before = installation.plane.audit.mark(), installation.cpu()
    await asyncio.sleep(seconds)
    result.idle_seconds = seconds
    result.idle_writes = Counter(write.resource for write in installation.writes(mark))
    result.idle_requests = sum(request.user == USER for request in installation.plane.audit.requests(mark))
    result.idle_cpu = between(before, installation.cpu())["operator"]
    result.operator_settled = memory(installation.operator.pid).now
    result.gateway_settled = memory(installation.gateway.pid).now
    listed = installation.plane.kubectl("get", "configmaps", "-n", RELEASE, "-l", LABEL_DOCUMENT, "-o", "json").stdout
    result.documents = [len(msgspec.json.encode(item)) for item in msgspec.json.decode(listed)["items"]]


async def swap(installation: Installation, kube: Kube, result: Found) -> None:
    """Change the description of a server's tool repeatedly. Measures the time until the gateway lists each change, and
    the duration of its swap.
    """
    path = f"/servers/{namespace_of('url')}/url-0/mcp"
    names = [("fairlead_catalog_swaps_total", 1.0), ("fairlead_catalog_swap_seconds_total", 1.0)]
    before = [await asyncio.to_thread(installation.figure, installation.metrics_port, name) for name, _ in names]
    seen = []
    for number in range(CHANGES):
        await asyncio.sleep(APART)
        words = f"changed {number} times"
        start = time.monotonic()
        patch = {"spec": {"tools": [{"name": "tool_0", "description": words}]}}
        await kube.merge(MCP_SERVERS, namespace_of("url"), "url-0", patch)
        while words not in await asyncio.to_thread(_listing, installation.gateway_port, path):
            if time.monotonic() - start > 60:
                raise Unmeasurable("the gateway did not show a changed tool within 60 s")
            await asyncio.sleep(0.005)
        seen.append(time.monotonic() - start)
    after = [await asyncio.to_thread(installation.figure, installation.metrics_port, name) for name, _ in names]
    result.swap_ms = (after[1] - before[1]) / max(1.0, after[0] - before[0]) * 1e3
    result.seen_ms = sorted(seen)[len(seen) // 2] * 1e3


def _listing(port: int, path: str) -> str:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", msgspec.json.encode(body), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


async def restart(installation: Installation, result: Found) -> None:
    """Restart the operator without any other change, and measure."""
    assert installation.plane.audit is not None
    mark, start = installation.plane.audit.mark(), time.monotonic()
    await asyncio.to_thread(installation.restart_operator)
    while (
        await asyncio.to_thread(installation.figure, installation.operator_port, "fairlead_operator_reconciles_total")
        < result.servers
    ):
        if time.monotonic() - start > PATIENCE:
            raise Unmeasurable("the operator did not look at every server after its restart")
        await asyncio.sleep(0.1)
    result.restart_seconds = time.monotonic() - start
    await settled(installation)
    result.restart_writes = len(installation.writes(mark))


async def measure(stage: Stage, servers: int, idle_seconds: float) -> Found:
    """Measure one control plane, empty at first, with `count` servers."""
    result = Found(servers)
    async with contextlib.AsyncExitStack() as stack:
        plane = stack.enter_context(plane_in(stage.folder / f"plane-{servers}"))
        fleet = await stack.enter_async_context(answering())
        kube = await stack.enter_async_context(administrator(plane))
        readiness = await stack.enter_async_context(watched(kube))
        installation = await asyncio.to_thread(Installation, stage, plane, fleet)
        await converge(installation, kube, fleet, readiness, result)
        await idle(installation, result, idle_seconds)
        await swap(installation, kube, result)
        await restart(installation, result)
        await asyncio.to_thread(stage.end, installation.operator)
        await asyncio.to_thread(stage.end, installation.gateway)
    return result


def row(result: Found) -> dict[str, Cell]:
    """A row of the table."""
    cells: dict[str, Cell] = {"servers": result.servers, "converged s": result.seconds}
    cells |= {f"CPU s {name}": seconds for name, seconds in result.cpu.items()}
    for kind in KINDS:
        cells[f"writes per {kind}"] = per_server(result, kind)
    cells |= {
        "idle writes/h": result.idle_writes.total() * 3600 / result.idle_seconds,
        "idle requests/min": result.idle_requests * 60 / result.idle_seconds,
        "idle CPU ms/s": result.idle_cpu * 1e3 / result.idle_seconds,
        "operator MB": result.operator_settled / MB,
        "operator peak MB": result.operator_peak / MB,
        "gateway MB": result.gateway_settled / MB,
        "swap ms": result.swap_ms,
        "change seen ms": result.seen_ms,
        "documents kB": sum(result.documents) / 1000,
        "largest document kB": max(result.documents, default=0) / 1000,
        "restart s": result.restart_seconds,
        "restart writes": result.restart_writes,
    }
    return cells


def per_server(result: Found, kind: str) -> float:
    """Average number of writes per server of a kind."""
    return sum(result.writes[kind].values()) / (result.servers / len(KINDS))


def report(results: list[Found]) -> Report:
    """The table, the goals and notes."""
    result = Report("operator", [row(each_result) for each_result in results])
    last = results[-1]
    for kind, bound in zip(KINDS, (4, 9), strict=True):
        worst = max(per_server(each_result, kind) for each_result in results)
        result.goals.append(Goal(f"API writes per {kind} server", worst, "writes", at_most=bound))
    rate = max(each_result.idle_writes.total() * 3600 / each_result.idle_seconds for each_result in results)
    result.goals.append(Goal("writes when nothing changes, extrapolated", rate, "1/h", at_most=0))
    most = next((each_result for each_result in results if each_result.servers == 1000), None)
    result.goals.append(Goal("1,000 servers converged", most.seconds if most else None, "s", at_most=60))
    peak = max(most.operator_peak, most.operator_settled) / MB if most else None
    result.goals.append(Goal("operator RSS at 1,000, at its peak", peak, "MB", at_most=140))
    if len(results) > 1:
        each = [each_result.cpu["operator"] / each_result.servers for each_result in (results[0], last)]
        name = f"operator CPU per server at {last.servers}, against {results[0].servers}"
        result.goals.append(Goal(name, each[1] / each[0], "×", at_most=1.2))
    for kind in KINDS:
        parts = ", ".join(f"{count} {resource}" for resource, count in last.writes[kind].most_common())
        result.notes.append(f"writes for {last.servers // len(KINDS)} {kind} servers: {parts}")
    for each_result in results:
        parts = ", ".join(f"{count} {resource}" for resource, count in each_result.idle_writes.most_common())
        if parts:
            result.notes.append(f"written with {each_result.servers} servers while nothing changed: {parts}")
    result.notes.append(f"idle: {last.idle_seconds:g} s without a change, the Lease left out (one write in 2 s)")
    total = sum(seconds for name, seconds in last.cpu.items() if name != "foreign")
    share = (last.cpu["kube-apiserver"] + last.cpu["etcd"]) / total
    result.notes.append(f"API server and etcd took {share:.0%} of the processor time of {last.servers} servers")
    return result


def run(settings: Settings) -> Report:
    """Measure each size once. Raises Unmeasurable if a process does not start or the fleet does not become Ready."""
    with Stage() as stage:
        sizes = (20, 40) if settings.quick else SIZES
        idle_seconds = 5.0 if settings.quick else 600.0 if settings.long else 60.0
        return report([asyncio.run(measure(stage, servers, idle_seconds)) for servers in sizes])
