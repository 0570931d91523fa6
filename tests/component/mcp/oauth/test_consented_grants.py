"""Access tokens are renewed with users' grants, also if other replicas renew them or consents end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import msgspec
import pytest

from consentissuer import CALLBACK, ConsentWorld, consent_world
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.client_registrations import registration_key
from fairlead_mcp.oauth.consented_clients import MAX_CLIENTS
from fairlead_mcp.oauth.consented_grants import CLAIM_SECONDS, STEADY_SECONDS
from fairlead_mcp.oauth.errors import (
    BAD_ANSWER,
    CONFIGURATION,
    GRANT_STORE,
    INSUFFICIENT_SCOPE,
    INVALID_CLIENT,
    INVALID_TARGET,
    PROVIDER_ERROR,
    SIGN_IN_REQUIRED,
    TOKEN_REFUSED,
    GrantFailed,
)
from fairlead_mcp.oauth.stored_grant import USED_SECONDS, StoredGrant
from fairlead_mcp.oauth.subject import GATEWAY
from fairlead_mcp.oauth.token_source import TokenSource
from rawserver import Reply, Request
from tokenendpoint import token_access
from virtualtime import HandClock


async def failure(
    world: ConsentWorld, name: str, source: TokenSource | None = None, challenge: Challenge | None = None
) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await (source or world.source).obtain(world.person(name), challenge=challenge)
    return failed.value


def refuse_with(error: str, status: int = 400) -> Callable[[Request, Reply], bool]:
    """Handler that answers with this error."""

    def answer(request: Request, reply: Reply) -> bool:
        reply.send(status, json.dumps({"error": error}).encode())
        return True

    return answer


async def wait_for_reads(world: ConsentWorld) -> None:
    """Wait until a replica that waits for another has read the grant several times."""
    async with asyncio.timeout(30):
        for _ in range(3):
            world.store.was_read.clear()
            await world.store.was_read.wait()


async def test_tokens_go_on_after_a_restart_and_each_refresh_token_replaces_the_one_before() -> None:
    async with consent_world() as world:
        grant, first = await world.sign_in("alice")
        tokens = {first.value}
        seen = {grant.refresh_token}
        for _ in range(3):
            token = await world.make_source().obtain(world.person("alice"))
            renewed = await world.grant("alice")
            assert renewed is not None
            assert renewed.refresh_token == world.issuer.consent_of("alice").refresh
            assert (renewed.granted_at, renewed.renewed_at) == (grant.granted_at, world.clock.now)
            assert renewed.renewing_until == 0
            tokens.add(token.value)
            seen.add(renewed.refresh_token)
            world.later(400)
    assert len(tokens) == len(seen) == 4
    assert {form["resource"] for form in world.issuer.requests_of("refresh_token")} == {world.server_url}
    assert len(world.issuer.registrations) == 1


async def test_refresh_token_that_is_not_rotated_stays_with_its_time() -> None:
    async with consent_world() as world:
        world.issuer.rotates = False
        world.issuer.token_members = {"refresh_token_expires_in": 5_000}
        grant, _ = await world.sign_in("alice")
        world.issuer.token_members = {"scope": None}
        world.later(400)
        await world.source.obtain(world.person("alice"))
        renewed = await world.grant("alice")
        assert renewed is not None
        assert msgspec.structs.replace(renewed, steady_until=0.0) == grant
        assert grant.expires_at == grant.granted_at + 5_000
        world.later(5_000)
        error = await failure(world, "alice")
    assert error.cause == SIGN_IN_REQUIRED
    assert "expired" in str(error)


async def test_grant_whose_refresh_token_is_not_rotated_is_not_written_with_each_renewal() -> None:
    async with consent_world() as world:
        world.issuer.rotates = False
        await world.sign_in("alice")
        key = world.key("alice")

        async def renew_at_two_replicas() -> str:
            """Renew at two replicas. Returns the grant's version afterwards."""
            sources = world.make_source(), world.make_source()
            await asyncio.gather(*(source.obtain(world.person("alice")) for source in sources))
            stored = await world.store.read(key)
            assert stored is not None
            return stored.version

        first = await renew_at_two_replicas()
        world.later(400)
        assert await renew_at_two_replicas() == first
        world.later(STEADY_SECONDS)
        day_after = await renew_at_two_replicas()
        assert day_after != first, "so that a new key seals it"
        world.issuer.rotates = True
        await world.make_source().obtain(world.person("alice"))
        rotated = await world.grant("alice")
    assert len(world.issuer.requests_of("refresh_token")) == 7
    assert rotated is not None
    assert rotated.refresh_token == world.issuer.consent_of("alice").refresh
    assert rotated.steady_until == 0


