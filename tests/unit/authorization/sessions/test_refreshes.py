"""Refresh tokens: rotation with a grace period, replay, and renewal at the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from fairlead_authorization.sessions.renewals import CLAIM_SECONDS
from fairlead_authorization.sessions.session import IdentityProviderUnavailable, SessionRefused, SessionStoreUnavailable
from fairlead_authorization.sessions.session_record import SessionTimes
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant
from sessionworld import NOW, TIMES, Replica, SessionWorld, key_of, person
from waiting import eventually


class Store(MemoryGrants):
    """A store that can be full."""

    full = False

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        if self.full:
            raise GrantStoreError("the store is full")
        return await super().write(key, grant, replaces)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def world(store: Store) -> AsyncIterator[SessionWorld]:
    async with SessionWorld(lambda: store) as made:
        yield made


@pytest.fixture
def replica(world: SessionWorld) -> Replica:
    return world.replica()


async def refusal_of(replica: Replica, token: str) -> str:
    with pytest.raises(SessionRefused) as error:
        await replica.refresh(token)
    return str(error.value)


async def test_groups_are_those_of_the_provider_at_the_last_refresh(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    world.provider.groups = ["ops"]
    world.later(600)
    refreshed = await replica.refresh(issued.refresh_token)
    assert refreshed.refresh_token != issued.refresh_token
    assert refreshed.session.person == person(groups=["ops"])
    assert (refreshed.session.id, refreshed.session.used_at) == (issued.session.id, NOW + 600)
    assert world.provider.requests == 1


async def test_a_predecessor_gives_the_very_same_successor_within_the_grace_window(
    world: SessionWorld, replica: Replica
) -> None:
    first = await replica.sign_in()
    second = await replica.refresh(first.refresh_token)
    world.later(TIMES.grace - 1)
    assert await world.replica().refresh(first.refresh_token) == second
    assert world.provider.requests == 1


async def test_an_older_token_within_the_grace_window_gives_the_current_one(
    world: SessionWorld, replica: Replica
) -> None:
    first = await replica.sign_in()
    second = await replica.refresh(first.refresh_token)
    third = await replica.refresh(second.refresh_token)
    assert (await replica.refresh(first.refresh_token)).refresh_token == third.refresh_token


async def test_a_replay_after_the_grace_window_ends_the_family(world: SessionWorld, replica: Replica) -> None:
    first = await replica.sign_in()
    second = await replica.refresh(first.refresh_token)
    world.later(TIMES.grace)
    assert "used before" in await refusal_of(replica, first.refresh_token)
    assert "has ended" in await refusal_of(replica, second.refresh_token)


async def test_two_requests_at_once_get_the_same_successor(world: SessionWorld, replica: Replica) -> None:
    first = await replica.sign_in()
    requests = [each.refresh(first.refresh_token) for each in (replica, replica, world.replica())]
    successors = {issued.refresh_token for issued in await asyncio.gather(*requests)}
    assert len(successors) == 1
    assert world.provider.requests == 1


async def test_two_replicas_do_not_ask_the_provider_at_once(world: SessionWorld, replica: Replica) -> None:
    first = await replica.sign_in()
    world.provider.answer_event = asyncio.Event()
    first_task = asyncio.create_task(replica.refresh(first.refresh_token))
    await eventually(lambda: world.provider.requests)
    second_task = asyncio.create_task(world.replica().refresh(first.refresh_token))
    for _ in range(20):
        await asyncio.sleep(0)
    world.provider.answer_event.set()
    assert await first_task == await second_task
    assert world.provider.requests == 1


async def test_without_a_grace_window_a_predecessor_is_a_replay_at_once(store: Store) -> None:
    async with SessionWorld(lambda: store, SessionTimes(grace=0)) as world:
        replica = world.replica()
        first = await replica.sign_in()
        await replica.refresh(first.refresh_token)
        assert "used before" in await refusal_of(replica, first.refresh_token)


async def test_another_client_cannot_refresh(replica: Replica) -> None:
    issued = await replica.sign_in()
    with pytest.raises(SessionRefused, match="another client"):
        await replica.refresh(issued.refresh_token, "https://evil.example/client.json")
    assert await replica.refresh(issued.refresh_token)


async def test_a_day_of_two_racing_clients_logs_nobody_out(world: SessionWorld, replica: Replica) -> None:
    other = world.replica()
    mine = theirs = (await replica.sign_in()).refresh_token
    for _ in range(24 * 6):
        world.later(600)
        ours = await asyncio.gather(replica.refresh(mine), other.refresh(theirs))
        mine, theirs = (issued.refresh_token for issued in ours)
    assert mine == theirs
    assert world.provider.requests == 24 * 6


async def test_a_client_whose_answer_was_lost_asks_again(world: SessionWorld, replica: Replica) -> None:
    first = await replica.sign_in()
    world.provider.answer_event = asyncio.Event()
    lost = asyncio.create_task(replica.refresh(first.refresh_token))
    await eventually(lambda: world.provider.requests)
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    world.provider.answer_event.set()
    again = await replica.refresh(first.refresh_token)
    assert world.provider.requests == 1, "what began runs to its end"
    assert await replica.refresh(again.refresh_token)


async def test_a_person_whom_the_provider_refuses_is_out(world: SessionWorld, replica: Replica) -> None:
    issued, other = await replica.sign_in(), await replica.sign_in()
    grant = await replica.stored_record(issued.session)
    assert grant is not None
    world.provider.end(grant.refresh_token)
    assert "the provider has ended" in await refusal_of(replica, issued.refresh_token)
    assert [session.id for session in await replica.sign_ins.of(key_of())] == [other.session.id]


async def test_all_sessions_by_one_grant_of_the_provider_end_with_it(world: SessionWorld, replica: Replica) -> None:
    issued, other = await replica.sign_in(), await replica.sign_in()
    grant, other_grant = [await replica.stored_record(each.session) for each in (issued, other)]
    assert grant is not None
    assert other_grant is not None
    shared = GrantKey(key_of(), f"session:{other.session.id}")
    await replica.store.write(shared, msgspec.structs.replace(other_grant, refresh_token=grant.refresh_token))
    world.provider.end(grant.refresh_token)
    await refusal_of(replica, issued.refresh_token)
    assert await replica.sign_ins.of(key_of()) == []


async def test_sessions_are_not_lost_while_the_provider_is_away(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    world.provider.away = True
    for _ in range(3):
        with pytest.raises(IdentityProviderUnavailable):
            await replica.refresh(issued.refresh_token)
    world.provider.away = False
    before = world.clock.now
    assert await world.replica().refresh(issued.refresh_token)
    assert world.clock.now == before, "nobody waits for a claim that was given back"


async def test_another_person_in_the_answer_of_the_provider_ends_the_session(
    world: SessionWorld, replica: Replica
) -> None:
    issued = await replica.sign_in()
    world.provider.change_person = lambda _: person("ben")
    assert "another person" in await refusal_of(replica, issued.refresh_token)
    assert await replica.sign_ins.of(key_of()) == []


async def test_a_person_who_has_too_many_groups_by_now_is_told_so(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    world.provider.groups = [f"group-{number:06}" for number in range(300)]
    assert "leave groups" in await refusal_of(replica, issued.refresh_token)


async def test_a_session_without_a_refresh_token_of_the_provider_ends_after_some_hours(
    world: SessionWorld, replica: Replica
) -> None:
    issued = await replica.sign_in(renewable=False)
    world.later(TIMES.unrenewed - 1)
    issued = await replica.refresh(issued.refresh_token)
    assert world.provider.requests == 0
    world.later(1)
    assert "has ended" in await refusal_of(replica, issued.refresh_token)


async def test_a_session_ends_when_the_settings_say_so(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    world.later(TIMES.renewed)
    assert "has ended" in await refusal_of(replica, issued.refresh_token)
    assert world.provider.requests == 0


async def test_a_replica_that_was_killed_while_it_asked_the_provider_is_waited_for(
    world: SessionWorld, replica: Replica
) -> None:
    issued = await replica.sign_in()
    world.provider.answer_event = asyncio.Event()
    key = _key(issued.session.id)
    stored = await replica.store.read(key)
    assert stored is not None
    killed = asyncio.create_task(replica.sessions._renewals.renew(key, 1, world.provider.renew, stored))
    await eventually(lambda: world.provider.requests)
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    world.provider.answer_event = None
    before = world.clock.now
    assert await world.replica().refresh(issued.refresh_token)
    assert CLAIM_SECONDS <= world.clock.now - before < 2 * CLAIM_SECONDS


def _key(session: str) -> GrantKey:
    return GrantKey(key_of(), f"session:{session}")


async def test_tokens_of_the_provider_that_the_store_did_not_take_are_kept(
    world: SessionWorld, replica: Replica, store: Store
) -> None:
    issued = await replica.sign_in()
    world.provider.answer_event = asyncio.Event()
    asking = asyncio.create_task(replica.refresh(issued.refresh_token))
    await eventually(lambda: world.provider.requests)
    store.full = True
    world.provider.answer_event.set()
    with pytest.raises(SessionStoreUnavailable, match="full"):
        await asking
    world.later(10 * TIMES.grace)
    store.full = False
    assert await replica.refresh(issued.refresh_token), "the provider's new refresh token was not lost"


async def test_a_session_that_is_ended_while_the_provider_answers_stays_ended(
    world: SessionWorld, replica: Replica
) -> None:
    issued = await replica.sign_in()
    world.provider.answer_event = asyncio.Event()
    asking = asyncio.create_task(replica.refresh(issued.refresh_token))
    await eventually(lambda: world.provider.requests)
    await replica.sessions.end(key_of(), issued.session.id)
    world.provider.answer_event.set()
    with pytest.raises(SessionRefused):
        await asking
    assert await replica.stored_record(issued.session) is None


async def test_a_token_that_the_store_has_forgotten_is_good(world: SessionWorld, replica: Replica) -> None:
    """Redis can lose its last second of writes in a crash."""
    issued = await replica.sign_in(renewable=False)
    before = await replica.stored_record(issued.session)
    assert before is not None
    second = await replica.refresh(issued.refresh_token)
    await replica.store.write(_key(issued.session.id), before)
    third = await replica.refresh(second.refresh_token)
    assert third.refresh_token not in (second.refresh_token, issued.refresh_token)
