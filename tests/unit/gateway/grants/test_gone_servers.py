"""Grants end when their server is deleted, unless it comes back soon or never belonged to this gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.gone_servers import CHECK_SECONDS, GONE_SECONDS, GoneServers
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant
from virtualtime import HandClock, in_virtual_time

LINEAR, SENTRY, FOREIGN = (ServerKey("default", name) for name in ("linear", "sentry", "foreign"))
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1")


class AwayGrants(MemoryGrants):
    """Store that can be unreachable."""

    away = False

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        if self.away:
            raise GrantStoreError("away")
        return await super().all_grants(servers)


class World:
    """Three servers, each with grants of two users."""

    def __init__(self) -> None:
        self.wanting = {LINEAR, SENTRY}
        self.served = {LINEAR, SENTRY}
        self.clock = HandClock()
        self.store = AwayGrants()
        self.gone = GoneServers(self.store, lambda: self.wanting, lambda: self.served, self.clock)

    async def granted_servers(self) -> set[str]:
        return {key.server for key, _ in await self.store.all_grants()}

    async def check(self, seconds: float = 0.0) -> None:
        self.clock.now += seconds
        await self.gone.check()


async def world() -> World:
    made = World()
    for person in (b"alice", b"bob"):
        for server in (LINEAR, SENTRY, FOREIGN):
            await made.store.write(GrantKey(person, str(server)), GRANT)
    await made.store.write(GrantKey(b"", "registration:https://as"), GRANT)
    await made.check()
    return made


ALL = {"default/linear", "default/sentry", "default/foreign", "registration:https://as"}


async def test_grants_end_an_hour_after_their_server_was_removed() -> None:
    here = await world()
    here.wanting, here.served = {SENTRY}, {SENTRY}
    await here.check()
    await here.check(GONE_SECONDS - 1)
    assert await here.granted_servers() == ALL
    await here.check(1)
    assert await here.granted_servers() == ALL - {"default/linear"}


async def test_a_server_that_comes_back_keeps_its_grants() -> None:
    here = await world()
    here.wanting, here.served = {SENTRY}, {SENTRY}
    await here.check()
    here.wanting, here.served = {LINEAR, SENTRY}, {LINEAR, SENTRY}
    await here.check(GONE_SECONDS - 1)
    here.wanting, here.served = {SENTRY}, {SENTRY}
    await here.check(GONE_SECONDS)
    assert await here.granted_servers() == ALL


async def test_a_server_that_does_not_want_sign_ins_any_more_keeps_its_grants() -> None:
    here = await world()
    here.wanting = {SENTRY}
    await here.check()
    await here.check(2 * GONE_SECONDS)
    assert await here.granted_servers() == ALL
    here.served = {SENTRY}
    await here.check()
    await here.check(GONE_SECONDS)
    assert await here.granted_servers() == ALL - {"default/linear"}


async def test_a_store_that_is_away_is_asked_again() -> None:
    here = await world()
    here.wanting, here.served = set(), {SENTRY}
    await here.check()
    here.store.away = True
    await here.check(GONE_SECONDS)
    here.store.away = False
    assert await here.granted_servers() == ALL
    await here.check()
    assert await here.granted_servers() == ALL - {"default/linear"}


@in_virtual_time
async def test_servers_are_looked_at_until_the_end() -> None:
    here = await world()
    loop = asyncio.get_running_loop()
    failures = [RuntimeError("a failure")]

    def list_wanting() -> set[ServerKey]:
        if failures:
            raise failures.pop()
        return here.wanting

    gone = GoneServers(here.store, list_wanting, lambda: here.served, loop.time)
    gone.start()
    await asyncio.sleep(3 * CHECK_SECONDS)
    here.wanting, here.served = {SENTRY}, {SENTRY}
    await asyncio.sleep(GONE_SECONDS + 2 * CHECK_SECONDS)
    assert await here.granted_servers() == ALL - {"default/linear"}
    await gone.aclose()