async def test_grant_counts_as_used_by_calls_alone_and_is_written_for_that_once_a_day() -> None:
    async with consent_world() as world:
        world.issuer.rotates = False
        await world.sign_in("alice")

        async def use_grant(*, for_call: bool) -> tuple[float, str]:
            await world.make_source().obtain(world.person("alice"), for_call=for_call)
            stored = await world.store.read(world.key("alice"))
            assert stored is not None
            return stored.grant.used_at, stored.version

        assert (await use_grant(for_call=True))[0] == 0, "the consent is use enough"
        world.later(USED_SECONDS)
        assert (await use_grant(for_call=False))[0] == 0
        began = world.clock.now
        assert (first := await use_grant(for_call=True))[0] == began
        world.later(USED_SECONDS / 2)
        assert await use_grant(for_call=True) == first
        world.later(USED_SECONDS)
        assert (await use_grant(for_call=False))[0] == began
        assert (await use_grant(for_call=True))[0] == world.clock.now


async def test_token_of_a_consent_that_was_just_finished_is_used_at_once() -> None:
    async with consent_world() as world:
        assert (await failure(world, "alice")).cause == SIGN_IN_REQUIRED
        _, token = await world.sign_in("alice")
        world.source.adopt(b"alice", token)
        assert world.source.find_cached(world.person("alice")) == token
        assert await world.source.obtain(world.person("alice")) == token
        assert world.source.find_cached(world.person("bob")) is None
    assert world.issuer.requests_of("refresh_token") == []


async def test_fifty_callers_of_a_person_share_one_renewal_and_others_have_their_own() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        await world.sign_in("bob")
        tokens = await asyncio.gather(
            *(world.source.obtain(world.person(name)) for name in ("alice", "bob") for _ in range(25))
        )
    assert len({token.value for token in tokens}) == 2
    assert len(world.issuer.requests_of("refresh_token")) == 2


async def test_replicas_renew_one_after_the_other_and_nobody_is_signed_out() -> None:
    """The issuer ends a consent whose refresh token comes twice."""
    async with consent_world() as world:
        await world.sign_in("alice")
        sources = [world.make_source() for _ in range(4)]
        tokens = await asyncio.gather(*(source.obtain(world.person("alice")) for source in sources))
        grant = await world.grant("alice")
    assert len({token.value for token in tokens}) == 4
    assert not world.issuer.consent_of("alice").ended
    assert grant is not None
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh


@pytest.mark.parametrize("forgives", [True, False])
async def test_replica_that_was_killed_while_it_renewed_is_waited_for_and_then_replaced(forgives: bool) -> None:
    """The replica was killed after the issuer's answer and before the write to the store. The provider's rules decide
    whether the grant survives."""
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        spent = world.issuer.consent_of("alice")
        world.issuer.spent[spent.refresh] = spent
        spent.refresh = "a token that nobody got"
        world.issuer.forgives = forgives
        claim = msgspec.structs.replace(grant, renewing_until=world.clock.now + CLAIM_SECONDS)
        await world.store.write(world.key("alice"), claim)
        waiting = asyncio.ensure_future(world.source.obtain(world.person("alice")))
        await wait_for_reads(world)
        assert world.issuer.requests_of("refresh_token") == []
        world.later(CLAIM_SECONDS)
        if forgives:
            assert (await waiting).value
        else:
            with pytest.raises(GrantFailed) as failed:
                await waiting
            assert failed.value.cause == SIGN_IN_REQUIRED
            assert await world.grant("alice") is None


