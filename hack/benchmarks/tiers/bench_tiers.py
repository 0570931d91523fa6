"""Latency tiers: late calls, moves and wrong hides of the rule as it ships, on traces of tools that misbehave.

Two modes on the same `traces`. The replay drives the operator's `ToolRecord` in virtual time over many seeds:
that is what goals are judged by. `--long` (half an hour) has `fairlead up` in front of real HTTP tool servers instead,
in real time, once, and judges that by the same goals; `--realtime` keeps the machine's other work out of it. `--plots`
draws each trace into the docs: with `--long` what was measured live, else what was replayed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rig.harness import Cell, Goal, Report, Settings
from rig.processes import become_realtime
from tiers.live import AT_ONCE, Found, columns, measured
from tiers.plots import draw
from tiers.replay import (
    AS_SHIPPED,
    DECLARED,
    NO_TIERS,
    ONCE_A_SECOND,
    P50,
    P95,
    SLOWER,
    TRIALS,
    Channel,
    Outcomes,
    Policy,
    Replay,
)
from tiers.traces import TRACES, Trace

SEEDS: Final = 40
OTHER_SEEDS: Final = 4
QUICK_SEEDS: Final = 3
"""Seeds per round, for the product and its alternatives, with --quick."""
QUICK_LIVE: Final = ("liar, one",)
QUICK_CALLS: Final = 60
PLOTS: Final = Path(__file__).resolve().parents[3] / "docs/configure/tiers"

ONE: Final = ("shift, one", "shift, hot", "dead, one", "liar, one")
FOUR: Final = ("shift, four", "dead, four", "liar, four")
HARD: Final = ("drift, four", "bimodal, four")
SHIFTS: Final = (*ONE, *FOUR)
MOVED_ONCE: Final = ("shift, one", "shift, hot", "dead, one", "liar, one")
BACK: Final = ("recovering, one", "recovering, four", "slow and back, one", "slow and back, hot")


def run(settings: Settings) -> Report:
    """One row for each trace and policy. Goals are about p95 with probes. Tools that may not be probed have separate
    rows.
    """
    return live(settings) if settings.long else replay(settings)


def live(settings: Settings) -> Report:
    """Measure the product in real time. Raises Unmeasurable."""
    if settings.realtime:
        become_realtime()
    report = Report("tiers, live")
    figures_by_trace: dict[str, dict[str, Found]] = {}
    for name, policy, each in measured(*((QUICK_LIVE, QUICK_CALLS) if settings.quick else ())):
        report.rows.append({"trace": name, "policy": policy, **figures([each]), **columns(each)})
        figures_by_trace.setdefault(name, {})[policy] = each
    if not settings.quick:
        report.goals.extend(goals({name: [policies[P95.name]] for name, policies in figures_by_trace.items()}))
    report.notes.append(
        "`fairlead up` in a process of its own, tools behind real HTTP servers, probes as they ship, real time, one "
        f"seed; {AT_ONCE} traces with all policies side by side; late: what the agent waited"
    )
    if settings.plots:
        for name, policies in figures_by_trace.items():
            _plot(TRACES[name], {policy: policies[policy] for policy in (NO_TIERS.name, P95.name)})
    return report


def replay(settings: Settings) -> Report:
    """Measure the rule in virtual time."""
    report = Report("tiers")
    shipped: dict[str, list[Outcomes]] = {}
    for trace in TRACES.values():
        for policy, channel, label in _policies():
            judged = policy is P95 and channel is AS_SHIPPED
            many = judged or policy is TRIALS
            seeds = settings.rounds * (QUICK_SEEDS if settings.quick else SEEDS if many else OTHER_SEEDS)
            outcomes = replayed(trace, policy, channel, seeds)
            report.rows.append({"trace": trace.name, "policy": label, **figures(outcomes)})
            if judged:
                shipped[trace.name] = outcomes
    report.goals.extend(goals(shipped))
    report.notes.append(
        f"replayed in virtual time, 2,000 calls a run, {settings.rounds} rounds of {SEEDS} seeds with p95, probed or "
        f"not, and of {OTHER_SEEDS} with the rest (--quick: {QUICK_SEEDS}); a hidden tool is probed as "
        "`calibration.schedule` does, for 5 % of its time at most"
    )
    report.notes.append("late per shift: late calls of one misbehaving tool until it heals; mean, and 95th percentile")
    if settings.plots:
        for trace in TRACES.values():
            _plot(trace, {policy.name: Replay(trace, 0, policy).run() for policy in (NO_TIERS, P95)})
    return report


def _plot(trace: Trace, compared: Mapping[str, Outcomes]) -> None:
    PLOTS.mkdir(exist_ok=True)
    (PLOTS / f"{file_name(trace)}.svg").write_text(draw(trace, compared))


def replayed(trace: Trace, policy: Policy, channel: Channel, seeds: int) -> list[Outcomes]:
    """Replay the seeds 0 to `seeds` - 1."""
    return [Replay(trace, seed, policy, channel).run() for seed in range(seeds)]


def figures(outcomes: Sequence[Outcomes]) -> dict[str, Cell]:
    """Columns of a row."""
    shifts = [each.late_per_shift for each in outcomes]
    demote = [seconds for each in outcomes for seconds in each.demote]
    recover = [seconds for each in outcomes for seconds in each.recover]
    return {
        "late calls": statistics.mean(each.late for each in outcomes),
        "in time %": f"{100 * statistics.mean(each.in_time for each in outcomes):.2f}",
        "late per shift": f"{statistics.mean(shifts):.1f} ({rank(shifts, 0.95):.0f})" if any(shifts) else None,
        "demote s": statistics.mean(demote) if demote else None,
        "recover s (slowest)": f"{statistics.mean(recover):.0f} ({max(recover):.0f})" if recover else None,
        "moves": f"{statistics.mean(each.moves / each.subjects for each in outcomes):.2f}",
        "runs with a wrong hide %": 100 * statistics.mean(each.wrong_hides > 0 for each in outcomes),
    }


def goals(outcomes_by_policy: dict[str, list[Outcomes]]) -> Iterable[Goal]:
    """Goals of the product, each over its worst trace."""
    late = {name: [each.late_per_shift for each in outcomes_by_policy[name]] for name in SHIFTS}
    in_time = _means(outcomes_by_policy, lambda each: 100 * each.in_time)
    wrong = _means(outcomes_by_policy, lambda each: 100.0 * (each.wrong_hides > 0))
    moves = _means(outcomes_by_policy, lambda each: each.moves / each.subjects)
    yield Goal("late calls per shift, 95th percentile", max(rank(each, 0.95) for each in late.values()), "", at_most=20)
    yield Goal("late calls per shift, mean", max(map(statistics.mean, late.values())), "", at_most=12)
    yield Goal("late calls per shift, median", max(map(statistics.median, late.values())), "", at_most=10)
    yield Goal("in time, one tool misbehaves", min(in_time[name] for name in ONE), "%", at_least=99)
    yield Goal("in time, four at once", min(in_time[name] for name in FOUR), "%", at_least=98.5)
    yield Goal("in time, drift and cache misses", min(in_time[name] for name in HARD), "%", at_least=97.5)
    yield Goal("moves per shift", max(moves[name] for name in MOVED_ONCE), "", at_most=1.05)
    yield Goal("moves per shift and recovery", max(moves[name] for name in BACK), "", at_most=2.05)
    yield Goal(
        "runs with a wrong hide, p95 at 0.6 and 0.8", max(wrong["steady 0.6"], wrong["steady 0.8"]), "%", at_most=0
    )
    yield Goal("runs with a wrong hide, p95 at 0.9", wrong["steady 0.9"], "%", at_most=1)
    back = [seconds for name in BACK for each in outcomes_by_policy[name] for seconds in each.recover]
    yield Goal("recovery, slowest", max(back, default=None), "s", at_most=60)
    missed = sum(len(each.demote) - len(each.recover) for name in BACK for each in outcomes_by_policy[name])
    yield Goal("outages without recovery", missed, "", at_most=0)


def _means(outcomes_by_policy: dict[str, list[Outcomes]], figure: Callable[[Outcomes], float]) -> dict[str, float]:
    """Mean of a figure over the outcomes of each policy."""
    return {name: statistics.mean(map(figure, outcomes)) for name, outcomes in outcomes_by_policy.items()}


def rank(values: Sequence[float], share: float) -> float:
    """Quantile by the nearest-rank method."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def file_name(trace: Trace) -> str:
    """File name of a trace's plot, without the ending."""
    return trace.name.replace(", ", "-").replace(" ", "-").replace(".", "-")


def _policies() -> Iterable[tuple[Policy, Channel, str]]:
    for policy in (NO_TIERS, DECLARED, P50, P95, TRIALS, *SLOWER):
        yield policy, AS_SHIPPED, policy.name
    yield P95, ONCE_A_SECOND, f"{P95.name}, asked once a second"
