"""Access tokens that the gateway itself issued: the identity in a token, and forged tokens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from fairlead_authorization.sessions.access_tokens import AccessTokens
from fairlead_authorization.sessions.ended_sessions import LOOKS, EndedSessions
from fairlead_authorization.sessions.expired_sessions import ExpiredSessions
from fairlead_authorization.sessions.session import ClientSession
from fairlead_authorization.sessions.session_ends import PREFIX
from fairlead_authorization.sessions.session_record import session_key
from fairlead_authorization.sessions.signing_keys import SigningKeys
from fairlead_gateway.core.identity import Identity, ServiceAccount
from fairlead_gateway.grants.reviewed_changes import ReviewedChanges
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_gateway.identity.own_tokens import ENDED, MAX_ENDED, MAX_SECONDS, SKEW_SECONDS, OwnTokens, SessionOfToken
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.identity.token_identity import service_account_identity
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, VersionedGrant
from sessionworld import ACCESS, HERE, ISSUER, NOW, SessionWorld, key_of, person
from virtualtime import HandClock
from waiting import eventually

PROVIDER = Issuer(issuer=ISSUER, name="corp", agent_claims=("azp",))
SESSION = ClientSession(
    id="s1",
    person=person("ada/x", azp="portal"),
    client_id="https://claude.ai/client.json",
    agent="claude.ai/client.json",
    access=ACCESS,
    began_at=NOW,
    used_at=NOW,
    ends_at=NOW + 86_400,
)


class Door(NamedTuple):
    """An authenticator of the gateway's tokens, and the issuer of the tokens."""

    clock: HandClock
    keys: SigningKeys
    tokens: AccessTokens
    own: OwnTokens

    async def issue(self, **session: Any) -> str:
        return (await self.tokens.issue(msgspec.structs.replace(SESSION, **session))).value

    async def forge(self, header: dict[str, Any] | None = None, key: ECKey | None = None, **claims: Any) -> str:
        """A token with changed members, signed with the gateway's key or with `key`."""
        signer = await self.keys.signer()
        mine = {"iss": HERE, "aud": ACCESS.resource, "iat": NOW, "exp": NOW + 60, "fairlead_person": _PERSON, **claims}
        parts = {name: value for name, value in mine.items() if value is not None}
        head = {"alg": "ES256", "typ": "at+jwt", "kid": signer.id, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(head, parts, key or signer.key, algorithms=["ES256"])


_PERSON = {"iss": ISSUER, "sub": "ada"}


@pytest.fixture
async def door() -> Door:
    clock = HandClock(NOW)
    keys = SigningKeys(MemoryGrants(), clock, clock)
    await keys.signer()
    return Door(clock, keys, AccessTokens(HERE, keys, now=clock), OwnTokens(HERE, keys, [PROVIDER], now=clock))


def accept(door: Door, token: str) -> Identity:
    assert door.own.recognizes(token)
    verdict = door.own.check(token)
    assert isinstance(verdict, Identity)
    return verdict


def refusal(door: Door, token: str) -> CredentialRefusal:
    verdict = door.own.check(token)
    assert isinstance(verdict, CredentialRefusal)
    return verdict


async def test_a_token_is_the_person_of_the_provider_with_the_clients_agent(door: Door) -> None:
    identity = accept(door, await door.issue())
    assert identity.principal == f"jwt:{ISSUER}#ada%2Fx/claude.ai%2Fclient.json"
    assert (identity.agent, identity.groups) == ("claude.ai/client.json", frozenset({"players"}))
    assert (identity.issuers, identity.resource, identity.scopes) == ((ISSUER, "corp"), "/mcp", frozenset({"tools"}))
    assert identity.claims == {"groups": ["players"], "azp": "portal", "iss": ISSUER, "sub": "ada/x"}
    assert identity.person == key_of("ada/x")
    assert identity.expires_at == NOW + MAX_SECONDS


async def test_a_token_gives_what_a_login_at_the_provider_gives(door: Door) -> None:
    direct = Tokens([PROVIDER], address=HERE, now=door.clock, clock=door.clock)
    claims = {
        **SESSION.person.claims,
        "iss": ISSUER,
        "sub": "ada/x",
        "aud": HERE,
        "exp": NOW + 60,
        "azp": SESSION.agent,
    }
    login = direct._check_claims(claims, PROVIDER, "c")
    identity = accept(door, await door.issue())
    assert isinstance(login, Identity)
    for name in ("principal", "agent", "groups", "issuers", "doubtful", "person", "owner"):
        assert getattr(identity, name) == getattr(login, name), name


async def test_a_token_of_a_workload_is_refused_where_none_are_exchanged_any_more(door: Door) -> None:
    workload = service_account_identity(ServiceAccount("shop", "npc"), ("npcs",), "u1", NOW + 60)
    token = (await door.tokens.issue_to_workload(workload, f"{HERE}/mcp")).value
    assert "ServiceAccounts" in refusal(door, token).message
    allowing = OwnTokens(HERE, door.keys, [PROVIDER], workloads=True, scopes=["tools"], now=door.clock)
    identity = allowing.check(token)
    assert isinstance(identity, Identity)
    assert (identity.principal, identity.groups, identity.resource) == ("sa:shop/npc", frozenset({"npcs"}), "/mcp")
    assert identity.expires_at == NOW + 60
    assert identity.issued_here
    for member in ({"name": "npc"}, "shop/npc", None):
        forged = await door.forge(fairlead_workload=member or [])
        assert isinstance(allowing.check(forged), CredentialRefusal)


async def test_tokens_of_clients_that_chose_their_name_have_no_agent(door: Door) -> None:
    identity = accept(door, await door.issue(agent=None))
    assert (identity.agent, identity.principal) == (None, f"jwt:{ISSUER}#ada%2Fx/")


@pytest.mark.parametrize(
    ("resource", "path"),
    [(HERE, ""), (f"{HERE}/", ""), (f"{HERE}/servers/a/b/mcp", "/servers/a/b/mcp"), (f"{HERE}/a+b@(c)", "/a+b@(c)")],
)
async def test_a_token_is_for_its_resource(door: Door, resource: str, path: str) -> None:
    access = msgspec.structs.replace(ACCESS, resource=resource)
    assert accept(door, await door.issue(access=access)).resource == path


async def test_a_token_does_not_outlive_its_session(door: Door) -> None:
    issued = await door.tokens.issue(msgspec.structs.replace(SESSION, ends_at=NOW + 90))
    assert issued.expires_in == 90
    door.clock.now += 90
    assert "expired" in refusal(door, issued.value).message


async def test_a_token_can_have_fewer_scopes_than_its_session(door: Door) -> None:
    token = (await door.tokens.issue(SESSION, ())).value
    assert accept(door, token).scopes == frozenset()
    own = OwnTokens(HERE, door.keys, [PROVIDER], scopes=["tools"], now=door.clock)
    verdict = own.check(token)
    assert isinstance(verdict, CredentialRefusal)
    assert (verdict.status, verdict.error_code) == (403, "insufficient_scope")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "https://other.example/mcp"}, "audience"),
        ({"aud": f"{HERE}.evil.example/mcp"}, "audience"),
        ({"aud": [ACCESS.resource]}, "audience"),
        ({"aud": [ACCESS.resource, "https://other.example"]}, "audience"),
        ({"aud": f"{HERE}/mcp?x=1"}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": ISSUER}, "issuer"),
        ({"exp": None}, "valid JWT"),
        ({"exp": NOW}, "expired"),
        ({"exp": "never"}, "valid JWT"),
        ({"iat": None}, "valid JWT"),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"fairlead_person": None}, "valid JWT"),
        ({"fairlead_person": "ada"}, "valid JWT"),
        ({"fairlead_person": {"iss": ISSUER}}, "subject"),
        ({"fairlead_person": {"iss": ISSUER, "sub": ""}}, "subject"),
        ({"fairlead_person": {"iss": "https://gone.example", "sub": "ada"}}, "provider"),
        ({"fairlead_agent": 7}, "valid JWT"),
        ({"sid": 7}, "valid JWT"),
    ],
)
async def test_a_token_with_other_claims_is_refused(door: Door, claims: dict[str, Any], why: str) -> None:
    accept(door, await door.forge())
    refused = refusal(door, await door.forge(**claims))
    assert why in refused.message
    assert (refused.status, refused.error_code) == (401, "invalid_token")


