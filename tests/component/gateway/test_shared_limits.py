"""Rates that gateways share in a real Redis: the calls that they admit together, also while Redis cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from fairlead_app.gateway import Gateway
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.limits.limiter import Limiter, LimitRefusal, TokenLimiter
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.limits.redis_rates import Settler
from fairlead_gateway.redis_client import BadUrl, connect
from gatewayworld import ask, calling, catalog, limits, running, scrape
from redisserver import RedisServer, redis_server
from toolservers import modern_server, tool
from waiting import eventually


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as started:
        yield started


class Replica:
    """The limits of one gateway, which allows each agent `per_minute` calls a minute."""

    def __init__(
        self, url: str, per_minute: int, *, interval: float = 60, timeout: float = 5, closed: bool = False
    ) -> None:
        self.sharing = Sharing()
        down: Literal["open", "closed"] = "closed" if closed else "open"
        settings = RedisSettings(url=url, settle_seconds=interval, timeout=timeout, down=down)
        self.settler = Settler(settings, self.sharing)
        self.limiter = Limiter(Caps(calls_per_minute=per_minute), self.sharing)

    def call(self, times: int = 1, agent: str = "ada") -> int:
        """Make calls. Returns the number of admitted calls."""
        admitted = 0
        for _ in range(times):
            lease = self.limiter.admit(agent)
            if not isinstance(lease, LimitRefusal):
                admitted += 1
                for account in lease:
                    account.leave()
        return admitted


@contextlib.asynccontextmanager
async def replicas(count: int, *args: Any, started: bool = False, **more: Any) -> AsyncIterator[list[Replica]]:
    made = [Replica(*args, **more) for _ in range(count)]
    for replica in made:
        if started:
            replica.settler.start()
    try:
        yield made
    finally:
        for replica in made:
            await replica.settler.stop()


def is_settled(replica: Replica, before: int) -> bool:
    return replica.settler.settlements > before + 1 or not replica.sharing.dirty


async def test_calls_that_one_replica_admitted_are_gone_for_the_other_once_both_have_settled(
    redis: RedisServer,
) -> None:
    async with replicas(2, redis.url, 10) as (first, second):
        assert first.call(6) == 6
        await first.settler.settle()
        assert second.call(1) == 1
        await second.settler.settle()
        assert second.call(10) == 3
        await second.settler.settle()
        assert first.call(1, "bob") == 1
        assert first.call(1) == 1  # this replica does not yet know of the others
        await first.settler.settle()
        assert first.call(9) == second.call(9) == 0


async def test_calls_beyond_a_shared_rate_stay_within_a_burst_for_each_replica_and_are_paid_back(
    redis: RedisServer,
) -> None:
    """Calls and settlements are in random order. The rate is so low that almost no calls become available meanwhile."""
    chance = random.Random(9)
    for number, count in enumerate((2, 3, 2, 4)):
        async with replicas(count, redis.url, 30) as made:
            agent = f"agent-{number}"
            admitted = 0
            began = time.monotonic()
            for _ in range(40):
                replica = chance.choice(made)
                if chance.random() < 0.5:
                    await replica.settler.settle()
                else:
                    admitted += replica.call(chance.randint(1, 12), agent)
            came_back = (time.monotonic() - began) / 2 + 1
            assert 30 <= admitted <= 30 * count + came_back
            for replica in [*made, *made]:
                replica.call(1, agent)
                await replica.settler.settle()
            if admitted > 30 + came_back:
                assert all(replica.call(1, agent) == 0 for replica in made)


@pytest.mark.parametrize("count", [2, 3])
async def test_replicas_that_settle_by_themselves_let_through_one_limit_and_a_little(
    redis: RedisServer, count: int
) -> None:
    per_minute = 120  # two a second
    interval = 0.02
    async with replicas(count, redis.url, per_minute, interval=interval, started=True) as made:
        await eventually(lambda: all(replica.settler.up for replica in made))
        # each settles at least once between two rounds, so at most one round of a replica is not settled
        for replica in made:
            replica.call(1)
        began = time.monotonic()
        admitted = count
        slowest = interval
        for _ in range(10 + per_minute // (3 * count)):
            round_began = time.monotonic()
            before = [replica.settler.settlements for replica in made]
            new = [replica.call(3) for replica in made]
            admitted += sum(new)
            for replica, told, calls in zip(made, before, new, strict=True):
                if calls:
                    await eventually(partial(is_settled, replica, told))
            slowest = max(slowest, time.monotonic() - round_began)
        took = time.monotonic() - began
        rate = per_minute / 60
        unseen = 2 * 3
        assert per_minute <= admitted <= per_minute + rate * took + (count - 1) * (unseen + 2 * rate * slowest) + 1
        assert admitted < per_minute * count, "as if each had the limit to itself"


async def test_a_redis_that_crashes_is_told_of_once_and_shared_again_when_it_is_back(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicas(2, redis.url, 10, interval=0.02, timeout=0.5, started=True) as (first, second):
        await eventually(lambda: first.settler.up and second.settler.up)
        await redis.stop()
        assert first.call(1) == second.call(1) == 1
        await eventually(lambda: first.settler.failures > 1 and second.settler.failures > 1)
        assert first.call(4) == second.call(4) == 4, "each goes on by itself"
        await redis.start()
        await eventually(
            lambda: first.settler.up and second.settler.up and not first.sharing.dirty and not second.sharing.dirty
        )
        await eventually(lambda: first.call(1, "probe") + second.call(1, "probe") == 0)
        told = [record.getMessage().partition("(")[0].strip() for record in caplog.records]
        assert sorted(told) == sorted(
            ["Redis at 127.0.0.1 does not respond", "Redis at 127.0.0.1 responds again: replicas share limits"] * 2
        )
        assert "sesame" not in caplog.text


async def test_a_redis_that_hangs_delays_no_call_and_leaves_no_task(redis: RedisServer) -> None:
    tasks = len(asyncio.all_tasks())
    async with replicas(1, redis.url, 1_000_000, interval=0.01, timeout=0.1, started=True) as (replica,):
        await eventually(lambda: replica.settler.up)
        redis.freeze()
        try:
            failures = replica.settler.failures
            most = 0
            while replica.settler.failures < failures + 5:
                assert replica.call(10) == 10
                await asyncio.sleep(0.002)
                most = max(most, len(asyncio.all_tasks()))
            assert most <= tasks + 2, "the settler, and what the client does while it hangs up"
            assert len(replica.sharing.dirty) <= 2, "one rate, which may be on its way as well"
        finally:
            redis.thaw()
        await eventually(lambda: replica.settler.up)
    await eventually(lambda: len(asyncio.all_tasks()) == tasks)


async def test_a_settler_stops_at_any_step_of_a_settlement(redis: RedisServer) -> None:
    """This includes the step in which the client loses the cancellation."""
    async with asyncio.timeout(40):
        for steps in range(25):
            async with replicas(1, redis.url, 1_000_000, interval=0.01) as (replica,):
                await replica.settler.settle()
                replica.settler.start()
                replica.call(1)
                before = replica.settler._last_request_at
                while replica.settler._last_request_at == before:  # noqa: ASYNC110  # step by step
                    await asyncio.sleep(0)
                for _ in range(steps):
                    await asyncio.sleep(0)


async def test_limits_that_fail_closed_admit_nothing_while_redis_is_away(redis: RedisServer) -> None:
    async with replicas(1, redis.url, 10, interval=0.02, timeout=0.5, closed=True, started=True) as (replica,):
        refused = replica.limiter.admit("ada")
        assert isinstance(refused, LimitRefusal)
        assert (refused.message, refused.retry_after) == (
            "the limits that replicas share in Redis cannot be read now: retry later",
            1.0,
        )
        await eventually(lambda: replica.settler.up)
        assert replica.call(1) == 1
        await redis.stop()
        await eventually(lambda: not replica.settler.up)
        assert replica.call(1) == 0
        await redis.start()
        await eventually(lambda: replica.settler.up)
        assert replica.call(1) == 1


async def test_a_wrong_password_is_a_redis_that_does_not_answer(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicas(1, redis.url.replace("sesame", "hunter2"), 10) as (replica,):
        assert replica.call(1) == 1
        await replica.settler.settle()
        assert replica.settler.up is False
        assert "hunter2" not in caplog.text


async def test_keys_are_of_one_size_name_nobody_and_end_by_themselves(redis: RedisServer) -> None:
    async with replicas(1, redis.url, 60) as (replica,):
        replica.call(1, "ada@example.com")
        await replica.settler.settle()
        keys = await replica.settler._redis.keys("*")
        assert len(keys) == 1
        assert b"ada" not in keys[0]
        assert 0 < await replica.settler._redis.pttl(keys[0]) <= 1001


@pytest.mark.parametrize("url", ["http://x", "redis://:pw@host:port/0", ""])
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        connect(url, timeout=1)
    assert "pw" not in str(caught.value)


SELDOM: dict[str, Any] = {"redis_settle_seconds": 60, "redis_timeout": 20}
"""Settings with which a gateway that has reached Redis exchanges its calls when the test says so, also on a busy
machine."""


async def tell_others(gateway: Gateway) -> None:
    """Exchange the calls of a gateway through Redis."""
    settler = gateway.governance._settler
    assert settler is not None
    await eventually(lambda: settler.up)
    failures = settler.failures
    await settler.settle()
    assert settler.failures == failures


async def refusal(gateway: Gateway, name: str) -> str:
    answer = await ask(gateway, calling(name))
    return answer.refusal if answer.message["result"]["isError"] else "ok"


async def test_two_gateways_share_the_burst_of_a_server(redis: RedisServer, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    shared = {"redis": redis.url, **SELDOM}
    async with modern_server([tool("add")]) as server:
        demo = catalog("demo", server.url, ["add"], limits=limits(calls_per_second=0.01, burst=3))
        async with running(folders[0], demo, **shared) as first, running(folders[1], demo, **shared) as second:
            assert [await refusal(first, "demo__add") for _ in range(2)] == ["ok"] * 2
            await tell_others(first)
            assert await refusal(second, "demo__add") == "ok"
            await tell_others(second)
            assert await refusal(second, "demo__add") == "RATE_LIMITED", "by itself it would have let through three"


async def test_two_gateways_hold_an_agent_and_a_server_to_one_limit_together(
    redis: RedisServer, tmp_path: Path
) -> None:
    """The settings allow agents four calls a minute, and a server one call every hundred seconds. Calls are made over
    HTTP."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    shared = {"redis": redis.url, "agent_calls_per_minute": 4, **SELDOM}
    async with modern_server([tool("add")]) as server:
        documents = [
            catalog("demo", server.url, ["add"]),
            catalog("slow", server.url, ["add"], limits=limits(calls_per_second=0.01)),
        ]
        async with (
            running(folders[0], *documents, **shared) as first,
            running(folders[1], *documents, **shared) as second,
        ):
            assert await refusal(first, "slow__add") == "ok"
            await tell_others(first)
            assert [await refusal(second, "slow__add") for _ in range(2)][1] == "RATE_LIMITED"
            assert [await refusal(first, "demo__add") for _ in range(1)] == ["ok"]
            for gateway in (first, second):
                await tell_others(gateway)
            refusals = [await refusal(gateway, "demo__add") for _ in range(4) for gateway in (first, second)]
            assert "RATE_LIMITED" in refusals
            assert refusals.count("ok") <= 4, "each by itself would have let through seven"
            for gateway in (first, second):
                await tell_others(gateway)
            assert [await refusal(gateway, "demo__add") for gateway in (first, second)] == ["RATE_LIMITED"] * 2
            assert "fairlead_redis_up 1.0" in (await scrape(first))
            assert 'fairlead_calls_limited_total{scope="agent"}' in (await scrape(first))


