"""Scopes that a server names in a 401 answer, if the settings have none."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.scopes import MAX_SCOPES
from fairlead_mcp.oauth.subject import GATEWAY
from tokenworld import world


@pytest.mark.parametrize("grant", [CLIENT_CREDENTIALS, TOKEN_EXCHANGE])
async def test_scopes_that_a_401_names_are_requested_from_then_on_if_the_settings_have_none(grant: str) -> None:
    async with world(grant) as tools:
        alice = tools.person("alice", 5_000)
        plain = await tools.source.obtain(alice)
        named = Challenge("invalid_token", ("read", "write"))
        tokens = await asyncio.gather(
            *(tools.source.obtain(alice, refused_token=plain, challenge=named) for _ in range(9))
        )
        assert (plain.scopes, {token.scopes for token in tokens}) == (frozenset(), {frozenset({"read", "write"})})
        assert tools.request_count == 2
        tools.later(299)
        assert (await tools.source.obtain(alice)).scopes == {"read", "write"}
        assert tools.request_count == 3


async def test_scopes_that_the_first_401_names_are_in_the_first_grant() -> None:
    async with world(CLIENT_CREDENTIALS) as tools:
        assert (await tools.source.obtain(GATEWAY, challenge=Challenge("", ("read",)))).scopes == {"read"}
        assert tools.request_count == 1


async def test_scopes_of_the_settings_stay_whatever_a_401_names() -> None:
    async with world(scopes=("read",)) as tools:
        alice = tools.person("alice")
        token = await tools.source.obtain(alice)
        named = Challenge("invalid_token", ("write",))
        assert (await tools.source.obtain(alice, refused_token=token, challenge=named)).scopes == {"read"}


async def test_scopes_that_a_401_names_and_nobody_grants_are_given_up_and_never_too_many() -> None:
    async with world() as tools:
        alice = tools.person("alice", 5_000)
        token = await tools.source.obtain(alice)
        unheard = Challenge("invalid_token", ("root",))
        assert (await tools.source.obtain(alice, refused_token=token, challenge=unheard)).scopes == frozenset()
        assert tools.request_count == 3
        for first in range(0, 300, 60):
            tools.later(6)
            many = Challenge("invalid_token", tuple(f"s{number}" for number in range(first, first + 60)))
            await tools.source.obtain(alice, refused_token=tools.source.find_cached(alice), challenge=many)
        requested = [dict(request).get("scope", "").split() for request in tools.provider.requests]
        assert max(len(scopes) for scopes in requested) <= MAX_SCOPES
