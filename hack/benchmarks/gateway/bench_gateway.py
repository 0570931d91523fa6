"""The hop: a tools/call through the gateway, against nginx as a plain hop, no hop at all, and other proxies.

Upstreams that echo, in C; nginx and the gateway each alone on one core, load and upstreams on the other. The gateway
has 1,000 tools of 100 servers, decided tiers, 100 policies, validation, metrics and latencies on. The client's era is
the upstream's. What a call costs is the processor time of the hop's process tree, divided by the calls of the same
window; ratios are taken within a round. Load and upstream do not sleep between two messages (see `rig.loadtools`), but
for one row that shows what that makes of it.

With --peers also other proxies, with --long a million calls; --svg FILE draws the saturated rows. What cannot be
measured is told at the end, and costs nothing else: --only PART measures it alone.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from gateway.gateways import (
    ALIKE,
    STRICT,
    STRICT_MEMBERS,
    VERSIONS,
    Target,
    contents,
    gateway_over,
    start_nginx,
    start_upstream,
    world,
    write_documents,
)
from gateway.goals import Goals
from gateway.peers.peer import Door, Peer, environment
from gateway.peers.proxies import peers
from ports import free_port
from rig.chart import Bar, bars
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.loadtools import AWAKE_MICROSECONDS, Load, Outcome, run_load
from rig.processes import Stage, become_realtime, cores

SATURATED = 64
"""Connections at which the hop's core is busy; the goals are about this row."""
LARGE_BYTES = 10_000
PEER_CONNECTIONS = (1, SATURATED)
PEER_ROUNDS = 3
PEER_STARTS = 180
"""Seconds that another proxy may take to listen; ContextForge lays out a database first."""
AWAKE = ("-y", str(AWAKE_MICROSECONDS))
KINDS = {"plain": AWAKE, "sse": (*AWAKE, "-s"), "large": (*AWAKE, "-p", str(LARGE_BYTES)), "asleep": ()}
"""Upstreams, and what mcpup is told."""


@dataclass(frozen=True)
class Workload:
    """Load of the clients. `upstream` is one of KINDS."""

    name: str
    upstream: str = "plain"
    tool: str = "echo"
    members: str = ""
    tools: int = 0
    connections: tuple[int, ...] = (SATURATED,)

    def called(self, era: str) -> str:
        """The name that the gateway shows, of a client of `era`."""
        server = era if self.upstream == "plain" else f"{era}-{self.upstream}"
        return f"{era}%d__{self.tool}" if self.tools else f"{server}__{self.tool}"


PLAIN = Workload("small JSON", connections=(1, 16, SATURATED, 256))
WORKLOADS = (
    PLAIN,
    Workload("small JSON, client and server sleep", "asleep"),
    Workload("small SSE", "sse"),
    Workload("10 kB result", "large"),
    Workload("2 kB arguments", tool=STRICT, members=msgspec.json.encode(STRICT_MEMBERS).decode()[1:-1]),
    Workload(f"{ALIKE} servers in turn", tools=ALIKE),
)


