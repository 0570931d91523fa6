"""Tokens end with their consent, also if it ends at another replica."""

from __future__ import annotations

import asyncio

import pytest

from consentissuer import CALLBACK, consent_world
from fairlead_mcp.oauth.client_registrations import registration_key
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed


@pytest.mark.parametrize("rotates", [True, False])
async def test_token_of_a_consent_that_is_ended_while_it_is_renewed_reaches_nobody(rotates: bool) -> None:
    async with consent_world() as world:
        world.issuer.rotates = rotates
        await world.sign_in("alice")
        await world.source.obtain(world.person("alice"))
        world.later(400)
        caller = await world.begin_renewal("alice")
        await world.store.delete(world.key("alice"))
        world.answer_renewal()
        with pytest.raises(GrantFailed) as failed:
            await caller
        assert await world.grant("alice") is None
        if rotates:  # otherwise, the deletion has revoked its refresh token
            assert world.issuer.consent_of("alice").ended, "the refresh token that nobody has any more is revoked"
        assert world.source.find_cached(world.person("alice")) is None
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_refresh_token_that_comes_after_a_sign_in_with_another_client_is_revoked() -> None:
    async with consent_world() as world:
        first, _ = await world.sign_in("alice")
        await world.store.delete(registration_key(first.issuer, CALLBACK))
        second, _ = await world.sign_in("alice")
        await world.store.write(world.key("alice"), first)
        caller = await world.begin_renewal("alice")
        await world.store.write(world.key("alice"), second)
        world.answer_renewal()
        await caller
        assert [consent.ended for consent in world.issuer.consents] == [True, False]
        assert not second.has_client_of(first)


async def test_tokens_are_forgotten_with_their_consent_and_not_with_a_renewal_of_another_replica() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        here, there = world.make_source(), world.make_source()
        token = await here.obtain(world.person("alice"))
        await there.obtain(world.person("alice"))
        await here.review(b"alice")
        assert here.find_cached(world.person("alice")) == token
        world.later(1)
        _, fresh = await world.sign_in("alice")
        there.adopt(b"alice", fresh)
        await here.review(b"alice")
        await there.review(b"alice")
        assert here.find_cached(world.person("alice")) is None
        assert there.find_cached(world.person("alice")) == fresh
        await world.store.delete(world.key("alice"))
        await there.review(b"alice")
        assert there.find_cached(world.person("alice")) is None


async def test_token_of_a_sign_in_ends_with_another_one_before_the_store_was_asked_about_the_first() -> None:
    async with consent_world() as world:
        grant, token = await world.sign_in("alice")
        world.source.adopt(b"alice", token, grant)
        world.later(1)
        await world.sign_in("alice")
        await world.source.review(b"alice")
        assert world.source.find_cached(world.person("alice")) is None


async def test_token_of_a_sign_in_outlasts_an_answer_of_the_store_that_is_older() -> None:
    async with consent_world() as world:
        grant, token = await world.sign_in("alice")
        world.source.adopt(b"alice", token, grant)
        world.store.was_read.clear()
        world.store.hold = asyncio.Event()
        review = asyncio.create_task(world.source.review(b"alice"))
        await world.store.was_read.wait()
        held, world.store.hold = world.store.hold, None
        world.later(1)
        grant, fresh = await world.sign_in("alice")
        world.source.adopt(b"alice", fresh, grant)
        held.set()
        await review
        assert world.source.find_cached(world.person("alice")) == fresh


async def test_a_change_of_a_grant_that_was_never_used_here_reads_nothing() -> None:
    async with consent_world() as world:
        here, there = world.make_source(), world.make_source()
        await world.sign_in("alice")
        await there.obtain(world.person("alice"))
        reads = world.store.reads
        await here.review(b"alice")
        assert world.store.reads == reads
        await there.review(b"alice")
        assert world.store.reads == reads + 1


async def test_consents_of_more_persons_than_tokens_are_cached_for_are_not_remembered() -> None:
    async with consent_world(options={"max_tokens": 1}) as world:
        for name in ("alice", "bob"):
            await world.sign_in(name)
            await world.source.obtain(world.person(name))
        await world.source.review(b"alice")
        assert world.source.find_cached(world.person("bob")) is not None
