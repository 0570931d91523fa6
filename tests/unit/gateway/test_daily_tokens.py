"""Quotas of tokens per UTC day: for an agent in total, and for its use of the tools of a namespace."""

from __future__ import annotations

import pytest

from fairlead_gateway.core.quota import Quota
from fairlead_gateway.limits.limiter import DAY, NO_BUDGET, TokenLimiter
from fairlead_gateway.limits.rate import Sharing
from virtualtime import HandClock

NOON = 20_000 * DAY + DAY / 2


def quota(tokens: int, namespace: str = "team") -> Quota:
    return Quota(namespace, tokens_per_day=tokens, policies={"tokens_per_day": f"{namespace}/budget"})


def test_an_agent_is_refused_once_its_tokens_of_the_day_are_spent() -> None:
    time = HandClock(NOON)
    limiter = TokenLimiter(100, clock=time)
    budget = limiter.budget("ada")
    budget.charge(99)
    assert budget.refusal() is None
    budget.charge(41)
    refused = limiter.budget("ada").refusal()
    assert refused is not None
    assert (
        refused.message
        == "the limit of 100 tokens of models a day for each agent is reached: 140 were used since midnight UTC"
    )
    assert (refused.scope, refused.retry_after) == ("agent", DAY / 2)
    assert limiter.budget("bob").refusal() is None, "each agent has its own"


def test_midnight_in_utc_gives_the_tokens_back() -> None:
    time = HandClock(NOON)
    limiter = TokenLimiter(10, clock=time)
    limiter.budget("ada").charge(10)
    time.now = NOON + DAY / 2 - 0.5
    refused = limiter.budget("ada").refusal()
    assert refused is not None
    assert refused.retry_after == pytest.approx(0.5)
    time.now += 0.5
    assert limiter.budget("ada").refusal() is None


def test_a_policy_bounds_the_requests_that_its_namespace_is_part_of() -> None:
    limiter = TokenLimiter(clock=HandClock(NOON))
    limiter.budget("ada", [quota(10), quota(1000, "other")]).charge(10)
    refused = limiter.budget("ada", [quota(10)]).refusal()
    assert refused is not None
    assert refused.message.startswith("the limit of 10 tokens of models a day")
    assert refused.scope == "policy"
    assert limiter.budget("ada", [quota(1000, "other")]).refusal() is None
    assert limiter.budget("ada").refusal() is None
    assert limiter.budget("ada", [quota(11)]).refusal() is None, "a limit that was raised holds at once"


def test_a_limit_of_none_a_day_admits_nothing() -> None:
    assert TokenLimiter(clock=HandClock(NOON)).budget("ada", [quota(0)]).refusal() is not None


def test_without_limits_nothing_is_kept_of_anybody() -> None:
    limiter = TokenLimiter(clock=HandClock(NOON))
    budget = limiter.budget("ada", [Quota("team", max_tools=1)])
    budget.charge(10**9)
    assert budget.refusal() is None
    assert NO_BUDGET.refusal() is None
    assert len(limiter) == 0


def test_accounts_of_yesterday_go_as_new_ones_come_and_there_is_a_bound_on_all() -> None:
    time = HandClock(NOON)
    limiter = TokenLimiter(10, clock=time, max_accounts=50)
    for number in range(200):
        limiter.budget(f"agent {number}").charge(10)
    assert len(limiter) == 50
    assert limiter.budget("agent 199").refusal() is not None
    time.now += DAY
    for number in range(30):
        limiter.budget(f"new {number}").charge(1)
    assert len(limiter) == 30


def test_unsettled_tokens_are_told_once_and_totals_of_another_day_are_ignored() -> None:
    time = HandClock(NOON)
    sharing = Sharing()
    limiter = TokenLimiter(100, sharing, clock=time)
    limiter.budget("ada").charge(5)
    limiter.budget("ada").charge(6)
    (account,) = sharing.days
    sharing.days.clear()
    assert account.to_settle() == 11
    account.settle(account.day - 1, 10**6)
    assert account.total(time.now) == 11
    account.settle(account.day, 99)
    assert limiter.budget("ada").refusal() is None
    assert sharing.days == [account], "a look asks for what the others have spent"
    account.settle(account.day, 100)
    assert limiter.budget("ada").refusal() is not None


def test_token_limits_that_fail_closed_admit_nothing_while_unknown() -> None:
    sharing = Sharing()
    sharing.blocked = 1.0
    refused = TokenLimiter(100, sharing, clock=HandClock(NOON)).budget("ada").refusal()
    assert refused is not None
    assert refused.retry_after == 1.0
    assert TokenLimiter(None, sharing, clock=HandClock(NOON)).budget("ada").refusal() is None