@pytest.mark.parametrize("ahead", [-100.0, -20.0, 1.0, 100.0])
async def test_claim_of_a_replica_whose_clock_differs_is_waited_for(ahead: float) -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        claim = msgspec.structs.replace(grant, renewing_until=world.clock.now + ahead + CLAIM_SECONDS)
        await world.store.write(world.key("alice"), claim)
        waiting = asyncio.ensure_future(world.source.obtain(world.person("alice")))
        await wait_for_reads(world)
        assert world.issuer.requests_of("refresh_token") == []
        world.later(CLAIM_SECONDS)
        assert (await waiting).value


@pytest.mark.parametrize("ahead", [-1.0, 1.0])
async def test_replicas_whose_clocks_differ_send_no_refresh_token_twice(ahead: float) -> None:
    """The issuer ends a consent whose refresh token comes twice."""
    async with consent_world() as world:
        await world.sign_in("alice")
        sources = [world.make_source()]
        world.options["clock"] = HandClock(world.clock.now + ahead)
        sources.append(world.make_source())
        first = await world.begin_renewal("alice", sources[1])
        second = asyncio.ensure_future(sources[0].obtain(world.person("alice")))
        await wait_for_reads(world)
        world.answer_renewal()
        tokens = [await first, await second]
    assert len({token.value for token in tokens}) == 2
    assert not world.issuer.consent_of("alice").ended


async def test_claim_that_ends_too_far_in_the_future_holds_nobody_up() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        claim = msgspec.structs.replace(grant, renewing_until=world.clock.now + 1e6)
        await world.store.write(world.key("alice"), claim)
        assert (await world.source.obtain(world.person("alice"))).value


async def test_renewal_goes_on_when_its_callers_are_gone_so_that_its_pair_is_not_lost() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        caller = await world.begin_renewal("alice")
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        again = asyncio.ensure_future(world.source.obtain(world.person("alice")))
        world.answer_renewal()
        assert (await again).value
        grant = await world.grant("alice")
    assert grant is not None
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh
    assert len(world.issuer.requests_of("refresh_token")) == 1


async def test_renewal_that_nobody_waits_for_is_finished_before_the_source_is_closed() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        source = world.make_source()
        caller = await world.begin_renewal("alice", source)
        closing = asyncio.ensure_future(source.aclose())
        with pytest.raises(GrantFailed):
            await caller
        world.answer_renewal()
        await closing
        grant = await world.grant("alice")
    assert grant is not None
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh


async def test_grant_that_the_issuer_refuses_is_deleted_and_the_person_is_asked_to_sign_in() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        world.issuer.consent_of("alice").ended = True
        error = await failure(world, "alice")
        assert await world.grant("alice") is None
        again, _ = await world.sign_in("alice")
        world.source.forget(b"alice")
        assert (await world.source.obtain(world.person("alice"))).value
    assert error.cause == SIGN_IN_REQUIRED
    assert grant.refresh_token not in str(error)
    assert again.refresh_token != grant.refresh_token


async def test_new_consent_outlives_the_refusal_of_the_one_before() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        writing: list[asyncio.Task[object]] = []
        authorization = await world.begin()
        fresh, _ = await world.flow.finish(authorization, world.issuer.browse(authorization.url))

        def refuse_once(request: Request, reply: Reply) -> bool:
            if writing:
                return False
            writing.append(asyncio.get_running_loop().create_task(world.store.write(world.key("alice"), fresh)))
            return refuse_with("invalid_grant")(request, reply)

        world.issuer.answer["/token"] = refuse_once
        assert (await world.source.obtain(world.person("alice"))).value
        stored = await world.grant("alice")
    assert stored is not None
    assert stored.refresh_token == world.issuer.consents[-1].refresh


async def test_grant_that_changes_with_each_renewal_is_given_up_for_now() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        writing: list[asyncio.Task[object]] = []

        def overwrite(request: Request, reply: Reply) -> bool:
            writing.append(asyncio.get_running_loop().create_task(world.store.write(world.key("alice"), grant)))
            reply.send(200, json.dumps({"access_token": "a", "token_type": "Bearer"}).encode())
            return True

        world.issuer.answer["/token"] = overwrite
        error = await failure(world, "alice")
    assert error.cause == GRANT_STORE
    assert len(writing) == 4


