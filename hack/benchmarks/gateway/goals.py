"""Goals of the gateway other than the cost of a call: lists, swaps, conversions during calls, memory, garbage
collections, replicas.

`bench_gateway` starts the gateway under test.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from gateway import conversions
from gateway.gateways import (
    OWN,
    SERVERS,
    STRICT,
    TOOLS,
    VERSIONS,
    Target,
    ask_for_rest,
    contents,
    gateway_over,
    start_nginx,
    start_upstream,
    world,
    write_documents,
)
from gateway.heaps import collections_of, footprint_of, metrics_of
from gateway.workloads import CLIENTS, PLAIN, SATURATED, STRICT_ARGUMENTS
from rig.harness import Goal, Sample, Settings, Unmeasurable
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, cores, ordinary, put_ahead, tree_memory
from rig.quota import NoQuota, Quota

MANY_TOOLS = 100
"""Tools of each server, in the catalog whose swaps are measured: 10,000 in all."""
SWAP_RATE = 500
WINDOW = 1.5
"""Seconds in which a swap and everything that follows it are finished. In every second window all tools are
replaced."""
MILLION = 1_000_000
STEADY_CALLS = 100_000
STEADY_SECONDS = 30.0
"""Seconds of load for each kind of client. Counts of a shorter load are scaled."""
CONNECTIONS = 1_000
FEWEST = 500
"""Minimum number of calls of a load, so that its duration can be measured."""
SHARE = 0.2
"""Share of a core for each gateway, if the machine has too few cores for two."""


class Goals:
    """One run, with its goals so far."""

    def __init__(self, stage: Stage, settings: Settings, gateway: Target, ports: dict[str, int]) -> None:
        self.stage = stage
        self.settings = settings
        self.gateway = gateway
        self.ports = ports
        self.goals: list[Goal] = []
        self.notes: list[str] = []
        self.hop, self.rest = cores()

    def load(self, target: Target, tool: str, connections: int, seconds: float) -> Load:
        """Load of modern clients on one target."""
        return Load(target.port, "/mcp", tool, VERSIONS["modern"], connections, seconds, 0.5)

    def memory(self, when: str, *, serving: float = 100) -> None:
        """Memory of the gateway under test: RSS of the process that serves MCP, PSS of all its processes."""
        footprint, where = footprint_of(self.gateway), f"{SERVERS * TOOLS:,} tools, {when}"
        self.goals.append(Goal(f"RSS of the MCP process at {where}", footprint.serving / 1e6, "MB", at_most=serving))
        self.goals.append(Goal(f"PSS of all processes at {where}", footprint.together / 1e6, "MB", at_most=120))

    def many_tools(self) -> None:
        """Measure memory when clients call every tool of every server, each of them 100 times."""
        own = TOOLS - 2
        alike = (SERVERS - len(self.ports) * len(VERSIONS)) // len(VERSIONS) - 1
        named = ["", *(f"-{kind}" for kind in (*self.ports, OWN) if kind != "plain")]
        times = 2 if self.settings.quick else 100
        for era, version in VERSIONS.items():
            for name in ("echo", STRICT, *(f"tool_{number}" for number in range(own))):
                members = STRICT_ARGUMENTS if name == STRICT else ""
                self.call(version, f"{era}%d__{name}", alike, times, members)
            for server in named:
                self.call(version, f"{era}{server}__tool_%d", own, times)
                self.call(version, f"{era}{server}__echo", 1, times)
                self.call(version, f"{era}{server}__{STRICT}", 1, times, STRICT_ARGUMENTS)
        self.memory("after each of them was called", serving=80)

    def call(self, version: str, tool: str, tools: int, times: int, members: str = "") -> None:
        """Call each of `tools` tools at least that many times; `tool` contains `%d` if there are several."""
        load = replace(self.load(self.gateway, tool, SATURATED, 60.0), warmup=0.05, era=version, members=members)
        self.run(replace(load, tools=tools if "%d" in tool else 0, calls=max(FEWEST, times * tools)), self.gateway)

    def many_connections(self) -> None:
        """Measure memory while 1,000 clients of the modern era are connected and make calls."""
        load = replace(self.load(self.gateway, "modern__echo", CONNECTIONS, 1.0), warmup=1.0)
        run_load(
            self.stage,
            load,
            self.gateway.pid,
            [],
            core=self.rest,
            started=lambda: self.memory(f"with {CONNECTIONS:,} connections"),
        )

    def collector(self) -> None:
        """Count full garbage collections in steady state, for every kind of client, with 10,000 tools."""
        _, gateway = self.many
        ask_for_rest(gateway)
        calls, seconds = (5_000, 3.0) if self.settings.quick else (STEADY_CALLS, STEADY_SECONDS)
        tools = f"{SERVERS * MANY_TOOLS:,} tools"
        for workload, era in [(PLAIN, era) for era in VERSIONS] + [
            (client, era) for client in CLIENTS for era in client.eras
        ]:
            load = replace(workload.load(gateway, era, SATURATED, (seconds, 1.0)), calls=calls)
            self.run(replace(load, seconds=0.5), gateway)
            before = collections_of(gateway)
            outcome = self.run(replace(load, warmup=0.1), gateway)
            made, what = collections_of(gateway) - before, f"{workload.name}, {era}"
            rate = made.full * STEADY_CALLS / outcome.calls
            self.goals.append(Goal(f"full collections, {tools}, {what}", rate, "per 100,000 calls", at_most=0))
            if made.full:
                self.notes.append(f"{tools}, {what}: {made.full} full collections, {made.seconds * 1000:.1f} ms in all")

    def lists(self) -> None:
        """Measure `tools/list` of all 1,000 tools of 700 bytes."""
        seconds = 1.0 if self.settings.quick else 2.5
        load = replace(self.load(self.gateway, "", 4, seconds), kind="list")
        done = [run_load(self.stage, load, self.gateway.pid, [], core=self.rest) for _ in range(self.settings.rounds)]
        speed = Sample.of(outcome.calls_per_second for outcome in done)
        cpu = Sample.of(outcome.cpu for outcome in done)
        self.goals.append(Goal(f"tools/list of {SERVERS * TOOLS:,} tools", speed.median, "lists/s", at_least=4500))
        self.notes.append(f"tools/list: {speed} a second, {cpu} µs of CPU each")

    def many_calls(self) -> None:
        """Measure whether memory stays constant over a million calls."""
        first = replace(self.load(self.gateway, "modern__echo", 64, 900.0), calls=MILLION // 10)
        self.run(first, self.gateway)
        before = tree_memory(self.gateway.pid)
        outcome = self.run(replace(first, calls=MILLION), self.gateway)
        grown = (tree_memory(self.gateway.pid) - before) / 1e6
        self.goals.append(Goal(f"growth over {MILLION:,} calls", grown, "MB", at_most=2))
        self.notes.append(
            f"{MILLION:,} calls: {outcome.calls_per_second:,.0f} a second, RSS {before / 1e6:.1f} MB before"
        )

    def run(self, load: Load, target: Target) -> Outcome:
        """One load, with its core to itself."""
        return run_load(self.stage, load, target.pid, [], core=self.rest)

    def conversions(self) -> None:
        """Measure the p99 of calls while REST conversions run: of a gateway of its own, on any core."""
        upstream = start_upstream(self.stage, "upstream-conversions", self.rest)
        folder = self.stage.folder / "conversions"
        write_documents(folder, contents(list(world(dict.fromkeys(self.ports, upstream.port)))))
        gateway = gateway_over(self.stage, folder, None, name="converting")
        ask_for_rest(gateway)
        windows = conversions.WINDOWS * self.settings.rounds if not self.settings.quick else 3
        by_case = conversions.measure(self.stage, gateway, "modern", upstream.pid, windows)
        self.goals += conversions.goals(by_case)

    @cached_property
    def many(self) -> tuple[Path, Target]:
        """A gateway with 10,000 tools, and the folder of its documents."""
        folder = self.stage.folder / "many"
        write_documents(folder, contents(list(world(self.ports, MANY_TOOLS))))
        return folder, gateway_over(self.stage, folder, self.hop, name="many")

    # Swaps

    def swaps(self) -> None:
        """Measure by how much answers are delayed while 10,000 tools are replaced: the slowest answer of each window
        with a swap, compared with windows without one.
        """
        folder, gateway = self.many
        revisions = [contents(list(world(self.ports, MANY_TOOLS, number)), decided=False) for number in range(2)]
        pairs = 2 if self.settings.quick else 5
        load = self.load(gateway, "modern__echo", 4, 2 * pairs * WINDOW)
        load = replace(load, rate=SWAP_RATE, interval=WINDOW)
        still: list[float] = []
        swapping: list[float] = []
        before = swaps_of(gateway)
        for _ in range(self.settings.rounds):
            put_ahead(gateway.pid)
            with replacing(folder, revisions, self.rest, pairs) as started:
                outcome = run_load(self.stage, load, gateway.pid, [], core=self.rest, started=started)
            still += [worst / 1000 for worst in outcome.worst_each[0::2]]
            swapping += [worst / 1000 for worst in outcome.worst_each[1::2]]
        swaps = swaps_of(gateway) - before
        if not swaps:
            raise Unmeasurable("the gateway took no changed catalog into service")
        tools = SERVERS * MANY_TOOLS
        # compare equal windows: other work of the machine delays calls in both kinds
        delay = nine_of_ten(swapping) - nine_of_ten(still)
        self.goals.append(Goal(f"delay by a swap of {tools:,} tools", delay, "ms", at_most=5))
        self.notes.append(
            f"{swaps} swaps of {tools:,} tools under {SWAP_RATE} calls a second, slowest answers of windows of "
            f"{WINDOW:g} s (middle / nine of ten / all): {_spread(still)} without, {_spread(swapping)} with a swap; "
            f"the goal is nine of ten with a swap less nine of ten without; RSS {tree_memory(gateway.pid) / 1e6:.0f} MB"
        )

    # Replicas

    def replicas(self) -> None:
        """Compare two gateways behind one address with one gateway."""
        name = "two gateways behind one address"
        cores_left = len(cores_beside())
        try:
            quotas = [] if cores_left >= 2 else [Quota(SHARE), Quota(SHARE)]
        except NoQuota as error:
            self.goals.append(Goal(name, None, "× one", at_least=1.8))
            self.notes.append(f"{name}: not measured, there are {cores_left} cores for them and {error}")
            return
        try:
            with ordinary() if quotas else nullcontext():  # shares apply only among ordinary processes
                speeds = self.speeds_of_replicas(quotas)
        finally:
            for quota in quotas:
                quota.remove()
        first, second = Sample.of(speeds[0]), Sample.of(speeds[1])
        ratio = Sample.of(b / a for a, b in zip(*speeds, strict=True))
        self.goals.append(Goal(name, ratio.median, "× one", at_least=1.8))
        each = f"{SHARE:.0%} of a core for each, as there are no two cores to spare" if quotas else "a core for each"
        self.notes.append(f"{name} (nginx): {second} calls/s against {first}, {ratio} ×; {each}")

    def speeds_of_replicas(self, quotas: list[Quota]) -> tuple[list[float], list[float]]:
        """Calls per second by round, of one gateway and of two."""
        upstream = start_upstream(self.stage, "upstream-replicas", self.rest)
        folder = self.stage.folder / "replicas"
        write_documents(folder, contents(list(world(dict.fromkeys(self.ports, upstream.port)))))
        places: list[int] = [self.hop, self.hop] if quotas else list(cores_beside()[:2])
        gateways = [
            gateway_over(self.stage, folder, cores, name=f"replica-{cores}-{n}") for n, cores in enumerate(places)
        ]
        for quota, gateway in zip(quotas, gateways, strict=False):
            quota.take(gateway.pid)
        ports = [gateway.port for gateway in gateways]
        fronts = start_nginx(self.stage, [ports[:1], ports], self.rest, "balancer")
        if not fronts:
            raise Unmeasurable("nginx stands in front of the replicas: install it (Debian: nginx-light)")
        seconds = 1.0 if self.settings.quick else 3.0
        speeds: tuple[list[float], list[float]] = ([], [])
        for _, which in itertools.product(range(self.settings.rounds), (0, 1)):
            load = self.load(fronts[which], "modern__echo", 64, seconds)
            speeds[which].append(self.run(load, gateways[0]).calls_per_second)
        return speeds


def cores_beside() -> list[int]:
    """Cores that neither load nor upstream runs on."""
    return [core for core in sorted(os.sched_getaffinity(0)) if core != cores()[1]]


def swaps_of(gateway: Target) -> int:
    """Number of snapshot swaps so far, from the metrics."""
    swaps = metrics_of(gateway).get("fairlead_catalog_swaps_total")
    if swaps is None:
        raise Unmeasurable("the gateway does not count its swaps")
    return int(swaps)


@contextmanager
def replacing(folder: Path, revisions: list[dict[str, bytes]], core: int, times: int) -> Iterator[Callable[[], None]]:
    """Function to call when a load begins. It replaces all catalogs at the beginning of every second window,
    alternating between two revisions, on the given core. It has no real-time priority, so that it does not delay the
    load.
    """
    begun, ended = threading.Event(), threading.Event()

    def replace_all() -> None:
        os.sched_setaffinity(0, {core})  # for this thread only
        begun.wait()
        started = time.monotonic()
        with ordinary():
            for number in range(1, times + 1):
                if ended.wait(max(0.0, started + (2 * number - 1) * WINDOW - time.monotonic())):
                    return
                write_documents(folder, revisions[number % 2])

    writer = threading.Thread(target=replace_all, name="documents")
    writer.start()
    try:
        yield begun.set
    finally:
        ended.set()
        begun.set()
        writer.join()


def nine_of_ten(values: list[float]) -> float:
    """90th percentile."""
    return sorted(values)[max(0, math.ceil(len(values) * 0.9) - 1)]


def _spread(values: list[float]) -> str:
    """Median, 90th percentile and maximum."""
    return " / ".join(f"{value:.1f}" for value in (Sample.of(values).median, nine_of_ten(values), max(values))) + " ms"
