"""The simulations of `hack/bench tiers`: their traces, and the gain by the operator's rule."""

from __future__ import annotations

import pytest

from tiers.bench_tiers import figures, goals, replayed
from tiers.plots import draw
from tiers.replay import AS_SHIPPED, DECLARED, NO_TIERS, ONCE_A_SECOND, P95, SLOWER, TRIALS, Replay
from tiers.traces import CALLS, LIMIT_MS, MAX_LATE, TRACES, Trace


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_a_trace_is_the_same_each_time_and_fits_when_it_says_so(trace: Trace) -> None:
    draws = trace.draws(3)
    assert draws == trace.draws(3)
    assert draws != trace.draws(4)
    assert len(draws) == CALLS
    (subject, *_) = [tool for tool in trace.tools() if tool.misbehaves]
    if trace.change is not None:
        assert subject.duration.late(trace.change + 1, LIMIT_MS) > MAX_LATE
    if trace.heal is not None:
        assert subject.duration.late(trace.heal + 1, LIMIT_MS) < MAX_LATE


def test_without_measurements_a_liar_is_late_with_every_call() -> None:
    for policy in (NO_TIERS, DECLARED):
        out = Replay(TRACES["liar, one"], 0, policy).run()
        assert out.moves == 0
        assert out.in_time < 0.8


@pytest.mark.parametrize("name", ["shift, one", "shift, hot", "dead, one", "liar, one"])
def test_a_tool_that_turns_slow_costs_few_late_calls_and_one_move(name: str) -> None:
    for seed in range(4):
        out = Replay(TRACES[name], seed, P95).run()
        assert out.late_per_shift <= 20
        assert out.moves == 1
        assert out.in_time >= 0.985


def test_a_tool_that_is_fast_again_comes_back_within_a_minute() -> None:
    for seed in range(4):
        out = Replay(TRACES["slow and back, hot"], seed, P95).run()
        assert len(out.recover) == 1
        assert out.recover[0] <= 60
        assert [hidden for _, _, hidden in out.hidden] == [True, False]


def test_without_probes_a_tool_comes_back_on_trial() -> None:
    out = Replay(TRACES["slow and back, one"], 0, TRIALS).run()
    assert out.recover
    assert out.moves > 2


def test_an_agent_in_a_slower_tier_keeps_what_fits_there_and_loses_what_does_not() -> None:
    (policy,) = [each for each in SLOWER if each.tier == "standard" and each.quantile == "p95"]
    slow, dead = (Replay(TRACES[name], 0, policy).run() for name in ("shift, one", "dead, one"))
    assert slow.moves == 0
    assert slow.in_time > 0.99
    assert (dead.moves, dead.late_per_shift <= 20) == (1, True)


def test_news_that_travel_once_a_second_cost_more_late_calls() -> None:
    slow, fast = (
        sum(Replay(TRACES["shift, hot"], seed, P95, channel).run().late for seed in range(6))
        for channel in (ONCE_A_SECOND, AS_SHIPPED)
    )
    assert fast < slow


def test_a_steady_tool_near_the_limit_stays() -> None:
    for seed in range(4):
        assert Replay(TRACES["steady 0.9"], seed, P95).run().moves == 0


def test_goals_are_judged_by_what_was_found() -> None:
    bad = {name: replayed(trace, NO_TIERS, AS_SHIPPED, 1) for name, trace in TRACES.items()}
    judged = {goal.name: goal.met for goal in goals(bad)}
    assert judged["late calls per shift, mean"] is False
    assert judged["in time, one tool misbehaves"] is False
    assert judged["recovery, slowest"] is None
    assert figures(bad["shift, one"])["moves"] == "0.00"


def test_a_plot_has_a_dot_for_each_call_of_the_tools_that_misbehave() -> None:
    trace = TRACES["shift, one"]
    out = Replay(trace, 0, P95).run()
    picture = draw(trace, {"with": out})
    assert picture.count("h0") == len(out.timeline)
    assert picture.count("<title>hidden</title>") == 1
