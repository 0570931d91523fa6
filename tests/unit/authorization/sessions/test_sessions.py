"""Sessions of clients, from the user's sign-in to the end of the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from fairlead_authorization.sessions.consents import MAX_CONSENT_BYTES
from fairlead_authorization.sessions.expired_sessions import ExpiredSessions
from fairlead_authorization.sessions.session import ProviderGrant, SessionRefused, SessionStoreUnavailable
from fairlead_authorization.sessions.session_record import (
    CODE_SECONDS,
    MAX_CLAIMS_BYTES,
    MAX_REFRESH_BYTES,
    WAITING_SECONDS,
    has_ended,
    new_session,
)
from fairlead_authorization.sessions.stored_sessions import MAX_SESSIONS, MAX_SESSIONS_BYTES
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import MAX_SESSION_BYTES, GrantKey, GrantStoreError
from sessionworld import ACCESS, CLIENT, HERE, NOW, TIMES, Replica, SessionWorld, key_of, person


@pytest.fixture
async def world() -> AsyncIterator[SessionWorld]:
    store = MemoryGrants()
    async with SessionWorld(lambda: store) as made:
        yield made


@pytest.fixture
def replica(world: SessionWorld) -> Replica:
    return world.replica()


async def refusal_of(replica: Replica, code: str, client_id: str = CLIENT.id) -> str:
    with pytest.raises(SessionRefused) as error:
        await replica.sessions.redeem(code, client_id)
    return str(error.value)


async def test_a_session_goes_from_the_sign_in_to_its_first_refresh_token(replica: Replica) -> None:
    begun = await replica.begin_session()
    assert await replica.sessions.find_waiting(person(), begun.session.id) == begun
    issued = await replica.sessions.redeem(await replica.sessions.issue_code(begun), CLIENT.id)
    assert await replica.sessions.find_waiting(person(), begun.session.id) is None
    assert (issued.session.person, issued.session.access) == (person(), ACCESS)
    assert (issued.session.agent, issued.session.began_at) == (CLIENT.agent, NOW)
    assert [each.id for each in await replica.sign_ins.of(key_of())] == [issued.session.id]


async def test_a_session_of_somebody_else_does_not_wait_for_a_person(replica: Replica) -> None:
    begun = await replica.begin_session("ada")
    assert await replica.sessions.find_waiting(person("ben"), begun.session.id) is None


async def test_sessions_and_consents_are_not_accounts_at_servers(replica: Replica) -> None:
    issued = await replica.sign_in()
    await replica.sessions.consent(issued.session, CLIENT)
    records = await replica.store.of_person(key_of())
    assert len(records) == 2
    assert [granted_server(key) for key, _ in records] == [None, None]


async def test_texts_of_records_show_no_secret(replica: Replica) -> None:
    issued = await replica.sign_in()
    grant = await replica.stored_record(issued.session)
    assert grant is not None
    assert grant.session is not None
    assert "claude" in repr(grant.session)
    assert repr(grant.session.secret) not in repr(grant) + repr(grant.session)
    assert issued.refresh_token not in repr(await replica.tokens.issue(issued.session))


async def test_a_sign_in_that_waits_too_long_is_over(world: SessionWorld, replica: Replica) -> None:
    begun = await replica.begin_session()
    world.later(WAITING_SECONDS)
    assert await replica.sessions.find_waiting(person(), begun.session.id) is None
    with pytest.raises(SessionRefused, match="taken too long"):
        await replica.sessions.issue_code(begun)


async def test_a_consent_gives_one_code(replica: Replica) -> None:
    begun = await replica.begin_session()
    await replica.sessions.issue_code(begun)
    with pytest.raises(SessionRefused, match="completed already"):
        await replica.sessions.issue_code(begun)


async def test_a_code_that_is_used_twice_ends_the_session(replica: Replica) -> None:
    code = await replica.code()
    issued = await replica.sessions.redeem(code, CLIENT.id)
    assert "used before" in await refusal_of(replica, code)
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)


async def test_a_code_that_two_replicas_redeem_at_once_ends_the_session(world: SessionWorld, replica: Replica) -> None:
    code = await replica.code()
    both = [each.sessions.redeem(code, CLIENT.id) for each in (replica, world.replica())]
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert any(isinstance(outcome, SessionRefused) for outcome in outcomes)
    assert await replica.sign_ins.of(key_of()) == []


async def test_a_code_expires(world: SessionWorld, replica: Replica) -> None:
    code = await replica.code()
    world.later(CODE_SECONDS)
    assert "expired" in await refusal_of(replica, code)


async def test_a_code_is_of_no_use_to_another_client_and_stays_good(replica: Replica) -> None:
    code = await replica.code()
    assert "another client" in await refusal_of(replica, code, "https://evil.example/client.json")
    assert (await replica.sessions.redeem(code, CLIENT.id)).refresh_token


async def test_texts_that_the_gateway_has_not_made_are_refused(replica: Replica) -> None:
    issued, code = await replica.sign_in(), await replica.code()
    for text in ("", "x", "é", "A" * 3_000, issued.refresh_token, code[:-2] + "AA"):
        assert "unknown" in await refusal_of(replica, text)
    for text in (code, issued.refresh_token[:-2] + "AA"):
        with pytest.raises(SessionRefused, match="unknown"):
            await replica.refresh(text)


async def test_a_sign_in_beyond_the_limit_ends_the_session_that_was_not_used_for_the_longest_time(
    world: SessionWorld, replica: Replica
) -> None:
    issued = []
    for _ in range(MAX_SESSIONS):
        issued.append(await replica.sign_in())
        world.later(1)
    await replica.refresh(issued[0].refresh_token)
    await replica.sign_in("ben")
    await replica.begin_session()
    sessions = {session.id for session in await replica.sign_ins.of(key_of())}
    assert issued[0].session.id in sessions
    assert issued[1].session.id not in sessions
    assert len(sessions) == MAX_SESSIONS - 1


async def test_sessions_of_a_person_have_room_in_bytes_and_those_unused_for_longest_make_way(
    world: SessionWorld, replica: Replica
) -> None:
    who = person(groups=["g" * 2_800])
    issued = []
    for _ in range(MAX_SESSIONS):
        world.later(1)
        issued.append(await replica.sign_in(who=who))
    left = [session.id for session in await replica.sign_ins.of(key_of())]
    assert 20 < len(left) < MAX_SESSIONS
    assert left == [each.session.id for each in reversed(issued)][: len(left)]
    grants = [grant for _, grant in await replica.store.of_person(key_of())]
    assert sum(len(msgspec.json.encode(grant)) for grant in grants) <= MAX_SESSIONS_BYTES + 1_000


async def test_consents_of_a_person_have_room_in_bytes_and_the_oldest_make_way(
    world: SessionWorld, replica: Replica
) -> None:
    for number in range(30):
        world.later(1)
        client = msgspec.structs.replace(CLIENT, id=f"https://claude.ai/{number:02}/{'c' * 1_000}")
        await replica.sessions.consent((await replica.begin_session(client=client)).session, client)
    stored = [grant for key, grant in await replica.store.of_person(key_of()) if key.server.startswith("consent:")]
    assert sum(len(msgspec.json.encode(grant)) for grant in stored) <= MAX_CONSENT_BYTES
    assert {grant.client_id[18:20] for grant in stored} == {f"{number:02}" for number in range(30 - len(stored), 30)}


async def test_sign_ins_without_consent_do_not_end_sessions(world: SessionWorld, replica: Replica) -> None:
    issued = await replica.sign_in()
    for _ in range(2 * MAX_SESSIONS):
        world.later(1)
        await replica.begin_session()
    assert [session.id for session in await replica.sign_ins.of(key_of())] == [issued.session.id]
    assert len(await replica.store.of_person(key_of())) == MAX_SESSIONS


async def test_a_person_with_too_many_groups_is_told_so(replica: Replica) -> None:
    groups = [f"group-{number:06}" for number in range(300)]
    with pytest.raises(SessionRefused, match=f"{MAX_CLAIMS_BYTES} can be stored.*leave groups"):
        await replica.begin_session(who=person(groups=groups))
    assert await replica.store.of_person(key_of()) == []


async def test_a_request_that_is_too_long_is_told_so(replica: Replica) -> None:
    access = msgspec.structs.replace(ACCESS, resource=f"{HERE}/{'x' * MAX_SESSION_BYTES}")
    with pytest.raises(SessionRefused, match="too long"):
        await replica.begin_session(access=access)


def test_a_session_whose_refresh_token_is_too_long_is_not_renewed() -> None:
    grant = new_session(person(), CLIENT, ACCESS, ProviderGrant("r" * (MAX_REFRESH_BYTES + 1)), TIMES, NOW)
    assert grant.refresh_token == ""
    assert grant.session is not None
    assert grant.session.ends_at == NOW + TIMES.unrenewed


def test_the_largest_session_can_be_stored() -> None:
    claims = {"groups": ["g" * (MAX_CLAIMS_BYTES - 20)]}
    who = msgspec.structs.replace(person(), claims=claims)
    assert new_session(who, CLIENT, ACCESS, ProviderGrant("r" * MAX_REFRESH_BYTES), TIMES, NOW).fits


async def test_a_session_ends_when_it_is_ended(replica: Replica) -> None:
    issued = await replica.sign_in()
    assert await replica.sessions.end(key_of(), issued.session.id)
    assert not await replica.sessions.end(key_of(), issued.session.id)
    with pytest.raises(SessionRefused):
        await replica.refresh(issued.refresh_token)


async def test_a_session_is_ended_by_its_own_person_alone(replica: Replica) -> None:
    issued = await replica.sign_in()
    assert not await replica.sessions.end(key_of("ben"), issued.session.id)
    assert await replica.sign_ins.of(key_of())


async def test_a_client_revokes_its_refresh_token(replica: Replica) -> None:
    issued = await replica.sign_in()
    for text in ("", "no token", issued.refresh_token[:-2]):
        await replica.sessions.revoke(text, CLIENT.id)
    await replica.sessions.revoke(issued.refresh_token, "another client")
    assert await replica.sign_ins.of(key_of())
    await replica.sessions.revoke(issued.refresh_token, CLIENT.id)
    assert not await replica.sign_ins.of(key_of())


async def is_consented(replica: Replica, subject: str = "ada", **client: str) -> bool:
    begun = await replica.begin_session(subject, client=msgspec.structs.replace(CLIENT, **client))
    return begun.has_consent


async def test_a_person_consents_once_until_the_client_changes(world: SessionWorld, replica: Replica) -> None:
    begun = await replica.begin_session()
    assert not begun.has_consent
    await replica.sessions.consent(begun.session, CLIENT)
    assert await is_consented(world.replica())
    assert not await is_consented(replica, digest="d2")
    assert not await is_consented(replica, id="https://evil.example/client.json")
    assert not await is_consented(replica, "ben")


@pytest.mark.parametrize(
    ("access", "covered"),
    [
        ({"redirect_uri": "https://claude.ai/other"}, True),
        ({"redirect_uri": "https://evil.example/callback"}, False),
        ({"redirect_uri": "cursor://claude.ai/callback"}, False),
        ({"scopes": ()}, True),
        ({"scopes": ("tools", "admin")}, False),
        ({"resource": f"{HERE}/mcp/fast"}, True),
        ({"resource": f"{HERE}/mcps"}, False),
        ({"resource": HERE}, False),
    ],
)
async def test_a_consent_covers_host_scopes_and_resource(
    replica: Replica, access: dict[str, str], covered: bool
) -> None:
    await replica.sessions.consent((await replica.begin_session()).session, CLIENT)
    begun = await replica.begin_session(access=msgspec.structs.replace(ACCESS, **access))
    assert begun.has_consent is covered


async def test_sessions_and_consents_that_are_over_are_deleted(world: SessionWorld, replica: Replica) -> None:
    await replica.begin_session()
    issued = await replica.sign_in("ben")
    await replica.sessions.consent(issued.session, CLIENT)
    expired = ExpiredSessions(replica.store, replica.ends, world.clock)
    world.later(WAITING_SECONDS)
    await expired.check()
    left = {key.server.partition(":")[0] for key, _ in await replica.store.all_grants()}
    assert left == {"session", "consent", "token-keys"}
    assert await replica.store.of_person(key_of()) == []
    world.later(366 * 86_400)
    await expired.check()
    assert [key for key, _ in await replica.store.all_grants()] == [GrantKey(b"", "token-keys")]


class _AwayStore(MemoryGrants):
    async def read(self, key: GrantKey) -> None:
        raise GrantStoreError("the store does not respond: try again in a moment")


async def test_a_store_that_is_away_is_told_so() -> None:
    async with SessionWorld(_AwayStore) as world:
        with pytest.raises(SessionStoreUnavailable, match="does not respond"):
            await world.replica().sign_in()


def test_a_session_is_over_at_the_end_of_its_state_or_its_own() -> None:
    grant = new_session(person(), CLIENT, ACCESS, ProviderGrant(), TIMES, NOW)
    assert not has_ended(grant, NOW)
    assert has_ended(grant, NOW + WAITING_SECONDS)