async def test_person_without_a_refresh_token_signs_in_when_the_access_token_ends() -> None:
    async with consent_world() as world:
        world.issuer.gives_refresh = False
        grant, token = await world.sign_in("alice")
        world.source.adopt(b"alice", token)
        await world.source.review(b"alice")
        assert world.source.find_cached(world.person("alice")) == token
        world.later(400)
        error = await failure(world, "alice")
    assert grant.refresh_token == ""
    assert error.cause == SIGN_IN_REQUIRED
    assert "no refresh token" in str(error)


async def test_grants_of_persons_are_not_for_callers_that_are_none() -> None:
    async with consent_world() as world:
        with pytest.raises(GrantFailed, match="the caller is not a user") as failed:
            await world.source.obtain(GATEWAY)
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_grant_of_another_issuer_or_client_than_the_settings_have_now_is_not_used() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        other_issuer = world.make_source(issuer="https://login.example.com")
        other_client = world.make_source(client_id="another", client_authentication="none")
        issuer_error = await failure(world, "alice", other_issuer)
        client_error = await failure(world, "alice", other_client)
        registered = msgspec.structs.replace(grant, client_expires_at=world.clock.now)
        await world.store.write(world.key("alice"), registered)
        expired = await failure(world, "alice")
    assert {issuer_error.cause, client_error.cause, expired.cause} == {SIGN_IN_REQUIRED}
    assert world.issuer.url in str(issuer_error)
    assert "https://login.example.com" in str(issuer_error)
    assert "has changed since you signed in" in str(client_error)
    assert world.issuer.requests_of("refresh_token") == []


async def test_token_is_not_renewed_at_an_issuer_that_the_server_does_not_name_any_more() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        world.resource["authorization_servers"] = ["https://login.example.com"]
        error = await failure(world, "alice", challenge=world.challenge)
        world.later(60)
        settings_error = await failure(world, "alice", world.make_source(issuer=world.issuer.url))
    assert error.cause == SIGN_IN_REQUIRED
    assert world.issuer.url in str(error)
    assert "https://login.example.com" in str(error)
    assert settings_error.cause == "issuer_mismatch"
    assert world.issuer.requests_of("refresh_token") == []
    assert grant == await world.grant("alice")


async def test_issuer_that_has_forgotten_its_client_is_signed_in_at_with_a_new_one() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        world.issuer.clients.clear()
        error = await failure(world, "alice")
        assert await world.store.read(registration_key(world.issuer.url, CALLBACK)) is None
        again, _ = await world.sign_in("alice")
    assert error.cause == SIGN_IN_REQUIRED
    assert (grant.client_id, again.client_id) == ("registered-1", "registered-2")


async def test_client_of_the_settings_that_the_issuer_refuses_is_a_matter_of_the_settings() -> None:
    async with consent_world(client_id="made-by-hand", client_authentication="none") as world:
        world.issuer.register("made-by-hand")
        await world.sign_in("alice")
        world.issuer.clients.clear()
        error = await failure(world, "alice")
        grant = await world.grant("alice")
    assert error.cause == INVALID_CLIENT
    assert "clientID" in str(error)
    assert grant is not None
    assert grant.renewing_until == 0


@pytest.mark.parametrize(
    ("error", "status", "cause"),
    [
        ("interaction_required", 400, SIGN_IN_REQUIRED),
        ("login_required", 400, SIGN_IN_REQUIRED),
        ("access_denied", 400, SIGN_IN_REQUIRED),
        ("bad_refresh_token", 200, SIGN_IN_REQUIRED),
        ("invalid_target", 400, INVALID_TARGET),
        ("server_error", 503, PROVIDER_ERROR),
        ("", 404, BAD_ANSWER),
    ],
)
async def test_refused_renewal_leaves_the_grant_for_the_next_one(error: str, status: int, cause: str) -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        world.issuer.answer["/token"] = refuse_with(error, status)
        failed = await failure(world, "alice")
        world.issuer.answer.clear()
        world.later(60)
        assert (await world.source.obtain(world.person("alice"))).value
    assert failed.cause == cause