def slug(name: str) -> str:
    """As a word of the command line."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name).split())


PARTS = (
    *(f"{slug(workload.name)}/{connections}" for workload in WORKLOADS for connections in workload.connections),
    "peers", "lists", "tools", "swaps", "conversions", "replicas", "million",
)  # fmt: skip
"""Names for --only. Of `peers`, one is named as in `peers/ToolHive-vMCP`."""

Key = tuple[str, str, int, str]
"""(workload, era, connections, target)"""


class Bench:
    """One run: what it started, and what it has found so far."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage, self.settings = stage, settings
        self.outcomes: dict[Key, dict[int, Outcome]] = defaultdict(dict)
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.met: list[Peer] = []
        """Other proxies whose turn it was."""
        self.hop, self.rest = cores()
        self.upstreams = {
            kind: start_upstream(stage, f"upstream-{kind}", self.rest, *options) for kind, options in KINDS.items()
        }
        # As far from the load as a hop is, so that `direct` shows what a second core costs and not more.
        self.direct = {
            kind: replace(start_upstream(stage, f"direct-{kind}", self.hop, *options), name="direct")
            for kind, options in KINDS.items()
        }
        found = start_nginx(stage, [[upstream.port] for upstream in self.upstreams.values()], self.hop)
        self.nginx = dict(zip(self.upstreams, found, strict=False))
        if not found:
            self.notes.append("nginx is not installed (Debian: nginx-light): no ratios")
        documents = stage.folder / "world"
        ports = {kind: upstream.port for kind, upstream in self.upstreams.items()}
        write_documents(documents, contents(list(world(ports))))
        self.gateway = gateway_over(stage, documents, self.hop)

    def window(self) -> tuple[float, float]:
        """Seconds of measurement and of warm-up."""
        return (0.7, 0.2) if self.settings.quick else (2.5, 0.7)

    def parts(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Every workload against every target, in interleaved rounds."""
        quick = self.settings.quick and not self.settings.only
        for workload in WORKLOADS:
            for era in list(VERSIONS)[: 1 if quick and workload is not PLAIN else 2]:
                for connections in (SATURATED,) if quick else workload.connections:
                    part = f"{slug(workload.name)}/{connections}"
                    yield part, partial(self.measure_one, workload, era, connections)

    def measure_one(self, workload: Workload, era: str, connections: int) -> None:
        """One row of each target."""
        direct, nginx = self.direct[workload.upstream], self.nginx.get(workload.upstream)
        targets = [target for target in (direct, nginx, self.gateway) if target is not None]
        for number, target in interleaved(targets, self.settings.rounds):
            tool = workload.called(era) if target.prefixed or workload.tools else workload.tool
            load = Load(
                target.port, "/mcp", tool, VERSIONS[era], connections, *self.window(),
                members=workload.members, tools=workload.tools, awake=workload.upstream != "asleep",
            )  # fmt: skip
            self.run(workload.name, era, connections, target, load, number)

    def attempt(self, part: str, work: Callable[[], object]) -> None:
        """Measure a part if it is wanted. What hinders it is told at the end; what was found before it stays."""
        if self.settings.wants(part):
            try:
                work()
            except Exception as error:  # noqa: BLE001  # the edge of a part; it is reported
                if not isinstance(error, Unmeasurable):
                    traceback.print_exc()
                self.failures.append(f"{part}: {' '.join(str(error).split())[-600:] or type(error).__name__}")

    def measure_peer(self, peer: Peer) -> None:
        """Another proxy, of clients of the legacy era, which all of them speak."""
        self.met.append(peer)
        port, url = free_port(), f"http://127.0.0.1:{self.upstreams['plain'].port}/mcp"
        log = peer.name.replace(" ", "-").replace("/", "-")
        words = list(peer.command(self.stage, port, url))
        process = self.stage.start(log, words, core=self.hop, env={**environment(), **peer.variables})
        try:
            self.stage.wait_listening(log, process, port, seconds=PEER_STARTS)
            door = peer.enter(port, url)
            self._peer_rounds(peer, Target(peer.name, port, process.pid), door)
        finally:
            self.stage.end(process)

    def _peer_rounds(self, peer: Peer, target: Target, door: Door) -> None:
        window = (1.5, 0.5) if self.settings.quick and not peer.slow else (8.0, 4.0)
        for connections in PEER_CONNECTIONS:
            for number in range(min(self.settings.rounds, PEER_ROUNDS)):
                load = Load(
                    target.port, door.path, peer.tool, VERSIONS["legacy"], connections, *window, header=door.header,
                    awake=True,
                )  # fmt: skip
                self.run(PLAIN.name, "legacy", connections, target, load, number)

    def run(self, workload: str, era: str, connections: int, target: Target, load: Load, number: int) -> None:
        """One load; its outcome is kept. Raises Unmeasurable with the row's name."""
        helpers = [one.pid for one in self.upstreams.values()] if target not in self.direct.values() else []
        try:
            outcome = run_load(self.stage, load, target.pid, helpers, core=self.rest)
        except Unmeasurable as error:
            raise Unmeasurable(f"{workload}, {target.name}, {era}, {connections} connections: {error}") from error
        self.outcomes[workload, era, connections, target.name][number] = outcome


def rows(outcomes: dict[Key, dict[int, Outcome]]) -> list[dict[str, str | int | float | Sample | None]]:
    """One per target and cell, with ratios to nginx in the same round."""
    found: list[dict[str, str | int | float | Sample | None]] = []
    for (workload, era, connections, target), rounds in outcomes.items():
        nginx = outcomes.get((workload, era, connections, "nginx"), {})
        found.append(
            {
                "target": target,
                "workload": workload,
                "era": era,
                "connections": connections,
                "calls/s": Sample.of(o.calls_per_second for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "p99 µs": Sample.of(o.p99 for o in rounds.values()),
                "CPU µs/call": Sample.of(o.cpu for o in rounds.values()),
                "user": Sample.of(o.cpu_user for o in rounds.values()),
                "system": Sample.of(o.cpu_system for o in rounds.values()),
                "cores used": Sample.of(o.utilization for o in rounds.values()),
                "foreign cores": Sample.of(o.foreign for o in rounds.values()),
                "× nginx calls/s": ratios(_speeds(rounds), _speeds(nginx)),
                "× nginx CPU": ratios({r: o.cpu for r, o in rounds.items()}, {r: o.cpu for r, o in nginx.items()}),
                "× nginx's added p50": _added(outcomes, (workload, era, connections, target), lambda o: o.p50),
                "× nginx's added p99": _added(outcomes, (workload, era, connections, target), lambda o: o.p99),
                "RSS MB": max(o.rss for o in rounds.values()) / 1e6,
                "× nginx RSS": ratios({r: o.rss for r, o in rounds.items()}, {r: o.rss for r, o in nginx.items()}),
            }
        )
    return found


def _speeds(rounds: dict[int, Outcome]) -> dict[int, float]:
    return {number: outcome.calls_per_second for number, outcome in rounds.items()}


def goals(outcomes: dict[Key, dict[int, Outcome]]) -> list[Goal]:
    """Those about the hop itself."""
    found = []
    for era in VERSIONS:
        mine = outcomes.get((PLAIN.name, era, SATURATED, "fairlead"), {})
        nginx = outcomes.get((PLAIN.name, era, SATURATED, "nginx"), {})
        direct = outcomes.get((PLAIN.name, era, SATURATED, "direct"), {})
        cpu = ratios({r: o.cpu for r, o in mine.items()}, {r: o.cpu for r, o in nginx.items()})
        speed = _median(ratios(_speeds(mine), _speeds(nginx)))
        alone = _median(ratios(_speeds(direct), _speeds(nginx)))
        added = _median(_added(outcomes, (PLAIN.name, era, 1, "fairlead"), lambda o: o.p50))
        found += [
            Goal(f"CPU per call, {era}", _median(cpu), "× nginx", at_most=1.5),
            Goal(f"calls/s, {era}", speed, "× nginx", at_least=0.6),
            Goal(f"added p50 at 1 connection, {era}", added, "× nginx's", at_most=1.5),
            Goal(f"load generator and upstream alone, {era}", alone, "× nginx", at_least=1.2),
        ]
    return found


def peer_goal(outcomes: dict[Key, dict[int, Outcome]], peer: Peer) -> list[Goal]:
    """How many of its calls a second ours are, at the most connections."""
    if peer.at_least is None:
        return []
    mine, theirs = (outcomes.get((PLAIN.name, "legacy", SATURATED, target), {}) for target in ("fairlead", peer.name))
    value = None
    if mine and theirs:
        value = Sample.of(_speeds(mine).values()).median / Sample.of(_speeds(theirs).values()).median
    return [Goal(f"calls/s against {peer.name}", value, "× its", at_least=peer.at_least)]


def _added(outcomes: dict[Key, dict[int, Outcome]], key: Key, time: Callable[[Outcome], float]) -> Sample | None:
    """Added time of a target per call, over the time that nginx adds, in rounds in which both add something."""
    direct, nginx, mine = (outcomes.get((*key[:3], target), {}) for target in ("direct", "nginx", key[3]))
    added = {r: time(o) - time(direct[r]) for r, o in mine.items() if r in direct}
    plain = {r: time(o) - time(direct[r]) for r, o in nginx.items() if r in direct}
    return ratios({r: more for r, more in added.items() if more > 0 and plain.get(r, 0) > 0}, plain)


def _median(sample: Sample | None) -> float | None:
    return None if sample is None else sample.median


def drawn(outcomes: dict[Key, dict[int, Outcome]]) -> str:
    """The saturated rows of the legacy era, which every peer speaks, as SVG."""
    nginx = outcomes.get((PLAIN.name, "legacy", SATURATED, "nginx"), {})
    found = []
    for (workload, era, connections, target), rounds in outcomes.items():
        if (workload, era, connections) == (PLAIN.name, "legacy", SATURATED) and target != "direct":
            sample = Sample.of(_speeds(rounds).values())
            found.append(Bar(target, sample, _median(ratios(_speeds(rounds), _speeds(nginx)))))
    title = f"tools/call per second through one core, {SATURATED} connections"
    return bars(title, sorted(found, key=lambda bar: -bar.sample.median))


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable where what is measured does not start; what cannot be measured then is among the
    report's failures.
    """
    if settings.realtime:
        become_realtime()
    with Stage() as stage:
        bench = Bench(stage, settings)
        more = Goals(stage, settings, bench.gateway, {kind: one.port for kind, one in bench.upstreams.items()})

        def attempt(part: str, work: Callable[[], object]) -> None:
            bench.attempt(part, work)
            settings.keep(reported(bench, more))

        more.memory("at the start")
        for part, work in bench.parts():
            attempt(part, work)
        if not settings.only:
            more.memory("after the load")
        beside = {
            "lists": more.lists, "tools": more.many_tools, "swaps": more.swaps, "conversions": more.conversions,
            "replicas": more.replicas,
        }  # fmt: skip
        for part, work in beside.items():
            attempt(part, work)
        if settings.long or (settings.wants("million") and settings.only):
            attempt("million", more.many_calls)
        if settings.peers or any(word.startswith("peers") for word in settings.only):
            for peer in peers(bench.notes):
                attempt(f"peers/{slug(peer.name)}", partial(bench.measure_peer, peer))
    report = reported(bench, more)
    if settings.svg is not None:
        settings.svg.write_text(drawn(bench.outcomes))
    return report


def reported(bench: Bench, more: Goals) -> Report:
    """Report of the results so far."""
    of_peers = [goal for peer in bench.met for goal in peer_goal(bench.outcomes, peer)]
    found = [*goals(bench.outcomes), *more.found, *of_peers]
    if bench.settings.only:
        found = [goal for goal in found if goal.value is not None]
    notes = [
        *bench.notes,
        *more.notes,
        "`cores used` well below 1 at saturation: load and upstream were the limit, read the CPU column",
        "every server of the gateway under test is selected by a policy, and every call decided by what it says",
    ]
    return Report("gateway", rows(bench.outcomes), found, notes, [*bench.failures])
