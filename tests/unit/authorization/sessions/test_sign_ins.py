"""Sign-ins of clients: users and administrators list and end them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.sessions.session import SessionRefused
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from sessionworld import ACCESS, CLIENT, HERE, ISSUER, NOW, Replica, SessionWorld, key_of

LOCAL = msgspec.structs.replace(CLIENT, id="local", kind="configured", name="", redirect_uris=("http://[::1]/back",))


@pytest.fixture
async def world() -> AsyncIterator[SessionWorld]:
    store = MemoryGrants()
    async with SessionWorld(lambda: store) as made:
        yield made


@pytest.fixture
def replica(world: SessionWorld) -> Replica:
    return world.replica()


async def has_consent(replica: Replica, client: RegisteredClient = CLIENT) -> bool:
    return (await replica.begin_session(client=client)).has_consent


async def test_a_sign_in_says_whose_client_it_is_and_what_it_may(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    world.later(60)
    await replica.refresh(issued.refresh_token)
    (sign_in,) = await replica.sign_ins.of(key_of())
    assert (sign_in.id, sign_in.person, sign_in.holder) == (issued.session.id, key_of(), f"{ISSUER} ada")
    assert (sign_in.client_id, sign_in.name, sign_in.agent) == (CLIENT.id, "Claude", CLIENT.agent)
    assert (sign_in.host, sign_in.redirect_host) == ("claude.ai", "claude.ai")
    assert (sign_in.resource, sign_in.scopes) == (f"{HERE}/mcp", ("tools",))
    assert (sign_in.began_at, sign_in.used_at) == (NOW, NOW + 60)
    assert sign_in.ends_at == issued.session.ends_at


async def test_a_client_without_a_document_has_no_host(replica: Replica) -> None:
    access = msgspec.structs.replace(ACCESS, redirect_uri="http://[::1]:4000/back")
    code = await replica.code(client=LOCAL, access=access)
    await replica.sessions.redeem(code, LOCAL.id)
    (sign_in,) = await replica.sign_ins.of(key_of())
    assert (sign_in.host, sign_in.redirect_host) == ("", "localhost")


async def test_sign_ins_are_sorted_by_person_and_use_and_those_in_progress_are_none(
    world: SessionWorld, replica: Replica
) -> None:
    ben = await replica.sign_in("ben")
    first = await replica.sign_in()
    world.later(10)
    second = await replica.sign_in()
    await replica.begin_session()
    await replica.code()
    assert [each.id for each in await replica.sign_ins.of(key_of())] == [second.session.id, first.session.id]
    listed = [each.id for each in await replica.sign_ins.of_everybody()]
    assert listed == [second.session.id, first.session.id, ben.session.id]
    world.later(ben.session.ends_at)
    assert await replica.sign_ins.of_everybody() == []


async def test_an_ended_sign_in_takes_its_tokens_and_consent_with_it(replica: Replica) -> None:
    issued, other = await replica.sign_in(), await replica.sign_in("ben")
    await replica.sessions.consent(issued.session, CLIENT)
    assert await has_consent(replica)
    assert await replica.sign_ins.end(key_of("ben"), issued.session.id) is None
    ended = await replica.sign_ins.end(key_of(), issued.session.id)
    assert ended is not None
    assert replica.ended == [ended.id] == [issued.session.id]
    assert await replica.sign_ins.end(key_of(), issued.session.id) is None
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)
    assert not await has_consent(replica)
    assert [each.id for each in await replica.sign_ins.of_everybody()] == [other.session.id]


async def test_the_consent_to_another_client_stays(replica: Replica) -> None:
    issued, local = await replica.sign_in(), await replica.begin_session(client=LOCAL)
    await replica.sessions.consent(local.session, LOCAL)
    assert await replica.sign_ins.end(key_of(), issued.session.id) is not None
    assert await has_consent(replica, LOCAL)


async def test_all_sign_ins_of_a_person_end_with_those_in_progress(replica: Replica) -> None:
    issued, code, begun = await replica.sign_in(), await replica.code(), await replica.begin_session()
    await replica.sessions.consent(begun.session, CLIENT)
    ben = await replica.sign_in("ben")
    ended = [each.id async for each in replica.sign_ins.end_all(key_of())]
    assert ended == [issued.session.id]
    with pytest.raises(SessionRefused):
        await replica.sessions.redeem(code, CLIENT.id)
    with pytest.raises(SessionRefused):
        await replica.sessions.issue_code(begun)
    assert await replica.store.of_person(key_of()) == []
    assert [each.id for each in await replica.sign_ins.of_everybody()] == [ben.session.id]


async def test_a_consent_to_a_program_at_one_loopback_address_is_for_all(replica: Replica) -> None:
    uris = ("http://127.0.0.1/back", "http://localhost/back")
    both = msgspec.structs.replace(LOCAL, redirect_uris=uris)
    accesses = [msgspec.structs.replace(ACCESS, redirect_uri=uri) for uri in uris]
    here = await replica.begin_session(client=both, access=accesses[0])
    await replica.sessions.consent(here.session, both)
    there = await replica.begin_session(client=both, access=accesses[1])
    assert there.has_consent
