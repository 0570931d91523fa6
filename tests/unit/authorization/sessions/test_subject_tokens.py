"""The provider's tokens for calls of users who have a session."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_mcp.oauth.errors import (
    GRANT_STORE,
    NO_SUBJECT_TOKEN,
    PROVIDER_ERROR,
    SUBJECT_TOKEN_EXPIRED,
    GrantFailed,
)
from fairlead_mcp.oauth.grants import ID_TOKEN_TYPE
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, VersionedGrant
from sessionworld import Replica, SessionWorld, key_of
from waiting import eventually


class Store(MemoryGrants):
    """A store that can be unreachable."""

    away = False

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        if self.away:
            raise GrantStoreError("the store is away")
        return await super().read(key)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def world(store: Store) -> SessionWorld:
    return SessionWorld(lambda: store)


async def refusal_of(replica: Replica, *arguments: object) -> GrantFailed:
    with pytest.raises(GrantFailed) as error:
        await replica.subject_token(*arguments)  # type: ignore[arg-type]  # handed on
    return error.value


async def test_token_is_used_until_shortly_before_its_end(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    assert await replica.subject_token(session) == "access of ada 1"
    world.later(265)
    assert await replica.subject_token(session) == "access of ada 1"
    world.later(10)
    assert await replica.subject_token(session) == "access of ada 2"


async def test_burst_of_calls_at_two_replicas_and_a_refresh_use_each_refresh_token_once(world: SessionWorld) -> None:
    first, second = world.replica(), world.replica()
    issued = await first.sign_in()
    calls = [asyncio.ensure_future(replica.subject_token(issued.session)) for replica in (first, second) * 10]
    refresh = asyncio.ensure_future(second.refresh(issued.refresh_token))
    assert len(set(await asyncio.gather(*calls))) == 2
    await second.refresh((await refresh).refresh_token)
    assert world.provider.requests == 4


async def test_renewal_goes_on_when_its_caller_gives_up(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    world.provider.answer_event = asyncio.Event()
    call = asyncio.ensure_future(replica.subject_token(session))
    await eventually(lambda: world.provider.requests)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    world.provider.answer_event.set()
    assert await replica.subject_token(session) == "access of ada 1"
    assert world.provider.requests == 1


async def test_session_of_another_person_gives_no_token(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in("ada")).session
    assert await replica.subject_token(session) == "access of ada 1"
    failure = await refusal_of(replica, session, "eve")
    assert failure.cause == SUBJECT_TOKEN_EXPIRED
    assert world.provider.requests == 1


async def test_ended_session_gives_no_token_and_its_tokens_are_rejected(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    assert await replica.sessions.end(key_of(), session.id)
    failure = await refusal_of(replica, session)
    assert (failure.cause, "sign in again" in str(failure)) == (SUBJECT_TOKEN_EXPIRED, True)
    assert set(replica.ended) == {session.id}


async def test_person_whom_the_provider_has_removed_loses_the_session(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    world.provider.grants.clear()
    assert (await refusal_of(replica, session)).cause == SUBJECT_TOKEN_EXPIRED
    assert await replica.stored_record(session) is None
    assert set(replica.ended) == {session.id}


async def test_failure_of_the_provider_or_the_store_is_told_and_soon_forgotten(
    world: SessionWorld, store: Store
) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    world.provider.away = True
    causes = [(await refusal_of(replica, session)).cause for _ in range(3)]
    assert (causes, world.provider.requests) == ([PROVIDER_ERROR] * 3, 1)
    world.provider.away, store.away = False, True
    world.later(2)
    assert (await refusal_of(replica, session)).cause == GRANT_STORE
    store.away = False
    world.later(2)
    assert await replica.subject_token(session) == "access of ada 2"
    assert replica.ended == []


async def test_provider_without_the_wanted_token_is_not_asked_for_each_call(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    failures = [await refusal_of(replica, session, "ada", ID_TOKEN_TYPE) for _ in range(3)]
    assert {failure.cause for failure in failures} == {NO_SUBJECT_TOKEN}
    assert "subjectTokenType" in str(failures[0])
    assert world.provider.requests == 1


async def test_provider_whose_tokens_have_expired_is_not_asked_for_each_call(world: SessionWorld) -> None:
    replica = world.replica()
    session = (await replica.sign_in()).session
    world.provider.lifetime = -60
    assert {await replica.subject_token(session) for _ in range(3)} == {"access of ada 1"}
    world.later(2)
    assert await replica.subject_token(session) == "access of ada 2"


async def test_session_without_a_refresh_token_of_the_provider_gives_none(world: SessionWorld) -> None:
    replica = world.replica()
    failure = await refusal_of(replica, (await replica.sign_in(renewable=False)).session)
    assert (failure.cause, "refresh token" in str(failure)) == (NO_SUBJECT_TOKEN, True)
    assert replica.ended == []
