"""Refresh tokens of ended sessions are revoked at their providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairlead_authorization.sessions.expired_sessions import ExpiredSessions
from fairlead_authorization.sessions.provider_revocations import MAX_WAITING, ProviderRevocations
from fairlead_authorization.sessions.session import SessionRefused
from fairlead_authorization.sessions.session_ends import PREFIX
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import StoredGrant
from sessionworld import ISSUER, TIMES, Replica, SessionWorld, key_of, person
from waiting import eventually


class Provider:
    """Provider that accepts revocations."""

    def __init__(self) -> None:
        self.revoked: list[str] = []
        self.accepts_revocations = True
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def revoke(self, grant: StoredGrant) -> bool:
        await self.may_answer.wait()
        self.revoked.append(grant.refresh_token)
        return self.accepts_revocations


@pytest.fixture
async def world() -> AsyncIterator[SessionWorld]:
    store = MemoryGrants()
    async with SessionWorld(lambda: store) as made:
        yield made


@pytest.fixture
def replica(world: SessionWorld) -> Replica:
    return world.replica()


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def revocations(replica: Replica, provider: Provider) -> AsyncIterator[ProviderRevocations]:
    replica.revocations.start(provider.revoke)
    yield replica.revocations
    provider.may_answer.set()
    await replica.revocations.aclose()


@pytest.mark.usefixtures("revocations")
async def test_a_sign_in_that_is_ended_is_revoked_with_its_current_refresh_token(
    replica: Replica, provider: Provider
) -> None:
    issued = await replica.sign_in()
    await replica.refresh(issued.refresh_token)
    await replica.sign_ins.end(key_of(), issued.session.id)
    await eventually(lambda: provider.revoked)
    assert provider.revoked == ["g0.1"]


@pytest.mark.usefixtures("revocations")
async def test_a_replay_and_the_sweep_revoke_too(world: SessionWorld, replica: Replica, provider: Provider) -> None:
    issued = await replica.sign_in()
    await replica.refresh(issued.refresh_token)
    world.later(TIMES.grace)
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)
    await eventually(lambda: provider.revoked == ["g0.1"])
    ben = await replica.begin_session("ben")
    world.later(ben.session.ends_at)
    await ExpiredSessions(replica.store, replica.ends, world.clock).check()
    await eventually(lambda: provider.revoked == ["g0.1", "g1.0"])


@pytest.mark.usefixtures("revocations")
async def test_a_provider_that_has_ended_the_access_is_not_asked_again(
    world: SessionWorld, replica: Replica, provider: Provider
) -> None:
    issued, ben = await replica.sign_in(), await replica.sign_in("ben")
    world.provider.end("g0.0")
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)
    await replica.sign_ins.end(key_of("ben"), ben.session.id)
    await eventually(lambda: provider.revoked)
    assert provider.revoked == ["g1.0"]


@pytest.mark.usefixtures("revocations")
async def test_if_a_refresh_returns_another_person_the_new_refresh_token_is_revoked(
    world: SessionWorld, replica: Replica, provider: Provider
) -> None:
    issued = await replica.sign_in()
    world.provider.change_person = lambda _: person("mallory")
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)
    await eventually(lambda: provider.revoked)
    assert provider.revoked == ["g0.1"]


async def test_a_token_is_not_revoked_while_the_person_has_another_session_with_the_provider(
    revocations: ProviderRevocations, replica: Replica, provider: Provider
) -> None:
    first, second = await replica.sign_in(), await replica.sign_in()
    await replica.sign_ins.end(key_of(), first.session.id)
    await revocations.aclose()  # waits for the revocations that are queued; later ones are still made
    await replica.sign_ins.end(key_of(), second.session.id)
    await eventually(lambda: provider.revoked)
    assert provider.revoked == ["g1.0"], "a revocation of g0.0 could have ended the second session at the provider too"


@pytest.mark.usefixtures("revocations")
async def test_a_session_without_a_refresh_token_has_nothing_to_revoke(replica: Replica, provider: Provider) -> None:
    issued = await replica.sign_in(renewable=False)
    ben = await replica.sign_in("ben")
    await replica.sign_ins.end(key_of(), issued.session.id)
    await replica.sign_ins.end(key_of("ben"), ben.session.id)
    await eventually(lambda: provider.revoked)
    assert provider.revoked == ["g0.0"]


@pytest.mark.usefixtures("revocations")
async def test_a_sign_out_does_not_wait_for_the_provider(
    replica: Replica, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.may_answer.clear()
    provider.accepts_revocations = False
    issued = await replica.sign_in()
    assert await replica.sign_ins.end(key_of(), issued.session.id) is not None
    assert provider.revoked == []
    provider.may_answer.set()
    await eventually(lambda: f"was not revoked at {ISSUER}" in caplog.text)


async def test_revocations_that_wait_are_bounded_and_made_at_the_end(
    revocations: ProviderRevocations, replica: Replica, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    issued = await replica.sign_in()
    stored = await replica.stored_record(issued.session)
    assert stored is not None
    await replica.sign_ins.end(key_of(), issued.session.id)
    await eventually(lambda: provider.revoked)
    provider.may_answer.clear()
    # the key could be any: it is that of the record which remembers the end of the session
    ((end_key, _),) = [each for each in await replica.store.of_person(b"") if each[0].server.startswith(PREFIX)]
    for _ in range(MAX_WAITING):
        revocations.add(end_key._replace(person=key_of()), stored)
    assert "was not revoked" not in caplog.text
    revocations.add(end_key._replace(person=key_of()), stored)
    assert f"{MAX_WAITING} others wait" in caplog.text
    provider.may_answer.set()
    await revocations.aclose()
    assert len(provider.revoked) == 1 + MAX_WAITING
