"""From outcomes to the table: a row per target, ratios within a round, and the goals about the hop itself."""

from __future__ import annotations

from collections.abc import Callable

from fairlead_tools.version import COMPILED
from gateway.gateways import VERSIONS
from gateway.peers.peer import Peer
from gateway.workloads import CAPABLE, LARGE, PLAIN, SATURATED, STREAMED, TOKEN, Workload
from rig.chart import Bar, bars
from rig.harness import Goal, Sample, ratios
from rig.loadtools import Outcome

Key = tuple[str, str, int, str]
"""(workload, era, connections, target)"""
Outcomes = dict[Key, dict[int, Outcome]]
"""By round."""
MINE = "fairlead"
_IN_OTHERS_ROUNDS = f"{MINE}, beside "
BARE_CLIENT = "fairlead, bare client"
"""The gateway as its plain client finds it, in the rounds of another row."""


def beside_peer(peer: str) -> str:
    """Name of the gateway in the rounds of another proxy."""
    return f"{_IN_OTHERS_ROUNDS}{peer}"


Row = dict[str, str | int | float | Sample | None]


def rows(outcomes: Outcomes) -> list[Row]:
    """One per target and cell, with ratios to nginx and to the plain client in the same round; of another proxy to what
    nginx was in a round before.
    """
    all_rows: list[Row] = []
    for key, rounds in outcomes.items():
        nginx, bare = _beside(outcomes, key, "nginx"), _beside(outcomes, key, BARE_CLIENT)
        if key[3].startswith(_IN_OTHERS_ROUNDS):
            nginx = {}  # it was measured minutes before
        all_rows.append(
            {
                "target": key[3],
                "workload": key[0],
                "era": key[1],
                "connections": key[2],
                "calls/s": Sample.of(o.calls_per_second for o in rounds.values()),
                "p50 µs": Sample.of(o.p50 for o in rounds.values()),
                "p99 µs": Sample.of(o.p99 for o in rounds.values()),
                "CPU µs/call": Sample.of(o.cpu for o in rounds.values()),
                "user": Sample.of(o.cpu_user for o in rounds.values()),
                "system": Sample.of(o.cpu_system for o in rounds.values()),
                "cores used": Sample.of(o.utilization for o in rounds.values()),
                "foreign cores": Sample.of(o.foreign for o in rounds.values()),
                "× nginx calls/s": _over(rounds, nginx, _speed),
                "× nginx CPU": _over(rounds, nginx, _cpu),
                "× nginx p99": _over(rounds, nginx, _p99),
                "× nginx's added p50": _added(outcomes, key, _p50),
                "× nginx's added p99": _added(outcomes, key, _p99),
                "× bare CPU": _over(rounds, bare, _cpu),
                "× bare p99": _over(rounds, bare, _p99),
                "full GCs": sum(o.collections for o in rounds.values()),
                "full GCs ms": sum(o.collecting for o in rounds.values()) * 1000,
                "RSS MB": max(o.rss for o in rounds.values()) / 1e6,
                "× nginx RSS": _over(rounds, nginx, lambda o: o.rss),
            }
        )
    return all_rows


def goals(outcomes: Outcomes) -> list[Goal]:
    """Those about the hop itself, of every kind of client that has some."""
    hop = 1.35 if COMPILED else 1.8
    all_goals: list[Goal] = []
    for era in VERSIONS:
        all_goals += _hop(outcomes, PLAIN, era, hop)
        all_goals += _alone(outcomes, era)
    all_goals += _hop(outcomes, CAPABLE, "legacy", hop)
    for name, value, bound in (("CPU per call", _cpu, 1.10), ("p99", _p99, 1.2)):
        key = (CAPABLE.name, "legacy", SATURATED)
        ratio = _over(_of(outcomes, key, MINE), _of(outcomes, key, BARE_CLIENT), value)
        all_goals.append(Goal(f"{name}, {CAPABLE.name}, legacy", _median(ratio), "× bare client's", at_most=bound))
    for workload, bound in ((TOKEN, 1.7), (STREAMED, 1.7), (LARGE, 1.5)):
        for era in workload.eras:
            all_goals += _hop(outcomes, workload, era, bound)[::2]
    return all_goals


