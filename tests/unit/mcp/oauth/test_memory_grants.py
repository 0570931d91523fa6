"""Grants in memory: versions, changes and limits, as in every grant store."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import MAX_GRANT_BYTES, GrantKey, GrantStoreError, StoredGrant

ALICE = GrantKey(b"alice", "default/box")
BOB = GrantKey(b"bob", "default/box")
GRANT = StoredGrant("https://login.example.com", "client", refresh_token="a secret", client_secret="another secret")
OTHER = StoredGrant("https://login.example.com", "other")


async def test_write_replaces_only_the_version_that_it_names() -> None:
    store = MemoryGrants()
    assert await store.write(ALICE, GRANT, "1") is None
    first = await store.write(ALICE, GRANT, "")
    assert first is not None
    assert await store.write(ALICE, OTHER, "") is None
    second = await store.write(ALICE, OTHER, first)
    assert await store.write(ALICE, GRANT, first) is None
    assert await store.read(ALICE) == (OTHER, second)
    assert await store.write(ALICE, GRANT) not in (None, second)


async def test_delete_leaves_another_version_than_it_names() -> None:
    store = MemoryGrants()
    first = await store.write(ALICE, GRANT)
    second = await store.write(ALICE, OTHER)
    assert not await store.delete(ALICE, first)
    assert await store.delete(ALICE, second)
    assert not await store.delete(ALICE)
    assert await store.read(ALICE) is None


async def test_grants_are_listed_for_their_person_and_all_together() -> None:
    store = MemoryGrants()
    await store.write(ALICE, GRANT)
    await store.write(BOB, OTHER)
    assert await store.of_person(b"alice") == [(ALICE, GRANT)]
    assert await store.all_grants() == [(ALICE, GRANT), (BOB, OTHER)]
    assert await store.all_grants({"nobody's"}) == []


async def test_full_store_takes_no_other_person_and_says_so() -> None:
    store = MemoryGrants(max_grants=1)
    await store.write(ALICE, GRANT)
    with pytest.raises(GrantStoreError, match="maximum"):
        await store.write(BOB, GRANT)
    await store.write(ALICE, OTHER)


async def test_changes_are_told_until_the_store_ends() -> None:
    store = MemoryGrants()
    seen: list[GrantKey] = []
    ready = asyncio.Event()

    async def listen() -> None:
        ready.set()
        async for key in store.changes():
            seen.append(key)

    listening = asyncio.get_running_loop().create_task(listen())
    await ready.wait()
    await asyncio.sleep(0)
    await store.write(ALICE, GRANT)
    await store.delete(BOB)
    await store.write(BOB, GRANT)
    await store.delete(ALICE)
    await store.aclose()
    await listening
    await listen()
    assert seen == [ALICE, BOB, ALICE]


async def test_reader_that_does_not_read_misses_the_oldest_changes() -> None:
    store = MemoryGrants()
    async with contextlib.aclosing(store.changes()) as changes:
        first = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.write(BOB, GRANT)
        assert await first == BOB
        await store.write(BOB, GRANT)
        for _ in range(1_024):
            await store.write(ALICE, GRANT)
        assert await anext(changes) == ALICE


def test_grant_shows_no_secret_and_knows_whether_it_can_be_stored() -> None:
    assert "secret" not in repr(GRANT)
    assert GRANT.fits
    assert not StoredGrant("https://login.example.com", "x" * MAX_GRANT_BYTES).fits