@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": "id_token"}, {"typ": None}])
async def test_a_token_of_another_type_is_refused(door: Door, header: dict[str, Any]) -> None:
    assert "typ or alg" in refusal(door, await door.forge(header)).message


async def test_a_token_by_another_key_is_refused(door: Door) -> None:
    mine = ECKey.generate_key("P-256")
    assert "signature" in refusal(door, await door.forge(key=mine)).message
    unknown = await door.forge({"kid": "mine", "jwk": mine.as_dict(private=False)}, mine)
    assert door.own.check(unknown) is None
    assert "does not publish" in str(await door.own.look_up(unknown))
    without = await door.forge({"kid": None})
    assert "valid JWT" in refusal(door, without).message


async def test_an_unsigned_token_is_refused(door: Door) -> None:
    head, claims, _ = (await door.forge()).split(".")
    for token in (f"{head}.{claims}.", f"eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0Iiwia2lkIjoieCJ9.{claims}."):
        assert isinstance(door.own.check(token), CredentialRefusal)


async def test_tokens_of_others_are_not_wanted(door: Door) -> None:
    for token in ("", "x", "a.b.c", await door.forge(iss=ISSUER), "." * 9_000, f"{await door.forge()}{'x' * 9_000}"):
        assert not door.own.recognizes(token)


