"""Renewals whose answer is lost after the authorization server has replaced the refresh token."""

from __future__ import annotations

import pytest

from consentissuer import ConsentWorld, consent_world
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed
from rawserver import Reply, Request


async def lose_an_answer(world: ConsentWorld) -> None:
    """Renew while a proxy replaces the answer of the authorization server, which has replaced the refresh token."""

    def lose(request: Request, reply: Reply) -> bool:
        consent = world.issuer.consent_of("alice")
        world.issuer.spent[consent.refresh] = consent
        consent.refresh = "a token that nobody got"
        reply.send(502)
        return True

    world.issuer.answer["/token"] = lose
    with pytest.raises(GrantFailed) as failed:
        await world.source.obtain(world.person("alice"))
    assert failed.value.cause != SIGN_IN_REQUIRED
    del world.issuer.answer["/token"]


async def test_a_provider_that_replaces_a_refresh_token_twice_is_followed_to_the_newest() -> None:
    async with consent_world() as world:
        world.issuer.forgives = True
        await world.sign_in("alice")
        await lose_an_answer(world)
        world.later(60)
        assert (await world.source.obtain(world.person("alice"))).value
        grant = await world.grant("alice")
        newest = world.issuer.consent_of("alice").refresh
        world.issuer.forgives = False
        assert (await world.make_source().obtain(world.person("alice"))).value
    assert grant is not None
    assert grant.refresh_token == newest
    assert not world.issuer.consent_of("alice").ended


async def test_a_provider_that_takes_a_replaced_refresh_token_for_a_theft_has_the_person_asked_again() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        await lose_an_answer(world)
        world.later(60)
        with pytest.raises(GrantFailed) as failed:
            await world.source.obtain(world.person("alice"))
        assert failed.value.cause == SIGN_IN_REQUIRED
        assert await world.grant("alice") is None
        await world.sign_in("alice")
        assert (await world.make_source().obtain(world.person("alice"))).value
