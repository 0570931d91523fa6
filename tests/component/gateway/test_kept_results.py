"""Stores of results, in memory, in a file and in a real Redis: limits, time to live, replicas, and an unreachable
Redis."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.result_stores.disk import DiskStore
from fairlead_gateway.result_stores.memory import MemoryStore
from fairlead_gateway.result_stores.redis_store import RedisStore
from fairlead_gateway.result_stores.store import MAX_ENTRIES, OVERHEAD, Bounds, ContextStore, ContextUnavailable
from gatewayworld import Clock, ask, calling, catalog, running
from redisserver import RedisServer, redis_server
from routercalls import KIB, blob, context_of, execute
from toolservers import modern_server, tool


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as started:
        yield started


@contextlib.asynccontextmanager
async def store(
    kind: str, redis: RedisServer, bounds: Bounds, prefix: str, folder: Path = Path()
) -> AsyncIterator[ContextStore]:
    made: ContextStore = MemoryStore(bounds)
    if kind == "redis":
        made = RedisStore(RedisSettings(url=redis.url, timeout=10, prefix=prefix), bounds)
    elif kind == "disk":
        made = DiskStore(folder, bounds)
    try:
        yield made
    finally:
        await made.aclose()


@pytest.mark.parametrize("kind", ["memory", "disk", "redis"])
async def test_a_session_is_of_one_account_and_the_oldest_entries_go_first(
    kind: str, redis: RedisServer, tmp_path: Path
) -> None:
    async with store(kind, redis, Bounds(60, 4 * KIB, 10 * KIB), "bounds", tmp_path / "disk") as results:
        for number in range(3):
            await results.append("ada", "one", f"a{number}", blob(f"a{number}"))
        assert len(await results.entries("ada", "one")) == 3
        assert await results.entries("bob", "one") == []
        assert await results.entry("bob", "one", "a0") is None
        await results.append("ada", "two", "b0", blob("b0", 2 * KIB))
        assert await results.entry("ada", "one", "a0") is None, "the account holds four KiB over all its sessions"
        assert len(await results.entries("ada", "one")) == 2
        with pytest.raises(ContextUnavailable, match="3,585 bytes"):
            await results.append("ada", "two", "b1", b"." * (4 * KIB - OVERHEAD + 1))
        await results.append("bob", "one", "c0", blob("c0", 4 * KIB))
        await results.append("cleo", "one", "d0", blob("d0", 4 * KIB))
        assert await results.entries("ada", "two") == [], "of all accounts, the one that added nothing for longest goes"
        assert await results.entry("bob", "one", "c0") is not None
        assert await results.delete("bob", "one") == 1
        assert await results.entries("bob", "one") == []


@pytest.mark.parametrize("kind", ["memory", "disk", "redis"])
async def test_an_account_has_so_many_entries_at_most(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    async with store(kind, redis, Bounds(60, 8 << 20, 8 << 20), "count", tmp_path / "disk") as results:
        for number in range(MAX_ENTRIES + 2):
            await results.append("ada", "one", f"a{number}", b"x")
        assert len(await results.entries("ada", "one")) == MAX_ENTRIES


@pytest.mark.parametrize("evicted", ["sizes", "total"])
async def test_a_redis_that_evicted_figures_holds_as_many_accounts_as_before(evicted: str, redis: RedisServer) -> None:
    async with (
        store("redis", redis, Bounds(60, 4 * KIB, 10 * KIB), evicted) as results,
        Redis.from_url(redis.url) as raw,
    ):
        for account in ("ada", "bob"):
            await results.append(account, "one", "a0", blob("a0", 4 * KIB))
        assert await raw.delete(f"{{{evicted}}}:context:{evicted}") == 1
        for account in ("cleo", "ada", "bob"):
            await results.append(account, "one", "a1", blob("a1", 4 * KIB))
        assert [len(await results.entries(account, "one")) for account in ("cleo", "ada", "bob")] == [0, 1, 1]


async def test_accounts_whose_sessions_were_forgotten_take_no_memory() -> None:
    results = MemoryStore(Bounds(10, 4 * KIB, 8 * KIB), Clock())
    await results.append("ada", "one", "a0", blob("a0"))
    for number in range(3):
        await results.append(f"anonymous {number}", "s", "b0", blob("b0"))
        assert await results.delete(f"anonymous {number}", "s") == 1
    assert (results.accounts, results.size) == (1, KIB)


async def test_a_result_restarts_the_time_to_live_of_its_session_in_memory() -> None:
    clock = Clock()
    results = MemoryStore(Bounds(10, 4 * KIB, 8 * KIB), clock)
    await results.append("ada", "one", "a0", blob("a0"))
    await results.append("ada", "two", "b0", blob("b0"))
    clock.forward(8)
    await results.append("ada", "one", "a1", blob("a1"))
    clock.forward(8)
    assert len(await results.entries("ada", "one")) == 2
    assert await results.entries("ada", "two") == []
    clock.forward(3)
    await results.append("bob", "one", "c0", blob("c0"))
    assert results.size == KIB


async def test_a_result_restarts_the_time_to_live_of_its_session_in_redis(redis: RedisServer) -> None:
    from fairlead_gateway.redis_client import connect

    async with store("redis", redis, Bounds(3600, 4 * KIB, 8 * KIB), "ttl") as shared:
        await shared.append("ada", "one", "a0", blob("a0"))
        client = connect(redis.url, timeout=10)
        names = [name async for name in client.scan_iter(match="{ttl}:*")]
        assert not any(b"ada" in name or b"one" in name for name in names)
        for name in names:
            assert 3_590_000 < await client.pttl(name) <= 3_600_000
            await client.pexpire(name, 1_000_000)
        await shared.append("ada", "one", "a1", blob("a1"))
        for name in names:
            assert 3_590_000 < await client.pttl(name) <= 3_600_000
        await client.aclose()


async def test_replicas_share_results_that_outlive_them_and_calls_go_on_without_redis(tmp_path: Path) -> None:
    def call(_: object) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "the key is under the mat"}]}

    folders = [tmp_path / name for name in ("one", "two", "redis")]
    for folder in folders:
        folder.mkdir()
    async with (
        redis_server(folders[2]) as redis,
        modern_server([tool("ask")], call=call) as server,
    ):
        house = catalog("house", server.url, [tool("ask")])
        settings: dict[str, Any] = {"redis": redis.url, "redis_timeout": 5, "session_key": "shared"}
        async with running(folders[0], house, **settings) as first:
            session = context_of(await ask(first, execute("house__ask")))["sessionId"]
        async with running(folders[1], house, **settings) as second:
            question = calling("retrieve_context", {"session_id": session, "query": "where is the key"})
            answer = await ask(second, question.to("/router/mcp"))
            assert "under the mat" in answer.message["result"]["content"][0]["text"]
            await redis.stop()
            went_on = await ask(second, execute("house__ask", session_id=session))
            assert went_on.message["result"]["content"][0]["text"] == "the key is under the mat"
            assert not context_of(went_on)["recorded"]
            assert "was not stored" in went_on.message["result"]["content"][1]["text"]
            assert (await ask(second, question.to("/router/mcp"))).refusal == "CONNECTION_LOST"