async def test_a_token_by_a_key_that_another_replica_made_is_looked_up() -> None:
    store, clock = MemoryGrants(), HandClock(NOW)
    token = (await AccessTokens(HERE, SigningKeys(store, clock, clock), now=clock).issue(SESSION)).value
    own = OwnTokens(HERE, SigningKeys(store, clock, clock), [PROVIDER], now=clock)
    assert own.check(token) is None
    assert isinstance(await own.look_up(token), Identity)


async def test_the_session_of_a_token_is_that_of_a_valid_one_alone() -> None:
    store, clock = MemoryGrants(), HandClock(NOW)
    token = (await AccessTokens(HERE, SigningKeys(store, clock, clock), now=clock).issue(SESSION)).value
    own = OwnTokens(HERE, SigningKeys(store, clock, clock), [PROVIDER], now=clock)
    assert await own.session_of(token) == SessionOfToken(key_of("ada/x"), SESSION.id, SESSION.client_id)
    head, claims, _ = token.split(".")
    assert await own.session_of(f"{head}.{claims}.AAAA") is None
    clock.now += MAX_SECONDS
    assert await own.session_of(token) is None


async def test_tokens_of_the_gateway_are_not_kept_to_be_exchanged_elsewhere(door: Door) -> None:
    identities = Identities([door.own], anonymous=False, now=door.clock)
    identities.keep_tokens(True)
    identity = await identities.identify(f"Bearer {await door.issue()}".encode())
    assert isinstance(identity, Identity)
    identities.keep_tokens(False)
    identities.keep_tokens(True)
    assert identity.subject_token is None


class _Store(MemoryGrants):
    away = False
    full = False

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        if self.full:
            raise GrantStoreError("the store is full")
        return await super().write(key, grant, replaces)

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        if self.away:
            raise GrantStoreError("the store does not respond")
        return await super().of_person(person)

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        if self.away:
            raise GrantStoreError("the store does not respond")
        return await super().read(key)


async def _come_back(seconds: float) -> None:
    _Store.away = False


@pytest.fixture
async def world() -> AsyncIterator[SessionWorld]:
    store = _Store()
    async with SessionWorld(lambda: store) as made:
        made.clock.now = time.time()
        yield made
    _Store.away = _Store.full = False


async def test_tokens_of_an_ended_session_are_refused_at_once_at_every_replica(world: SessionWorld) -> None:
    replica = world.replica()
    own = OwnTokens(HERE, replica.keys, [PROVIDER], now=world.clock)
    identities = Identities([own], anonymous=False, now=world.clock)
    ended = EndedSessions(replica.store, own.end_session)
    await identities.start()
    await ended.start()
    issued, other = await replica.sign_in(), await replica.sign_in("ben")
    header, another = [
        f"Bearer {(await replica.tokens.issue(each.session)).value}".encode() for each in (issued, other)
    ]
    closed: list[str] = []
    for credential, name in ((header, "ada"), (another, "ben")):
        identity = await identities.identify(credential)
        assert isinstance(identity, Identity)
        identities.watch(identity, partial(closed.append, name))
    await replica.refresh(issued.refresh_token)
    await world.replica().sessions.end(key_of(), issued.session.id)
    await eventually(lambda: closed)
    verdict = await identities.identify(header)
    assert isinstance(verdict, CredentialRefusal)
    assert "has ended" in verdict.message
    assert closed == ["ada"]
    assert isinstance(await identities.identify(another), Identity)
    await ended.aclose()
    await identities.aclose()