def _hop(outcomes: Outcomes, workload: Workload, era: str, cpu: float) -> list[Goal]:
    """CPU, calls a second, p99 at saturation, and the p50 added at one connection, over nginx's."""
    row, what = (workload.name, era, SATURATED), f"{workload.name}, {era}"
    mine, nginx = _of(outcomes, row, MINE), _of(outcomes, row, "nginx")
    speed = _median(_over(mine, nginx, _speed))
    hop_goals = [
        Goal(f"CPU per call, {what}", _median(_over(mine, nginx, _cpu)), "× nginx", at_most=cpu),
        Goal(f"calls/s, {what}", speed, "× nginx", at_least=0.7),
        Goal(f"p99, {what}", _median(_over(mine, nginx, _p99)), "× nginx's", at_most=1.75),
    ]
    if 1 in workload.connections:
        added = _median(_added(outcomes, (workload.name, era, 1, MINE), _p50))
        hop_goals.append(Goal(f"added p50 at 1 connection, {what}", added, "× nginx's", at_most=1.3))
    return hop_goals


def _alone(outcomes: Outcomes, era: str) -> list[Goal]:
    """Whether load generator and upstream were fast enough to measure anything."""
    row = (PLAIN.name, era, SATURATED)
    alone = _median(_over(_of(outcomes, row, "direct"), _of(outcomes, row, "nginx"), _speed))
    return [Goal(f"load generator and upstream alone, {era}", alone, "× nginx", at_least=1.2)]


def peer_goals(outcomes: Outcomes, peer: Peer) -> list[Goal]:
    """How many of its calls a second ours are, at the most connections, on each row that it serves: in the same rounds,
    or by the medians of both where it is slow and was measured alone.
    """
    if peer.at_least is None:
        return []
    served = [key[0] for key in outcomes if key[1:] == ("legacy", SATURATED, peer.name)]
    all_goals = []
    for workload in served or [PLAIN.name]:
        row = (workload, "legacy", SATURATED)
        mine, theirs = (_of(outcomes, row, name) for name in (MINE, peer.name))
        value = _median(_over(_of(outcomes, row, beside_peer(peer.name)), theirs, _speed))
        if value is None and mine and theirs:
            value = Sample.of(map(_speed, mine.values())).median / Sample.of(map(_speed, theirs.values())).median
        all_goals.append(Goal(f"calls/s against {peer.name}, {workload}", value, "× its", at_least=peer.at_least))
    return all_goals


def _speed(outcome: Outcome) -> float:
    return outcome.calls_per_second


def _cpu(outcome: Outcome) -> float:
    return outcome.cpu


def _p50(outcome: Outcome) -> float:
    return outcome.p50


def _p99(outcome: Outcome) -> float:
    return outcome.p99


def _of(outcomes: Outcomes, row: tuple[str, str, int], target: str) -> dict[int, Outcome]:
    return outcomes.get((*row, target), {})


def _beside(outcomes: Outcomes, key: Key, target: str) -> dict[int, Outcome]:
    """Outcomes of another target in the row of `key`."""
    return _of(outcomes, key[:3], target)


def _over(mine: dict[int, Outcome], other: dict[int, Outcome], value: Callable[[Outcome], float]) -> Sample | None:
    """Ratio of a figure, round by round; None where no round has both."""
    return ratios({r: value(o) for r, o in mine.items()}, {r: value(o) for r, o in other.items()})


def _added(outcomes: Outcomes, key: Key, time: Callable[[Outcome], float]) -> Sample | None:
    """Added time of a target per call, over the time that nginx adds, in rounds in which both add something."""
    direct, nginx, mine = (_beside(outcomes, key, target) for target in ("direct", "nginx", key[3]))
    added = {r: time(o) - time(direct[r]) for r, o in mine.items() if r in direct}
    plain = {r: time(o) - time(direct[r]) for r, o in nginx.items() if r in direct}
    return ratios({r: more for r, more in added.items() if more > 0 and plain.get(r, 0) > 0}, plain)


def _median(sample: Sample | None) -> float | None:
    return None if sample is None else sample.median


def drawn(outcomes: Outcomes) -> str:
    """The saturated rows of the legacy era, which every peer speaks, as SVG; of the gateway that of its own rounds."""
    nginx = outcomes.get((PLAIN.name, "legacy", SATURATED, "nginx"), {})
    charts = []
    for (workload, era, connections, target), rounds in outcomes.items():
        shown = target != "direct" and not target.startswith(_IN_OTHERS_ROUNDS)
        if (workload, era, connections) == (PLAIN.name, "legacy", SATURATED) and shown:
            sample = Sample.of(map(_speed, rounds.values()))
            charts.append(Bar(target, sample, _median(_over(rounds, nginx, _speed))))
    title = f"tools/call per second through one core, {SATURATED} connections"
    return bars(title, sorted(charts, key=lambda bar: -bar.sample.median))
