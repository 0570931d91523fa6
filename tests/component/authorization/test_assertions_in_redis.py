"""Replicas that receive the same identity assertion at the same time, with a real Redis."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.spent_assertions import SpentAssertions
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.redis_store import RedisGrantStore
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from redisserver import redis_server
from sessionworld import ISSUER
from waiting import LONGEST


async def test_assertion_is_taken_by_one_replica_of_five(tmp_path: Path) -> None:
    key = new_sealing_key("k")
    async with redis_server(tmp_path) as redis, AsyncExitStack() as stack:
        replicas = []
        for _ in range(5):
            store = RedisGrantStore(RedisSettings(url=redis.url, timeout=LONGEST), [key])
            stack.push_async_callback(store.aclose)
            replicas.append(SpentAssertions(store, time.time))
        ends_at = time.time() + 300
        for number in range(20):
            taken = await asyncio.gather(*(replica.spend(ISSUER, str(number), ends_at) for replica in replicas))
            assert sum(taken) == 1


async def test_assertion_is_not_taken_without_redis(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as redis:
        store = RedisGrantStore(RedisSettings(url=redis.url, timeout=0.5), [new_sealing_key("k")])
        spent = SpentAssertions(store, time.time)
        assert await spent.spend(ISSUER, "before", time.time() + 300)
    try:
        with pytest.raises(SessionStoreUnavailable):
            await spent.spend(ISSUER, "after", time.time() + 300)
    finally:
        await store.aclose()