async def test_a_session_that_ends_while_the_store_is_away_is_looked_at_again(world: SessionWorld) -> None:
    replica = world.replica()
    issued = await replica.sign_in()
    ended: list[str] = []
    tries = 0

    async def pause(seconds: float) -> None:
        nonlocal tries
        tries += 1
        _Store.away = False

    watch = EndedSessions(replica.store, ended.append, pause)
    await watch.start()
    await eventually(lambda: tries)
    await replica.store.delete(session_key(key_of(), issued.session.id))
    _Store.away, before = True, tries
    await eventually(lambda: ended)
    assert ended == [issued.session.id]
    assert tries > before
    await watch.aclose()


async def test_a_replica_that_starts_rejects_tokens_of_sessions_that_ended_before(world: SessionWorld) -> None:
    replica = world.replica()
    issued, other = await replica.sign_in(), await replica.sign_in()
    token, another = [(await replica.tokens.issue(each.session)).value for each in (issued, other)]
    await replica.sign_ins.end(key_of(), issued.session.id)
    for away in (False, True):
        _Store.away = away
        own = OwnTokens(HERE, replica.keys, [PROVIDER], now=world.clock)
        watch = EndedSessions(replica.store, own.end_session, _come_back)
        await watch.start()
        await eventually(partial(len, own._ended_sessions))
        verdict = own.check(token)
        assert isinstance(verdict, CredentialRefusal)
        assert "has ended" in verdict.message
        assert isinstance(own.check(another), Identity)
        await watch.aclose()


async def test_a_session_that_ends_while_a_store_comes_back_is_noticed(world: SessionWorld) -> None:
    """When the store is reachable again, it reports only later changes."""
    replica = world.replica()
    issued = await replica.sign_in()
    ended: list[str] = []
    pauses = 0

    async def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        _Store.away = False
        if pauses == LOOKS:
            await replica.sign_ins.end(key_of(), issued.session.id)

    _Store.away = True
    watch = EndedSessions(replica.store, ended.append, pause)
    watch._changes = ReviewedChanges(MemoryGrants(), watch._review, "changes of a store that does not tell yet")
    await watch.start()
    await eventually(lambda: ended)
    assert ended == [issued.session.id]
    await watch.aclose()


async def test_an_ended_session_is_remembered_until_its_last_token_has_expired(world: SessionWorld) -> None:
    replica = world.replica()
    issued, begun = await replica.sign_in(), await replica.begin_session("ben")
    await replica.sessions.end(key_of(), issued.session.id)
    await replica.sessions.end(key_of("ben"), begun.session.id)
    expired = ExpiredSessions(replica.store, replica.ends, world.clock)
    await expired.check()
    (left,) = [key for key, _ in await replica.store.of_person(b"") if key.server.startswith(PREFIX)]
    assert left.server == PREFIX + issued.session.id, "a session that nobody consented to has no tokens"
    world.later(MAX_SECONDS + SKEW_SECONDS)
    await expired.check()
    assert left not in [key for key, _ in await replica.store.of_person(b"")]


async def test_a_session_ends_although_its_end_cannot_be_remembered(
    world: SessionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    replica = world.replica()
    issued = await replica.sign_in()
    _Store.full = True
    assert await replica.sessions.end(key_of(), issued.session.id)
    assert replica.ended == [issued.session.id]
    assert "will not know of a client's session that it has ended" in caplog.text


async def test_no_session_of_more_than_are_remembered_comes_back_to_life(door: Door) -> None:
    first, other, whole = await door.issue(id="first"), await door.issue(id="other"), await door.issue(id="")
    door.own.end_session("first")
    door.clock.now += SKEW_SECONDS + 1
    for number in range(MAX_ENDED):
        door.own.end_session(f"s{number}")
    assert len(door.own._ended_sessions) == MAX_ENDED
    assert door.own.check(first) == door.own.check(other) == ENDED, "what is older is refreshed"
    accept(door, whole)  # token without a session
    accept(door, await door.issue(id="other"))


async def test_ended_sessions_are_forgotten_when_their_last_token_has_expired(door: Door) -> None:
    for number in range(10):
        door.own.end_session(f"s{number}")
    door.clock.now += 2 * MAX_SECONDS
    door.own.end_session("last")
    assert list(door.own._ended_sessions) == ["last"]
