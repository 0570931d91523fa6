"""A consent at another replica wakes those who wait, at the cost of a read for each change."""

from __future__ import annotations

import asyncio

import msgspec

from fairlead_gateway.sign_in.consent_changes import ConsentChanges
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import (
    GrantKey,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
    VersionedGrant,
)
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

KEY = GrantKey(b"alice", "default/linear")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1", granted_at=1_000.0)


class CountedGrants(MemoryGrants):
    """Counts the reads, of which some may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.failures: list[GrantStoreError] = []
        """Failures of the next reads."""

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        return await super().read(key)


def granted(at: float) -> StoredGrant:
    return msgspec.structs.replace(GRANT, granted_at=at)


async def settled() -> None:
    await asyncio.sleep(0.01)


async def test_all_who_wait_for_a_person_share_the_reads_and_nothing_is_read_without_a_change() -> None:
    store = CountedGrants()
    changes = ConsentChanges(store)
    waiting = [asyncio.ensure_future(changes.another(KEY)) for _ in range(200)]
    await asyncio.sleep(3_600)
    assert store.reads == 1
    await store.write(GrantKey(b"bob", KEY.server), GRANT)
    await settled()
    assert store.reads == 1, "the grant of somebody else"
    await store.write(KEY, GRANT)
    await asyncio.gather(*waiting)
    assert store.reads == 2
    await changes.aclose()


async def test_a_consent_wakes_whatever_the_clock_of_its_replica_says() -> None:
    for later in (1_100.0, 900.0):
        store = CountedGrants()
        await store.write(KEY, GRANT)
        changes = ConsentChanges(store)
        waiting = asyncio.ensure_future(changes.another(KEY))
        await settled()
        await store.write(KEY, granted(later))
        await asyncio.wait_for(waiting, 1)
        await changes.aclose()


async def test_neither_a_renewal_nor_a_logout_is_a_consent() -> None:
    store = CountedGrants()
    await store.write(KEY, GRANT)
    changes = ConsentChanges(store)
    waiting = asyncio.ensure_future(changes.another(KEY))
    await settled()
    await store.write(KEY, msgspec.structs.replace(GRANT, refresh_token="r2", renewed_at=2_000.0))
    await settled()
    await store.delete(KEY)
    await settled()
    assert not waiting.done()
    await store.write(KEY, granted(3_000.0))
    await waiting
    await changes.aclose()


async def test_a_store_that_was_away_at_first_makes_the_old_consent_no_new_one() -> None:
    store = CountedGrants()
    await store.write(KEY, GRANT)
    store.failures = [GrantStoreError("away"), GrantStoreError("away")]
    changes = ConsentChanges(store)
    waiting = asyncio.ensure_future(changes.another(KEY))
    await asyncio.sleep(10)
    await store.write(KEY, msgspec.structs.replace(GRANT, renewed_at=2_000.0))
    await settled()
    assert not waiting.done()
    store.failures = [GrantStoreError("away")]
    await store.write(KEY, granted(3_000.0))
    await waiting
    await changes.aclose()


async def test_a_consent_takes_the_place_of_one_that_cannot_be_opened() -> None:
    store = CountedGrants()
    await store.write(KEY, GRANT)
    store.failures = [UnreadableGrant("its key is lost")]
    changes = ConsentChanges(store)
    waiting = asyncio.ensure_future(changes.another(KEY))
    await settled()
    await store.write(KEY, granted(3_000.0))
    await waiting
    await changes.aclose()


async def test_a_look_ends_with_the_last_who_waits() -> None:
    store = CountedGrants()
    changes = ConsentChanges(store)
    for _ in range(2):
        waiting = [asyncio.ensure_future(changes.another(KEY)) for _ in range(2)]
        await settled()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        reads = store.reads
        await store.write(KEY, granted(store.reads))
        await settled()
        assert store.reads == reads
    await changes.aclose()
