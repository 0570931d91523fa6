"""Goals of the gateway beside the price of a call: lists, swaps, conversions beside calls, memory, replicas."""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from gateway import conversions
from gateway.gateways import (
    ALIKE,
    SERVERS,
    TOOLS,
    VERSIONS,
    Target,
    contents,
    gateway_over,
    start_nginx,
    start_upstream,
    world,
    write_documents,
)
from rig.harness import Goal, Sample, Settings, Unmeasurable
from rig.loadtools import Load, Outcome, run_load
from rig.processes import Stage, cores, ordinary, put_ahead, tree_memory
from rig.quota import NoQuota, Quota

MANY_TOOLS = 100
"""Tools of each server, in the catalog whose swaps are measured: 10,000 in all."""
SWAP_RATE = 500
WINDOW = 1.5
"""Seconds, in which a swap is over with all that follows it; in every second one all tools are replaced."""
MILLION = 1_000_000
SHARE = 0.2
"""Part of a core, for each gateway where there are no cores to give to both."""


class Goals:
    """One run; `found` are the goals so far."""

    def __init__(self, stage: Stage, settings: Settings, gateway: Target, ports: dict[str, int]) -> None:
        self.stage, self.settings, self.gateway, self.ports = stage, settings, gateway, ports
        self.found: list[Goal] = []
        self.notes: list[str] = []
        self.hop, self.rest = cores()

    def load(self, target: Target, tool: str, connections: int, seconds: float) -> Load:
        """Modern clients of one target."""
        return Load(target.port, "/mcp", tool, VERSIONS["modern"], connections, seconds, 0.5)

    def memory(self, when: str) -> None:
        """Resident memory of the gateway under test."""
        goal = Goal(f"RSS at {SERVERS * TOOLS:,} tools, {when}", tree_memory(self.gateway.pid) / 1e6, "MB", at_most=100)
        self.found.append(goal)

    def many_tools(self) -> None:
        """Measure memory when clients call many tools of many servers, each of them often."""
        tools = 2 if self.settings.quick else TOOLS - 2
        for number, (era, version) in itertools.product(range(tools), VERSIONS.items()):
            load = self.load(self.gateway, f"{era}%d__tool_{number}", 64, 1.0)
            self.run(replace(load, era=version, tools=ALIKE), self.gateway)
        self.memory(f"after {tools} tools of each of {len(VERSIONS) * ALIKE} servers were called")

    def lists(self) -> None:
        """`tools/list` of all 1,000 tools of 700 bytes."""
        seconds = 1.0 if self.settings.quick else 2.5
        load = replace(self.load(self.gateway, "", 4, seconds), listing=True)
        done = [run_load(self.stage, load, self.gateway.pid, [], core=self.rest) for _ in range(self.settings.rounds)]
        speed = Sample.of(outcome.calls_per_second for outcome in done)
        cpu = Sample.of(outcome.cpu for outcome in done)
        self.found.append(Goal(f"tools/list of {SERVERS * TOOLS:,} tools", speed.median, "lists/s", at_least=4500))
        self.notes.append(f"tools/list: {speed} a second, {cpu} µs of CPU each")

    def many_calls(self) -> None:
        """A million calls: does the memory stay where it was?"""
        first = replace(self.load(self.gateway, "modern__echo", 64, 900.0), calls=MILLION // 10)
        self.run(first, self.gateway)
        before = tree_memory(self.gateway.pid)
        outcome = self.run(replace(first, calls=MILLION), self.gateway)
        grown = (tree_memory(self.gateway.pid) - before) / 1e6
        self.found.append(Goal(f"growth over {MILLION:,} calls", grown, "MB", at_most=2))
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
        windows = conversions.WINDOWS * self.settings.rounds if not self.settings.quick else 3
        found = conversions.measure(self.stage, gateway, "modern", upstream.pid, windows)
        self.found += conversions.goals(found)

    # Swaps

    def swaps(self) -> None:
        """How much later an answer can come because 10,000 tools are being replaced: the slowest answer of each window
        with a swap, beside that of windows in between.
        """
        folder = self.stage.folder / "many"
        first, second = (list(world(self.ports, MANY_TOOLS, revision)) for revision in range(2))
        write_documents(folder, contents(first))
        revisions = [contents(catalogs, decided=False) for catalogs in (first, second)]
        gateway = gateway_over(self.stage, folder, self.hop, name="many")
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
        # like with like: what else the machine does delays calls in windows of either kind
        delay = nine_of_ten(swapping) - nine_of_ten(still)
        self.found.append(Goal(f"delay by a swap of {tools:,} tools", delay, "ms", at_most=5))
        self.notes.append(
            f"{swaps} swaps of {tools:,} tools under {SWAP_RATE} calls a second, slowest answers of windows of "
            f"{WINDOW:g} s (middle / nine of ten / all): {_spread(still)} without, {_spread(swapping)} with a swap; "
            f"the goal is nine of ten with a swap less nine of ten without; RSS {tree_memory(gateway.pid) / 1e6:.0f} MB"
        )

    # Replicas

    def replicas(self) -> None:
        """Two gateways behind one address, against one."""
        name = "two gateways behind one address"
        cores_left = len(cores_beside())
        try:
            quotas = [] if cores_left >= 2 else [Quota(SHARE), Quota(SHARE)]
        except NoQuota as error:
            self.found.append(Goal(name, None, "× one", at_least=1.8))
            self.notes.append(f"{name}: not measured, there are {cores_left} cores for them and {error}")
            return
        try:
            with ordinary() if quotas else nullcontext():  # shares are for ordinary processes, and so are its neighbors
                speeds = self.speeds_of_replicas(quotas)
        finally:
            for quota in quotas:
                quota.remove()
        one, two = Sample.of(speeds[0]), Sample.of(speeds[1])
        ratio = Sample.of(b / a for a, b in zip(*speeds, strict=True))
        self.found.append(Goal(name, ratio.median, "× one", at_least=1.8))
        each = f"{SHARE:.0%} of a core for each, as there are no two cores to spare" if quotas else "a core for each"
        self.notes.append(f"{name} (nginx): {two} calls/s against {one}, {ratio} ×; {each}")

    def speeds_of_replicas(self, quotas: list[Quota]) -> tuple[list[float], list[float]]:
        """Calls a second by round, of one and of two."""
        upstream = start_upstream(self.stage, "upstream-replicas", self.rest)
        folder = self.stage.folder / "replicas"
        write_documents(folder, contents(list(world(dict.fromkeys(self.ports, upstream.port)))))
        places: list[int] = [self.hop, self.hop] if quotas else list(cores_beside()[:2])
        gateways = [
            gateway_over(self.stage, folder, place, name=f"replica-{place}-{n}") for n, place in enumerate(places)
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
    """Those that neither load nor upstream stands on."""
    return [core for core in sorted(os.sched_getaffinity(0)) if core != cores()[1]]


def swaps_of(gateway: Target) -> int:
    """Snapshots taken into service so far, as its metrics say."""
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.metrics}/metrics", timeout=20) as page:
        for line in page.read().decode().splitlines():
            if line.startswith("fairlead_catalog_swaps_total"):
                return int(float(line.split()[-1]))
    raise Unmeasurable("the gateway does not count its swaps")


@contextmanager
def replacing(folder: Path, revisions: list[dict[str, bytes]], core: int, times: int) -> Iterator[Callable[[], None]]:
    """Function to call when a load begins: all catalogs are replaced at the begin of every second window, by the one
    revision and the other, from that core. Not with real-time priority, so that the load is kept from nothing.
    """
    begun, ended = threading.Event(), threading.Event()

    def replace_all() -> None:
        os.sched_setaffinity(0, {core})  # of this thread
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
    """Value that nine of ten values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * 0.9) - 1)]


def _spread(values: list[float]) -> str:
    """Middle, nine of ten, largest."""
    return " / ".join(f"{value:.1f}" for value in (Sample.of(values).median, nine_of_ten(values), max(values))) + " ms"
