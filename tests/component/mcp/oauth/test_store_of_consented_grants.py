"""Renewal of access tokens while the grant store is unreachable or full, or while a grant cannot be decrypted."""

from __future__ import annotations

import pytest

from consentissuer import ConsentWorld, consent_world
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import (
    GRANT_STORE,
    GRANT_UNREADABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.stored_grant import GrantStoreError
from fairlead_mcp.oauth.token_source import TokenSource
from waiting import until_async


async def failure(
    world: ConsentWorld, name: str, source: TokenSource | None = None, challenge: Challenge | None = None
) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await (source or world.source).obtain(world.person(name), challenge=challenge)
    return failed.value


async def renewed_into_full_store(world: ConsentWorld) -> GrantFailed:
    """The failure of a renewal whose new tokens the store does not accept."""
    caller = await world.begin_renewal("alice")
    world.store.full = True
    world.answer_renewal()
    with pytest.raises(GrantFailed) as failed:
        await caller
    return failed.value


async def stores_last(world: ConsentWorld, name: str) -> bool:
    """Whether the store has the refresh token that the issuer issued last."""
    grant = await world.grant(name)
    return grant is not None and grant.refresh_token == world.issuer.consent_of(name).refresh


async def test_pair_that_the_store_did_not_take_is_not_used_before_it_is_stored() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        failed = await renewed_into_full_store(world)
        world.later(60)
        still = await failure(world, "alice")
        world.store.full = False
        world.later(60)
        assert (await world.source.obtain(world.person("alice"))).value
        grant = await world.grant("alice")
    assert failed.cause == still.cause == GRANT_STORE
    assert not world.issuer.consent_of("alice").ended
    assert grant is not None
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh


async def test_pair_that_the_store_did_not_take_is_stored_without_another_call_at_this_replica() -> None:
    """The user's next call may be at another replica, which must not find the used refresh token."""
    async with consent_world() as world:
        await world.sign_in("alice")
        await renewed_into_full_store(world)
        world.store.full = False
        await until_async("the new pair", lambda: stores_last(world, "alice"))
        assert (await world.make_source().obtain(world.person("alice"))).value
        assert not world.issuer.consent_of("alice").ended


async def test_pair_that_the_store_did_not_take_is_stored_when_the_source_is_closed() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        source = world.make_source()
        caller = await world.begin_renewal("alice", source)
        world.store.full = True
        world.answer_renewal()
        with pytest.raises(GrantFailed):
            await caller
        world.store.full = False
        await source.aclose()
        grant = await world.grant("alice")
    assert grant is not None
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh


async def test_store_that_is_away_stops_no_call_with_a_cached_token() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        await world.sign_in("bob")
        token = await world.source.obtain(world.person("alice"))
        world.store.away = True
        assert await world.source.obtain(world.person("alice")) == token
        with pytest.raises(GrantStoreError):
            await world.source.review(b"alice")
        assert world.source.find_cached(world.person("alice")) == token
        error = await failure(world, "bob")
        world.store.away = False
        world.later(60)
        assert (await world.source.obtain(world.person("bob"))).value
    assert error.cause == GRANT_STORE
    assert "away" in str(error)


async def test_grant_whose_key_is_lost_is_told_from_a_store_that_is_away() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        world.store.unreadable.add(world.key("alice"))
        error = await failure(world, "alice")
    assert error.cause == GRANT_UNREADABLE
    assert "sign in again" in str(error)
