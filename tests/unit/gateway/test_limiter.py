"""Limits on calls: of an agent in total, of an agent in one namespace, and of a tool by all agents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_gateway.core.quota import Caps, Quota
from fairlead_gateway.limits.limiter import NO_LEASE, Account, Lease, Limiter, LimitRefusal
from virtualtime import HandClock


def lease(outcome: Lease | LimitRefusal) -> Lease:
    assert not isinstance(outcome, LimitRefusal), outcome
    return outcome


def refusal(outcome: Lease | LimitRefusal) -> LimitRefusal:
    assert isinstance(outcome, LimitRefusal)
    return outcome


def test_without_a_limit_nothing_is_kept_of_anybody() -> None:
    limiter = Limiter()
    assert limiter.admit("ada") is NO_LEASE
    assert lease(limiter.admit("ada", Quota("team"))) == ()
    assert len(limiter) == 0


def test_each_agent_has_the_calls_of_a_minute_to_itself() -> None:
    time = HandClock(1000.0)
    limiter = Limiter(Caps(calls_per_minute=3), clock=time)
    assert [isinstance(limiter.admit("ada"), LimitRefusal) for _ in range(4)] == [False, False, False, True]
    refused = refusal(limiter.admit("ada"))
    assert (refused.scope, refused.message) == (
        "agent",
        "the limit of 3 calls a minute for each agent is reached: retry later",
    )
    assert refused.retry_after == pytest.approx(20)
    assert not isinstance(limiter.admit("bob"), LimitRefusal)
    time.now += 20
    assert not isinstance(limiter.admit("ada"), LimitRefusal)
    assert isinstance(limiter.admit("ada"), LimitRefusal)


def test_no_more_calls_at_once_than_allowed_and_the_next_when_one_is_over() -> None:
    limiter = Limiter(Caps(concurrency=2))
    first = lease(limiter.admit("ada"))
    _ = lease(limiter.admit("ada"))
    refused = refusal(limiter.admit("ada"))
    assert (refused.message, refused.retry_after) == (
        "the limit of 2 calls at once for each agent is reached: retry when one of them has ended",
        1.0,
    )
    for account in first:
        account.leave()
    assert not isinstance(limiter.admit("ada"), LimitRefusal)


def test_policies_bound_each_asker_in_each_namespace_by_itself() -> None:
    limiter = Limiter(clock=HandClock(1000.0))
    team = Quota("team", calls_per_minute=1)
    other = Quota("other", calls_per_minute=1)
    assert not isinstance(limiter.admit("ada", team), LimitRefusal)
    refused = refusal(limiter.admit("ada", team))
    assert (refused.scope, refused.message) == (
        "policy",
        "the limit of 1 calls a minute for each agent, set by policies of namespace team, is reached: retry later",
    )
    assert not isinstance(limiter.admit("ada", other), LimitRefusal)
    assert not isinstance(limiter.admit("bob", team), LimitRefusal)


def test_a_policy_of_no_calls_refuses_without_a_time_to_come_again() -> None:
    refused = refusal(Limiter().admit("ada", Quota("team", calls_per_minute=0)))
    assert (refused.message, refused.retry_after) == (
        "the limit of 0 calls a minute for each agent, set by policies of namespace team, admits no call",
        None,
    )


def test_a_tool_counts_the_calls_of_everybody() -> None:
    limiter = Limiter(clock=HandClock(1000.0))
    caps = Caps(calls_per_minute=2)
    assert not isinstance(limiter.admit("ada", None, "team/demo/add", caps), LimitRefusal)
    assert not isinstance(limiter.admit("bob", None, "team/demo/add", caps), LimitRefusal)
    assert refusal(limiter.admit("eve", None, "team/demo/add", caps)).scope == "tool"
    assert not isinstance(limiter.admit("eve", None, "team/demo/sub", caps), LimitRefusal)


def test_a_tool_has_no_more_calls_at_once_than_its_own_limit_from_all_callers() -> None:
    limiter = Limiter(clock=HandClock(1000.0))
    caps = Caps(concurrency=1)
    held = lease(limiter.admit("ada", None, "team/demo/add", caps))
    assert refusal(limiter.admit("bob", None, "team/demo/add", caps)).scope == "tool"
    assert not isinstance(limiter.admit("bob", None, "team/demo/sub", caps), LimitRefusal)
    for account in held:
        account.leave()
    assert not isinstance(limiter.admit("bob", None, "team/demo/add", caps), LimitRefusal)


def test_a_call_that_one_limit_refuses_uses_up_none_of_the_others() -> None:
    time = HandClock(1000.0)
    limiter = Limiter(Caps(calls_per_minute=2, concurrency=2), clock=time)
    full = Quota("team", concurrency=1)
    held = lease(limiter.admit("ada", full))
    for _ in range(5):
        assert refusal(limiter.admit("ada", full)).scope == "policy"
    for account in held:
        account.leave()
    assert not isinstance(limiter.admit("ada"), LimitRefusal)


def test_a_limit_that_changes_holds_at_once_and_keeps_count_of_what_runs() -> None:
    limiter = Limiter(clock=HandClock(1000.0))
    held = [lease(limiter.admit("ada", Quota("team", concurrency=3))) for _ in range(2)]
    assert isinstance(limiter.admit("ada", Quota("team", concurrency=2)), LimitRefusal)
    for entered in held:
        for account in entered:
            account.leave()
    assert not isinstance(limiter.admit("ada", Quota("team", concurrency=2)), LimitRefusal)


def test_agents_that_are_as_if_they_had_never_called_are_forgotten() -> None:
    time = HandClock(1000.0)
    limiter = Limiter(Caps(calls_per_minute=60), clock=time)
    for number in range(5000):
        time.now += 1.0
        for account in lease(limiter.admit(f"agent-{number}")):
            account.leave()
    assert len(limiter) < 10


def test_agents_that_are_busy_are_remembered_up_to_a_number() -> None:
    limiter = Limiter(Caps(concurrency=1), clock=HandClock(1000.0), max_accounts=10)
    for number in range(50):
        lease(limiter.admit(f"agent-{number}"))
    assert len(limiter) == 10
    assert isinstance(limiter.admit("agent-49"), LimitRefusal)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=120))
def test_calls_at_once_never_exceed_the_bound_and_the_count_comes_back_to_nothing(steps: list[tuple[str, int]]) -> None:
    time = HandClock(1000.0)
    limiter = Limiter(Caps(calls_per_minute=30, concurrency=2), clock=time)
    share = Quota("team", concurrency=1)
    running: list[tuple[str, Lease]] = []
    accounts: set[Account] = set()
    for agent, step in steps:
        if step == 4:
            time.now += 2.0
        elif step == 3 and running:
            for account in running.pop(0)[1]:
                account.leave()
        elif step < 3:
            outcome = limiter.admit(agent, share if step == 2 else None)
            if not isinstance(outcome, LimitRefusal):
                running.append((agent, outcome))
                accounts.update(outcome)
        assert all(sum(1 for owner, _ in running if owner == name) <= 2 for name in "ab")
    for _, entered in running:
        for account in entered:
            account.leave()
    assert all(account.busy == 0 for account in accounts)
