"""The hop: a tools/call through the gateway, against nginx as a plain hop, no hop at all, and other proxies.

Clients of every kind: plain ones, and those that declare capabilities, send a progress token, prefer event streams,
have sessions of their own with the server, ask for prompts, or post a model's message to REST (`gateway.workloads`).
Each of these rows has the plain client again in the same rounds. Upstreams that echo, in C; nginx and the gateway each
alone on one core, load and upstreams on the other. The gateway has 1,000 tools of 100 servers, decided tiers, 100
policies, validation, metrics and latencies on. The client's era is the upstream's. What a call costs is the processor
time of the hop's process tree, divided by the calls of the same window; ratios are taken within a round. Load and
upstream do not sleep between two messages (see `rig.loadtools`), but for one row that shows what that makes of it.
`full GCs` are the full (generation 2) garbage collections of the gateway in the rounds of a row.

With --peers also other proxies, with --long a million calls; --svg FILE draws the saturated rows. What cannot be
measured is told at the end, and costs nothing else: --only PART measures it alone.
"""

from __future__ import annotations

import itertools
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial

from gateway.gateways import (
    Target,
    ask_for_rest,
    contents,
    gateway_over,
    start_nginx,
    start_upstream,
    world,
    write_documents,
)
from gateway.goals import Goals
from gateway.heaps import collections_of
from gateway.peers.peer import Door, Peer, environment
from gateway.peers.proxies import MAKERS, peers
from gateway.tables import BARE_CLIENT, Outcomes, beside_peer, drawn, goals, peer_goals, rows
from gateway.workloads import BRIEF, KINDS, OF_PEERS, PLAIN, REST, SATURATED, WORKLOADS, Workload, slug
from ports import free_port
from rig.harness import Report, Settings, Unmeasurable, interleaved
from rig.loadtools import Load, run_load
from rig.processes import Stage, become_realtime, cores

PEER_CONNECTIONS = (1, SATURATED)
PEER_ROUNDS = 3
PEER_STARTS = 180
"""Seconds that another proxy may take until it listens; ContextForge first creates a database."""
PARTS = (
    *(f"{slug(workload.name)}/{connections}" for workload in WORKLOADS for connections in workload.connections),
    "peers",
    "lists",
    "tools",
    "connections",
    "swaps",
    "collector",
    "conversions",
    "replicas",
    "million",
)
"""Names for --only. A peer is named as in `peers/ToolHive-vMCP`."""


