"""Clients that know the gateway's URL alone, and persons of its provider."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from authorizationworld import Attempt, authorization_world, target_of


async def test_a_client_signs_a_person_in(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        assert await world.call(tokens["access_token"]) == 200
