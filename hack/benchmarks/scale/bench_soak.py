"""Nothing leaks: 10,000 clients come and go, half of them without a word, 1,000 swaps, servers and children that end.

The gateway is a process of its own; its memory, files, tasks and children are read after every batch of clients, once
all of them are gone. Half of the clients are in a network namespace that goes off the net with connections, streams and
calls open: no FIN and no RST tells of their end. Meanwhile documents change all the time, and afterwards upstream
servers close connections and children are killed.
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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from client_churn import crowd
from fairlead_api.documents.catalog import ChildEndpoint
from gatewayworld import LEGACY, Answer, Wire, calling, catalog, publish
from ports import free_port
from rig.harness import Cell, Goal, Report, Settings, Unmeasurable
from rig.processes import Stage, memory, process_tree
from toolservers import LEGACY_STDIO, RawServer, Reply, Request, answer_modern, raw_server, tool
from unplugged_machine import Elsewhere, elsewhere, possible

TOOLS: Final = [tool("add"), tool("slow")]
SILENCE: Final = 2.0
"""Seconds without an answer after which a client counts as gone; short, so that a batch of vanished clients is removed
soon."""
PATIENCE: Final = 60.0
MB: Final = 1 << 20


@dataclass(frozen=True)
class Plan:
    """Amounts of each kind of load."""

    batches: int
    crowd: int
    """Clients per batch; half of them vanish."""
    swaps: int
    cuts: int
    kills: int


FULL: Final = Plan(batches=40, crowd=250, swaps=1000, cuts=1000, kills=8)
QUICK: Final = Plan(batches=6, crowd=60, swaps=20, cuts=60, kills=3)


@dataclass(frozen=True)
class Sample:
    """State of the gateway at one moment without connected clients."""

    label: str
    memory: float
    """MB of RAM."""
    files: int
    tasks: int
    children: int


@dataclass
class Soak:
    """The gateway under test."""

    port: int
    metrics_port: int
    process: subprocess.Popen[bytes]
    samples: list[Sample] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Values of the metrics without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}

    async def empty(self) -> None:
        """Wait until no client is connected."""
        end = time.monotonic() + PATIENCE
        while left := (await asyncio.to_thread(self.figures))["fairlead_client_connections"]:
            if time.monotonic() > end:
                raise Unmeasurable(f"{left:g} connections of clients that are gone are still open after {PATIENCE:g} s")
            await asyncio.sleep(0.2)

    async def sample(self, label: str) -> None:
        """Take a sample while no client is connected."""
        await self.empty()
        figures = await asyncio.to_thread(self.figures)
        pid = self.process.pid
        files = await asyncio.to_thread(open_files, pid)
        children = len(process_tree(pid)) - 1
        held = memory(pid).now / MB
        self.samples.append(Sample(label, held, files, int(figures["fairlead_tasks"]), children))


def open_files(pid: int) -> int:
    """Number of open file descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def handle(request: Request, reply: Reply) -> None:
    """The upstream server: `add` answers, `slow` never does."""
    if request.params.get("name") == "slow":
        await asyncio.Event().wait()
    answer_modern(request, reply, TOOLS, call=lambda _: {"content": [], "isError": False})


def start(stage: Stage, upstream: RawServer) -> Soak:
    """Start `fairlead gateway` with documents of two servers, one of which is a child process."""
    child = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
    demo = catalog("demo", upstream.url, TOOLS)
    publish(stage.folder / "documents", demo, catalog("child", child, ["echo"], version=LEGACY))
    port, metrics_port = free_port(), free_port()
    command: list[str | Path] = [Path(sys.executable).with_name("fairlead"), "gateway", "--host", "0.0.0.0"]
    command += ["--documents", stage.folder / "documents", "--port", str(port), "--metrics-port", str(metrics_port)]
    settings = {"FAIRLEAD_CLIENT_SILENCE": str(SILENCE), "FAIRLEAD_CLIENT_IDLE": "5", "FAIRLEAD_LOG_LEVEL": "ERROR"}
    process = stage.start("gateway", command, core=None, env={**os.environ, **settings})
    stage.wait_ready("gateway", process, port, "/readyz")
    return Soak(port, metrics_port, process)


async def clients(soak: Soak, plan: Plan, elsewhere_machine: Elsewhere | None, upstream: RawServer) -> None:
    """Run batches of clients: a quarter disconnect cleanly, a quarter by a reset, half without a packet."""
    vanishing = plan.crowd // 2
    for number in range(plan.batches):
        here = await crowd("127.0.0.1", soak.port, plan.crowd - vanishing)
        if elsewhere_machine is not None:
            await asyncio.to_thread(elsewhere_machine.come, vanishing)
            await asyncio.to_thread(elsewhere_machine.vanish)
            silent = []
        else:
            silent = await crowd("127.0.0.1", soak.port, vanishing)
        for index, guest in enumerate(here):
            guest.leave() if index % 2 else guest.slam()
        for guest in silent:
            guest.slam()
        await soak.empty()
        upstream.cut()
        upstream.seen.clear()
        await soak.sample(f"{(number + 1) * plan.crowd} clients")


