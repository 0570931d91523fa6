"""Replicas remember which identity assertions were used."""

from __future__ import annotations

import pytest

from fairlead_authorization.sessions.expired_sessions import ExpiredSessions
from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.spent_assertions import PREFIX, SpentAssertions
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant
from sessionworld import ISSUER, NOW, SessionWorld
from virtualtime import HandClock


class FullStore(MemoryGrants):
    """Store that is full."""

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        raise GrantStoreError("the store is full")


async def records(store: MemoryGrants) -> int:
    return sum(key.server.startswith(PREFIX) for key, _ in await store.all_grants())


async def test_assertion_is_good_once_over_all_replicas() -> None:
    store, clock = MemoryGrants(), HandClock(NOW)
    here, there = SpentAssertions(store, clock), SpentAssertions(store, clock)
    assert await here.spend(ISSUER, "one", NOW + 300)
    assert not await there.spend(ISSUER, "one", NOW + 300)
    assert not await here.spend(ISSUER, "one", NOW + 600)
    assert await there.spend(ISSUER, "two", NOW + 300)
    assert await there.spend("https://other.example", "one", NOW + 300)


async def test_record_goes_when_the_assertion_cannot_be_valid_any_more() -> None:
    store, clock = MemoryGrants(), HandClock(NOW)
    spent = SpentAssertions(store, clock)
    for number in range(5):
        assert await spent.spend(ISSUER, str(number), NOW + 300)
    clock.now = NOW + 299
    assert await spent.spend(ISSUER, "later", NOW + 600)
    assert await records(store) == 6
    clock.now = NOW + 300
    for number in range(3):
        assert await spent.spend(ISSUER, f"last {number}", NOW + 900)
    assert await records(store) == 4


async def test_records_of_a_replica_that_is_gone_are_deleted_by_another() -> None:
    store, clock = MemoryGrants(), HandClock(NOW)
    assert await SpentAssertions(store, clock).spend(ISSUER, "one", NOW + 300)
    sweeper = ExpiredSessions(store, SessionWorld(lambda: store).replica().ends, clock)
    await sweeper.check()
    assert await records(store) == 1
    clock.now = NOW + 300
    await sweeper.check()
    assert await records(store) == 0


async def test_assertion_is_not_taken_while_the_store_is_away() -> None:
    with pytest.raises(SessionStoreUnavailable):
        await SpentAssertions(FullStore(), HandClock(NOW)).spend(ISSUER, "one", NOW + 300)
