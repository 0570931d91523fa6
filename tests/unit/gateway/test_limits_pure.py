"""Rates and fair queues: which calls are admitted, when to retry, and whose turn is next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_gateway.limits.rate import Rate, Sharing
from fairlead_gateway.limits.shares import FairQueue


@given(
    calls=st.floats(0.1, 200),
    seconds=st.sampled_from([1.0, 60.0]),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.3, 2.0, 30.0]), max_size=80),
)
def test_no_span_of_time_holds_more_than_its_share_and_one_burst(
    calls: float, seconds: float, pauses: list[float]
) -> None:
    rate = Rate(calls, seconds)
    now = 1000.0
    admitted = []
    for pause in pauses:
        now += pause
        for _ in range(3):
            if not rate.take(now):
                admitted.append(now)
    burst = max(1.0, calls)
    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            span = admitted[last] - admitted[first]
            assert last - first + 1 <= burst + span * calls / seconds + 1e-6


@given(calls=st.floats(0.1, 1000), seconds=st.sampled_from([1.0, 60.0]), now=st.floats(0, 1e5))
def test_a_refused_call_is_told_when_it_would_be_admitted_and_then_is(calls: float, seconds: float, now: float) -> None:
    rate = Rate(calls, seconds)
    while not (wait := rate.take(now)):
        pass
    assert 0 < wait <= rate.step + 1e-6
    if wait > 1e-6:
        assert rate.take(now + wait * 0.9) > 0
    assert rate.take(now + wait) < 1e-6


def test_calls_of_one_period_are_admitted_at_once_after_a_pause() -> None:
    rate = Rate(60, 60)
    assert [rate.take(5.0) for _ in range(60)] == [0.0] * 60
    assert rate.take(5.0) == pytest.approx(1.0)
    assert rate.seconds_ahead(5.0) == pytest.approx(60)
    assert rate.seconds_ahead(500.0) == 0


def test_a_burst_of_one_spreads_calls_and_a_larger_one_comes_at_once() -> None:
    spread = Rate(60, 60, burst=1)
    some = Rate(60, 60, burst=10)
    assert spread.take(5.0) == 0
    assert spread.take(5.0) == pytest.approx(1.0)
    assert spread.take(6.0) == 0
    assert [some.take(5.0) for _ in range(10)] == [0.0] * 10
    assert some.take(5.0) == pytest.approx(1.0)


def test_a_call_that_is_not_made_after_all_costs_nothing() -> None:
    rate = Rate(1, 60)
    assert rate.take(1.0) == 0
    rate.give_back()
    assert rate.take(1.0) == 0
    assert rate.take(1.0) > 0


@pytest.mark.parametrize(("calls", "seconds"), [(0, 60), (-1, 1), (1, 0)])
def test_a_rate_of_nothing_is_refused(calls: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="not a valid rate"):
        Rate(calls, seconds)


def test_admissions_that_could_not_be_settled_are_over_in_the_meantime() -> None:
    rate = Rate(60, 60, "ada", Sharing())
    for second in range(600):
        assert rate.take(float(second)) == 0
    assert rate.unsettled == 600
    assert rate.to_settle(599.0) == 1
    assert rate.to_settle(599.0) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=60))
def test_turns_hold_what_came_and_did_not_go_and_serve_each_agent_in_order(steps: list[tuple[str, int]]) -> None:
    turns: FairQueue[int] = FairQueue()
    standing: dict[int, str] = {}
    for number, (agent, step) in enumerate(steps):
        if step < 2:
            turns.add(agent, number, float(number))
            standing[number] = agent
        elif step == 2 and standing:
            got = turns.next()
            assert got == min(caller for caller in standing if standing[caller] == standing[got])
            del standing[got]
        elif step == 3 and standing:
            gone = max(standing)
            assert turns.remove(gone)
            assert not turns.remove(gone)
            del standing[gone]
        assert len(turns) == len(standing)
        assert {line.agent for line in turns.ring} == set(standing.values())
    assert sorted(turns.take_all()) == sorted(standing)
    assert not turns.ring


def test_a_fair_queue_gives_every_waiting_agent_a_turn_between_two_of_one() -> None:
    turns: FairQueue[tuple[str, int]] = FairQueue()
    for agent, count in (("greedy", 5), ("b", 1), ("c", 2)):
        for number in range(count):
            turns.add(agent, (agent, number), 1.0)
    assert "".join(agent[0] for agent, _ in turns.take_all()) == "gbcgcggg"


def test_a_waiter_that_waited_too_long_is_taken_out_wherever_it_stands() -> None:
    turns: FairQueue[int] = FairQueue()
    for number in range(6):
        turns.add(number % 2, number, float(number))
    assert turns.first_end() == 0.0
    assert sorted(turns.take_late(3.0)) == [0, 1, 2, 3]
    assert len(turns) == 2