async def swaps(soak: Soak, plan: Plan, folder: Path, upstream: RawServer) -> None:
    """Change one catalog repeatedly, each time after the previous change is served."""
    for number in range(plan.swaps):
        before = (await asyncio.to_thread(soak.figures))["fairlead_catalog_swaps_total"]
        publish(folder, catalog("changing", upstream.url, [tool(f"tool-{number}"), tool("same")]))
        end = time.monotonic() + PATIENCE
        while (await asyncio.to_thread(soak.figures))["fairlead_catalog_swaps_total"] == before:
            if time.monotonic() > end:
                raise Unmeasurable(f"a changed document was not taken into service within {PATIENCE:g} s")
            await asyncio.sleep(0.1)


async def servers(soak: Soak, plan: Plan, upstream: RawServer) -> None:
    """Close upstream connections after each call, and kill the child process after each answer."""
    for number in range(plan.cuts):
        await _ask(soak, "demo__add", {"a": 1})
        upstream.cut()
        if (number + 1) % max(1, plan.cuts // 10) == 0:
            upstream.seen.clear()
            await soak.sample(f"{number + 1} upstream connections closed")
    for number in range(plan.kills):
        end = time.monotonic() + PATIENCE
        while (await _ask(soak, "child__echo", {"text": "a"})).message["result"].get("isError"):
            if time.monotonic() > end:
                raise Unmeasurable(f"a child that was killed did not come back within {PATIENCE:g} s")
            await asyncio.sleep(0.1)
        for pid in process_tree(soak.process.pid)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while len(process_tree(soak.process.pid)) > 1:  # noqa: ASYNC110 - other processes tell us nothing
            await asyncio.sleep(0.02)
        await soak.sample(f"{number + 1} children killed")


async def _ask(soak: Soak, name: str, arguments: dict[str, object]) -> Answer:
    async with await Wire.connect(soak) as wire:
        return await wire.ask(calling(name, arguments))


@contextlib.asynccontextmanager
async def beside(work: asyncio.Task[None]) -> AsyncIterator[None]:
    """Run `work` in the background within the context; wait for it at the end."""
    try:
        yield
        await work
    finally:
        work.cancel()
        await asyncio.wait([work])


async def measure(stage: Stage, plan: Plan) -> Soak:
    """Run the whole measurement once."""
    async with raw_server(handle) as upstream:
        soak = await asyncio.to_thread(start, stage, upstream)
        with contextlib.ExitStack() as stack:
            elsewhere_machine = stack.enter_context(elsewhere()) if possible() else None
            if elsewhere_machine is not None:
                elsewhere_machine.start(soak.port)
            changing = asyncio.create_task(swaps(soak, plan, stage.folder / "documents", upstream))
            async with beside(changing):
                await clients(soak, plan, elsewhere_machine, upstream)
        await soak.sample(f"{plan.swaps} swaps")
        await servers(soak, plan, upstream)
    return soak


def growth(values: list[float]) -> float:
    """Growth of a straight line through the last three quarters of the samples, relative to its first value."""
    late = values[len(values) // 4 :]
    middle, mean = (len(late) - 1) / 2, sum(late) / len(late)
    spread = sum((x - middle) ** 2 for x in range(len(late)))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(late)) / spread if spread else 0.0
    return slope * (len(late) - 1)


def report(samples: list[Sample]) -> Report:
    """The series with fewer points, and bounds on the growth of each figure."""
    result = Report("soak")
    step = max(1, len(samples) // 24)
    for sample in [*samples[::step], samples[-1]]:
        cells: dict[str, Cell] = {"after": sample.label, "MB": sample.memory, "files": sample.files}
        result.rows.append({**cells, "tasks": sample.tasks, "children": sample.children})
    bounds = (("memory", "MB", 4.0), ("files", "", 2.0), ("tasks", "", 2.0), ("children", "", 0.5))
    for name, unit, bound in bounds:
        values = [float(getattr(sample, name)) for sample in samples]
        result.goals.append(
            Goal(f"growth of {name} over the later three quarters", growth(values), unit, at_most=bound)
        )
    result.notes.append(f"{len(samples)} samples, each with nobody connected; growth is that of a fitted line")
    return result


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if a resource is not released, or if a bound is exceeded."""
    plan = QUICK if settings.quick else FULL
    with Stage() as stage:
        soak = asyncio.run(measure(stage, plan))
    result = report(soak.samples)
    how = "in a network namespace that went off the net" if possible() else "by a reset: no right to make a namespace"
    result.notes.append(f"{plan.batches * plan.crowd:,} clients, half of them gone {how}; {plan.swaps:,} swaps")
    result.notes.append(f"run with FAIRLEAD_CLIENT_SILENCE={SILENCE:g} and FAIRLEAD_CLIENT_IDLE=5, to see them go soon")
    if not all(goal.met for goal in result.goals):
        raise Unmeasurable(f"something grows\n{result.to_markdown({}, 'this')}")
    return result