async def test_server_that_wants_more_access_than_the_person_gave_asks_the_person() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        person = world.person("alice")
        token = await world.source.obtain(person)
        more = Challenge("insufficient_scope", ("write",))
        with pytest.raises(GrantFailed, match="more access") as failed:
            await world.source.obtain(person, refused_token=token, challenge=more)
        grant, fresh = await world.sign_in("alice", challenge=more, scopes=frozenset(token.scopes))
        world.source.adopt(b"alice", fresh)
        assert await world.source.obtain(person, refused_token=token, challenge=more) == fresh
        with pytest.raises(GrantFailed) as enough:
            await world.source.obtain(person, refused_token=fresh, challenge=more)
    assert failed.value.cause == SIGN_IN_REQUIRED
    assert grant.scopes == ("read", "write")
    assert enough.value.cause == INSUFFICIENT_SCOPE


async def test_more_access_that_was_given_at_another_replica_is_found_in_the_store() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        person = world.person("alice")
        token = await world.source.obtain(person)
        more = Challenge("insufficient_scope", ("write",))
        await world.sign_in("alice", challenge=more, scopes=frozenset(token.scopes))
        fresh = await world.source.obtain(person, refused_token=token, challenge=more)
    assert fresh.scopes == {"read", "write"}


async def test_renewal_in_progress_does_not_answer_a_caller_who_needs_more_scopes() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        person = world.person("alice")
        token = await world.source.obtain(person)
        world.source.forget(b"alice")
        world.issuer.arrived.clear()
        world.issuer.hold = asyncio.Event()
        plain = asyncio.ensure_future(world.source.obtain(person))
        await world.issuer.arrived.wait()
        more = Challenge("insufficient_scope", ("write",))
        stepping = asyncio.ensure_future(world.source.obtain(person, refused_token=token, challenge=more))
        await asyncio.sleep(0)
        world.answer_renewal()
        assert (await plain).scopes == {"read"}
        with pytest.raises(GrantFailed) as failed:
            await stepping
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_token_that_the_server_refuses_is_renewed_once() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        person = world.person("alice")
        token = await world.source.obtain(person)
        fresh = await world.source.obtain(person, refused_token=token, challenge=Challenge(scopes=("read", "write")))
        with pytest.raises(GrantFailed) as failed:
            await world.source.obtain(person, refused_token=fresh, challenge=Challenge())
    assert fresh.value != token.value
    assert failed.value.cause == TOKEN_REFUSED
    assert len(world.issuer.requests_of("refresh_token")) == 2


async def test_clients_of_many_registrations_do_not_keep_their_connections() -> None:
    async with consent_world() as world:
        for number in range(MAX_CLIENTS + 2):
            uri = f"{CALLBACK}/{number}"
            authorization = await world.flow.begin(uri, challenge=world.challenge)
            grant, _ = await world.flow.finish(authorization, world.issuer.browse(authorization.url))
            await world.store.write(world.key(f"p{number}"), grant)
            assert (await world.source.obtain(world.person(f"p{number}"))).value
    assert len(world.issuer.registrations) == MAX_CLIENTS + 2


@pytest.mark.parametrize(
    "settings",
    [
        OAuthSettings(grant=USER_CONSENT, client_id="c", issuer="https://login.example.com"),
        OAuthSettings(grant=USER_CONSENT, token_url="https://login.example.com/token"),
    ],
)
async def test_unusable_settings_and_a_source_without_a_store_say_so(settings: OAuthSettings) -> None:
    async with consent_world() as world:
        broken = TokenSource(settings, Credential(), token_access())
        error = await failure(world, "alice", broken)
        await broken.review(b"alice")
        await broken.aclose()
        without = TokenSource(OAuthSettings(grant=USER_CONSENT), Credential(), token_access())
        unknown = await failure(world, "alice", without)
        await without.aclose()
    assert error.cause == CONFIGURATION
    assert unknown.cause == SIGN_IN_REQUIRED


def test_grant_with_a_claim_is_written_and_read_as_json() -> None:
    grant = StoredGrant("https://login.example.com", "c", renewing_until=5.0, redirect_uri="a")
    text = msgspec.json.encode(grant)
    assert b"renewingUntil" in text
    assert msgspec.json.decode(text, type=StoredGrant) == grant