class Spender:
    """The token limits of one gateway, which allows each agent a thousand tokens a day."""

    def __init__(self, url: str) -> None:
        self.sharing = Sharing()
        self.settler = Settler(RedisSettings(url=url, settle_seconds=60, timeout=5), self.sharing)
        self.tokens = TokenLimiter(1000, self.sharing)

    def is_spent(self, agent: str = "ada") -> bool:
        """Whether the agent has no tokens left."""
        return self.tokens.budget(agent).refusal() is not None


async def test_replicas_spend_the_tokens_of_one_day_together(redis: RedisServer) -> None:
    first, other, late = (Spender(redis.url) for _ in range(3))
    try:
        first.tokens.budget("ada").charge(600)
        other.tokens.budget("ada").charge(500)
        for each in (first, other):
            assert not each.is_spent()
            await each.settler.settle()
        assert not first.is_spent(), "what it knows is from before the other had told"
        await first.settler.settle()
        assert first.is_spent(), "600 of its own and 500 of the other's"
        assert other.is_spent()
        assert not late.is_spent(), "it has heard of nothing yet"
        await late.settler.settle()
        assert late.is_spent(), "asking was enough to hear of it"
        assert not late.is_spent("bob")
    finally:
        for each in (first, other, late):
            await each.settler.stop()


async def test_a_redis_that_forgot_the_tokens_of_a_day_learns_them_from_the_replicas(redis: RedisServer) -> None:
    spender = Spender(redis.url)
    other = Spender(redis.url)
    try:
        spender.tokens.budget("ada").charge(700)
        await spender.settler.settle()
        await redis.stop()
        spender.tokens.budget("ada").charge(200)
        await spender.settler.settle()
        await redis.start()
        spender.tokens.budget("ada").charge(100)
        await spender.settler.settle()
        assert not other.is_spent()
        await other.settler.settle()
        assert other.is_spent()
    finally:
        for each in (spender, other):
            await each.settler.stop()