class Bench:
    """One run: its processes and its results so far."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage = stage
        self.settings = settings
        self.outcomes: Outcomes = defaultdict(dict)
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.met: list[Peer] = []
        """Other proxies that have been measured."""
        self.hop, self.rest = cores()
        self.upstreams = {
            kind: start_upstream(stage, f"upstream-{kind}", self.rest, *options) for kind, options in KINDS.items()
        }
        # As far from the load as a hop is, so that `direct` shows only the cost of a second core.
        self.direct = {
            kind: replace(start_upstream(stage, f"direct-{kind}", self.hop, *options), name="direct")
            for kind, options in KINDS.items()
        }
        nginx = start_nginx(stage, [[upstream.port] for upstream in self.upstreams.values()], self.hop)
        self.nginx = dict(zip(self.upstreams, nginx, strict=False))
        if not nginx:
            self.notes.append("nginx is not installed (Debian: nginx-light): no ratios")
        documents = stage.folder / "world"
        ports = {kind: upstream.port for kind, upstream in self.upstreams.items()}
        write_documents(documents, contents(list(world(ports))))
        self.gateway = gateway_over(stage, documents, self.hop)

    @cached_property
    def with_rest(self) -> Target:
        """Start the gateway again for REST requests: REST increases its memory."""
        return gateway_over(self.stage, self.stage.folder / "world", self.hop, name="with-rest")

    def window(self) -> tuple[float, float]:
        """Seconds of measurement and of warm-up."""
        return (0.7, 0.2) if self.settings.quick else (2.5, 0.7)

    def parts(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Measure every workload against every target, in interleaved rounds; with --quick those of BRIEF, at one
        size.
        """
        quick = self.settings.quick and not self.settings.only
        for workload in BRIEF if quick else WORKLOADS:
            for era in workload.eras[: 1 if quick and workload is not PLAIN else 2]:
                for connections in (SATURATED,) if quick else workload.connections:
                    part = f"{slug(workload.name)}/{connections}"
                    yield part, partial(self.measure_one, workload, era, connections)

    def measure_one(self, workload: Workload, era: str, connections: int) -> None:
        """Measure one row of each target."""
        beside = [self.direct[workload.upstream], self.nginx.get(workload.upstream)] if workload.by_hops else []
        gateway = self.with_rest if workload is REST else self.gateway
        if workload is REST:
            ask_for_rest(gateway)
        clients = [(target, workload) for target in (*beside, gateway) if target is not None]
        if workload.beside_bare:
            clients.append((replace(gateway, name=BARE_CLIENT), PLAIN))
        for number, (target, its) in interleaved(clients, self.settings.rounds):
            self.run(workload.name, era, connections, target, its.load(target, era, connections, self.window()), number)

    def attempt(self, part: str, work: Callable[[], object]) -> None:
        """Measure a part if it is selected. A failure is reported at the end; earlier results stay."""
        if self.settings.wants(part):
            try:
                work()
            except Exception as error:  # noqa: BLE001  # the edge of a part; it is reported
                if not isinstance(error, Unmeasurable):
                    traceback.print_exc()
                self.failures.append(f"{part}: {' '.join(str(error).split())[-600:] or type(error).__name__}")

    def measure_peer(self, peer: Peer) -> None:
        """Measure another proxy with clients of the legacy era, which all proxies support."""
        self.met.append(peer)
        self._in_front_of("plain", peer, PEER_CONNECTIONS, [PLAIN])
        for kind in dict.fromkeys(workload.upstream for workload in OF_PEERS if peer.every_row):
            for workload in OF_PEERS:
                if workload.upstream == kind:
                    try:
                        self._in_front_of(kind, peer, (SATURATED,), [workload])
                    except Unmeasurable as error:
                        why = " ".join(str(error).split())[-200:]
                        self.notes.append(f"{peer.name} does not serve the row `{workload.name}`: {why}")

    def _in_front_of(self, kind: str, peer: Peer, sizes: tuple[int, ...], workloads: list[Workload]) -> None:
        """Start the proxy in front of an upstream of that kind, and measure its rows."""
        port, url = free_port(), f"http://127.0.0.1:{self.upstreams[kind].port}/mcp"
        log = peer.name.replace(" ", "-").replace("/", "-")
        words = list(peer.command(self.stage, port, url))
        process = self.stage.start(log, words, core=self.hop, env={**environment(), **peer.variables})
        try:
            self.stage.wait_listening(log, process, port, seconds=PEER_STARTS)
            self._peer_rounds(peer, Target(peer.name, port, process.pid), peer.enter(port, url), sizes, workloads)
        finally:
            self.stage.end(process)

    def _peer_rounds(
        self, peer: Peer, target: Target, door: Door, sizes: tuple[int, ...], workloads: list[Workload]
    ) -> None:
        window = (1.5, 0.5) if self.settings.quick and not peer.slow else (2.5, 0.7) if peer.every_row else (8.0, 4.0)
        ours = replace(self.gateway, name=beside_peer(peer.name))
        targets = [target] if peer.slow else [target, ours]
        rounds = self.settings.rounds if peer.every_row else min(self.settings.rounds, PEER_ROUNDS)
        for workload, connections in itertools.product(workloads, sizes):
            for number, its in interleaved(targets, rounds):
                load = workload.load(its, "legacy", connections, window)
                if its is target:
                    tool = peer.tool.replace(PLAIN.tool, workload.tool)
                    load = replace(load, path=door.path, tool=tool, header=door.header)
                self.run(workload.name, "legacy", connections, its, load, number)

    def run(self, workload: str, era: str, connections: int, target: Target, load: Load, number: int) -> None:
        """Run one load and store its outcome. Raises Unmeasurable with the row's name."""
        helpers = [upstream.pid for upstream in self.upstreams.values()] if target not in self.direct.values() else []
        before = collections_of(target)
        try:
            outcome = run_load(self.stage, load, target.pid, helpers, core=self.rest)
        except Unmeasurable as error:
            raise Unmeasurable(f"{workload}, {target.name}, {era}, {connections} connections: {error}") from error
        made = collections_of(target) - before
        self.outcomes[workload, era, connections, target.name][number] = replace(
            outcome, collections=made.full, collecting=made.seconds
        )


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if Fairlead or an upstream does not start; later failures are listed in the
    report.
    """
    if settings.realtime:
        become_realtime()
    with Stage() as stage:
        bench = Bench(stage, settings)
        more = Goals(
            stage, settings, bench.gateway, {kind: upstream.port for kind, upstream in bench.upstreams.items()}
        )

        def attempt(part: str, work: Callable[[], object]) -> None:
            bench.attempt(part, work)
            settings.keep(reported(bench, more))

        more.memory("at the start")
        for part, work in bench.parts():
            attempt(part, work)
        if not settings.only:
            more.memory("after the load")
        beside = {
            "lists": more.lists,
            "tools": more.many_tools,
            "connections": more.many_connections,
            "collector": more.collector,
            "swaps": more.swaps,
            "conversions": more.conversions,
            "replicas": more.replicas,
        }
        for part, work in beside.items():
            attempt(part, work)
        if settings.long or (settings.wants("million") and settings.only):
            attempt("million", more.many_calls)
        if settings.peers or any(word.startswith("peers") for word in settings.only):
            peer_list = peers(bench.notes, lambda name: settings.wants(_part_of(name)))
            there = {_part_of(peer.name): peer for peer in peer_list}
            for part, peer in there.items():
                attempt(part, partial(bench.measure_peer, peer))
            parts = [_part_of(name) for names, _ in MAKERS for name in names]
            for word in settings.missed("peers", there):
                bench.failures.append(f"{word}: not measured; of peers there are {', '.join(parts)}")
    report = reported(bench, more)
    if settings.svg is not None:
        settings.svg.write_text(drawn(bench.outcomes))
    return report


def _part_of(peer: str) -> str:
    """Name of a peer's part for --only."""
    return f"peers/{slug(peer)}"


def reported(bench: Bench, more: Goals) -> Report:
    """Report of the results so far."""
    of_peers = [goal for peer in bench.met for goal in peer_goals(bench.outcomes, peer)]
    all_goals = [*goals(bench.outcomes), *more.goals, *of_peers]
    if bench.settings.only:
        all_goals = [goal for goal in all_goals if goal.value is not None]
    notes = [
        *bench.notes,
        *more.notes,
        "`cores used` well below 1 at saturation: load and upstream were the limit, read the CPU column",
        "every server of the gateway under test is selected by a policy, and every call decided by what it says",
    ]
    return Report("gateway", rows(bench.outcomes), all_goals, notes, [*bench.failures])
