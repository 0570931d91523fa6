"""Grants in a real Redis, which replicas share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from fairlead_api.bad_setting import BadSetting
from fairlead_app.settings import Settings
from fairlead_app.stored_grants import grant_store
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.grants.redis_store import BATCH, RedisGrantStore
from fairlead_gateway.grants.sealed_grant import SealedGrant
from fairlead_gateway.grants.sealing_keys import SealingKey, new_sealing_key
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant
from redisserver import RedisServer, redis_server
from waiting import LONGEST, eventually, until_async

KEY = GrantKey(b"jwt:https://idp#ada", "default/linear")
OTHER = GrantKey(b"jwt:https://idp#ada", "default/sentry")
SOMEBODY = GrantKey(b"jwt:https://idp#ben", "default/linear")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1-secret", holder="ada")
SEALING_KEY = new_sealing_key("k")


@pytest_asyncio.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as started:
        yield started


@asynccontextmanager
async def store_at(redis: RedisServer, *keys: SealingKey) -> AsyncIterator[RedisGrantStore]:
    """A store with a long time-out, so that no request fails because the machine is busy."""
    store = RedisGrantStore(RedisSettings(url=redis.url, timeout=LONGEST), keys or (SEALING_KEY,))
    try:
        yield store
    finally:
        await store.aclose()


async def test_a_grant_is_shared_by_replicas_and_sealed(redis: RedisServer) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        assert await replica.read(KEY) is None
        version = await store.write(KEY, GRANT)
        assert await replica.read(KEY) == (GRANT, version)
        stored = await store._redis.hgetall(store._hash(KEY.person))
        assert len(stored) == 1
        assert not any(b"r1-secret" in value for value in stored.values())


async def test_a_grant_replaces_only_the_version_that_the_replica_has_read(redis: RedisServer) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        first = await store.write(KEY, GRANT, replaces="")
        assert first
        renewed = msgspec.structs.replace(GRANT, refresh_token="r2")
        versions = await asyncio.gather(
            *(each.write(KEY, renewed, replaces=first) for each in (store, replica) for _ in range(5))
        )
        assert sum(version is not None for version in versions) == 1
        assert await store.write(KEY, GRANT, replaces="") is None
        assert not await store.delete(KEY, first)
        assert await store.delete(KEY, next(version for version in versions if version))
        assert not await store.delete(KEY, "")
        await store.write(KEY, GRANT)
        assert await store.delete(KEY)
        assert not await replica.delete(KEY)
        assert await store.write(KEY, GRANT, replaces=first) is None


async def test_grants_are_listed_for_their_person_and_for_administrators(redis: RedisServer) -> None:
    async with store_at(redis) as store:
        for key in (KEY, OTHER, SOMEBODY):
            await store.write(key, GRANT)
        assert {key for key, _ in await store.of_person(KEY.person)} == {KEY, OTHER}
        assert {key for key, _ in await store.all_grants()} == {KEY, OTHER, SOMEBODY}
        assert {key for key, _ in await store.all_grants({KEY.server})} == {KEY, SOMEBODY}
        await store.delete(SOMEBODY)
        assert {key for key, _ in await store.all_grants()} == {KEY, OTHER}


async def test_more_grants_than_one_response_holds_are_all_listed(redis: RedisServer) -> None:
    keys = [GrantKey(b"person %d" % (number % 3), f"default/{number}") for number in range(2 * BATCH + 7)]
    async with store_at(redis) as store:
        for start in range(0, len(keys), 50):
            await asyncio.gather(*(store.write(key, GRANT) for key in keys[start : start + 50]))
        assert {key for key, _ in await store.all_grants()} == set(keys)


class CountedRedisGrants(RedisGrantStore):
    """Store that counts its round trips."""

    requests = 0

    async def _request(self, request: Callable[[], Awaitable[Any]]) -> Any:
        self.requests += 1
        return await super()._request(request)


async def test_grants_for_some_servers_are_found_in_few_round_trips_and_others_are_not_opened(
    redis: RedisServer,
) -> None:
    foreign = new_sealing_key("foreign")
    persons = [GrantKey(b"person %d" % number, "default/linear") for number in range(2 * BATCH)]
    async with store_at(redis) as store, store_at(redis, foreign) as unreadable:
        await asyncio.gather(*(store.write(key, GRANT) for key in persons[::20]))
        await asyncio.gather(*(unreadable.write(key._replace(server="default/sentry"), GRANT) for key in persons[:50]))
    counted = CountedRedisGrants(RedisSettings(url=redis.url, timeout=LONGEST), (SEALING_KEY,))
    opened: list[GrantKey] = []
    sealer = await counted._sealer.get()
    plain = sealer.open

    def record_and_open(key: GrantKey, record: SealedGrant) -> StoredGrant:
        opened.append(key)
        return plain(key, record)

    sealer.open = record_and_open  # type: ignore[method-assign]  # the real one, which tells
    listed = {key for key, _ in await counted.all_grants({"default/linear"})}
    assert listed == set(opened) == set(persons[::20])
    assert counted.requests <= 4
    await counted.aclose()


async def test_a_record_of_another_person_is_refused(redis: RedisServer) -> None:
    async with store_at(redis) as store:
        await store.write(KEY, GRANT)
        values = await store._redis.hgetall(store._hash(KEY.person))
        from fairlead_gateway.grants.sealed_grant import record_name

        await store._redis.hset(store._hash(SOMEBODY.person), record_name(SOMEBODY), next(iter(values.values())))
        with pytest.raises(UnreadableGrant, match="somebody else"):
            await store.read(SOMEBODY)


async def test_changes_of_another_replica_are_noticed_also_those_while_redis_was_away(redis: RedisServer) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        changes = replica.changes()
        await until_async("the first look", lambda: _has_looked(replica))
        await store.write(KEY, GRANT)
        assert await anext(changes) == KEY
        await store.write(SOMEBODY, GRANT)
        await store.delete(OTHER)
        await store.delete(KEY)
        assert {await anext(changes), await anext(changes)} == {SOMEBODY, KEY}


async def test_deletions_are_told_without_writes_of_any_replica(redis: RedisServer) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        deletions = replica.changes(deletions=True)
        await until_async("the first look", lambda: _has_looked(replica))
        await store.write(KEY, GRANT)
        await replica.write(OTHER, GRANT)
        await store.delete(KEY)
        assert await anext(deletions) == KEY
        await replica.delete(OTHER)
        assert await anext(deletions) == OTHER


class CutOff(RedisGrantStore):
    """Store of a replica whose requests fail after the next `left`, until the test restores the connection."""

    left: int | None = None

    async def _request(self, request: Callable[[], Awaitable[Any]]) -> Any:
        if self.left == 0:
            raise GrantStoreError("away")
        if self.left is not None:
            self.left -= 1
        return await super()._request(request)


async def test_changes_of_which_only_the_first_page_could_be_read_are_all_noticed(redis: RedisServer) -> None:
    replica = CutOff(RedisSettings(url=redis.url, timeout=LONGEST), (SEALING_KEY,))
    async with store_at(redis) as store, aclosing(replica):
        changes = replica.changes()
        await until_async("the first look", lambda: _has_looked(replica))
        replica.left = 0
        keys = [GrantKey(KEY.person, f"default/{number}") for number in range(BATCH + 100)]
        for start in range(0, len(keys), 50):
            await asyncio.gather(*(store.write(key, GRANT) for key in keys[start : start + 50]))
        before = replica._last_id
        replica.left = 1
        await eventually(lambda: replica._last_id != before and replica.left == 0)
        replica.left = None
        assert {await anext(changes) for _ in keys} == set(keys)


async def test_looking_goes_on_after_an_answer_that_nobody_expected(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        changes = replica.changes()
        await until_async("the first look", lambda: _has_looked(replica))
        good = replica._last_id
        replica._last_id = 7  # type: ignore[assignment]  # the next look fails as by a bug
        await eventually(lambda: "Looking for changed grants failed" in caplog.text)
        replica._last_id = good
        await store.write(KEY, GRANT)
        assert await anext(changes) == KEY


async def _has_looked(store: RedisGrantStore) -> bool:
    return bool(store._last_id)


async def test_a_rotated_key_opens_what_the_old_one_sealed(redis: RedisServer) -> None:
    newer = new_sealing_key("k")
    async with store_at(redis) as store:
        await store.write(KEY, GRANT)
    async with store_at(redis, newer, SEALING_KEY) as rotated:
        assert (await rotated.read(KEY)) is not None
    async with store_at(redis, newer) as without:
        with pytest.raises(UnreadableGrant, match=f"{SEALING_KEY.id}.*not available"):
            await without.read(KEY)
        assert await without.all_grants() == []


async def test_a_redis_that_is_away_fails_at_once_and_is_used_again_when_it_returns(redis: RedisServer) -> None:
    async with store_at(redis) as store:
        await store.write(KEY, GRANT)
        await redis.stop()
        for _ in range(3):
            with pytest.raises(GrantStoreError, match=r"Redis at 127.0.0.1, does not respond: try again"):
                await store.read(KEY)
        await redis.start()
        await until_async("the store", lambda: _answers(store))
        assert await store.read(KEY) is None, "this Redis keeps nothing on disk"
        assert await store.write(KEY, GRANT)


async def _answers(store: RedisGrantStore) -> bool:
    try:
        await store.read(KEY)
    except GrantStoreError:
        return False
    return True


async def test_a_redis_without_persistence_is_told_at_the_start(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(redis) as store:
        await store._redis.config_set("maxmemory-policy", "allkeys-lru")
        with caplog.at_level(logging.WARNING):
            store.changes()
            await eventually(lambda: "evicts keys" in caplog.text)
        assert "writes nothing to disk, so that its restart loses the grants of all users" in caplog.text


async def test_a_redis_with_persistence_is_not_told(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with store_at(redis) as store, store_at(redis) as replica:
        await store._redis.config_set("appendonly", "yes")
        with caplog.at_level(logging.WARNING):
            changes = store.changes()
            await until_async("the first look", lambda: _has_looked(store))
            await replica.write(KEY, GRANT)
            assert await anext(changes) == KEY, "at the second look"
        assert caplog.text == ""


async def test_a_redis_without_memory_says_so_and_keeps_the_old_grant(redis: RedisServer) -> None:
    async with store_at(redis) as store:
        version = await store.write(KEY, GRANT)
        await store._redis.config_set("maxmemory", "1")
        with pytest.raises(
            GrantStoreError, match=r"refuses the request \(.*check that it is a primary, has memory left"
        ):
            await store.write(KEY, GRANT)
        assert await store.read(KEY) == (GRANT, version)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grants": "redis", "grant_keys": SEALING_KEY.text}, "set FAIRLEAD_REDIS"),
        ({"grants": "redis", "redis": "redis://h"}, "FAIRLEAD_GRANT_KEYS cannot be used: there must be 1 to"),
        ({"grants": "redis", "redis": "redis://h", "grant_keys_file": "/none"}, "GRANT_KEYS_FILE is /none, which"),
        ({"grants": "secrets", "grant_keys": SEALING_KEY.text}, "needs a cluster and FAIRLEAD_GRANTS_SECRET"),
        ({"grants": "redis", "grants_directory": "/var/x", "grant_keys": "a"}, "name two stores of grants"),
        ({"grants": "redis", "redis": "redis://h:port", "grant_keys": SEALING_KEY.text}, "FAIRLEAD_REDIS cannot be"),
    ],
)
def test_settings_without_a_usable_store_are_refused(settings: dict[str, Any], message: str) -> None:
    given = Settings.of(**settings)
    with pytest.raises(BadSetting, match=message):
        grant_store(given.upstream.grants, given.limits.redis)


async def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{SEALING_KEY.text}\n{new_sealing_key('old').text}\n")
    given = Settings.of(grants="redis", redis="redis://127.0.0.1:1", grant_keys_file=tmp_path / "keys")
    store = grant_store(given.upstream.grants, given.limits.redis)
    assert store is not None
    await store.aclose()
