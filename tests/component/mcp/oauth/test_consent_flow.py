"""Users sign in at a server: discovery of its authorization server, the gateway's client, and the requested scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from consentissuer import CALLBACK, ConsentWorld, consent_world
from fairlead_api.documents.catalog import Credential
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.client_registrations import registration_key
from fairlead_mcp.oauth.consent import Authorization, ConsentFlow
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    CONFIGURATION,
    DISCOVERY,
    GRANT_STORE,
    HOST_NOT_ALLOWED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_TARGET,
    PROVIDER_ERROR,
    GrantFailed,
)
from fairlead_mcp.oauth.stored_grant import StoredGrant
from rawserver import Reply, Request

HAND = "made-by-hand"


async def begin_failure(world: ConsentWorld, flow: ConsentFlow | None = None, **options: Any) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await world.begin(flow, **options)
    return failed.value


async def sign_in(world: ConsentWorld, flow: ConsentFlow) -> tuple[Authorization, dict[str, str]]:
    """Complete an authorization without a challenge. Returns its outcome."""
    authorization = await flow.begin(CALLBACK)
    return authorization, world.issuer.browse(authorization.url)


async def finish_failure(world: ConsentWorld, authorization: Authorization, **answer: str) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await world.flow.finish(authorization, {**world.issuer.browse(authorization.url), **answer})
    return failed.value


async def test_person_signs_in_with_nothing_but_the_servers_challenge() -> None:
    async with consent_world() as world:
        grant, token = await world.sign_in("alice")
        request = world.issuer.authorizations[0]
        redeemed = world.issuer.requests_of("authorization_code")[0]
        registered = world.issuer.registrations
    assert (grant.issuer, grant.client_id, grant.scopes) == (world.issuer.url, "registered-1", ("read",))
    assert grant.refresh_token == world.issuer.consent_of("alice").refresh
    assert grant.granted_at == grant.renewed_at == world.clock.now
    assert token.scopes == {"read"}
    assert request["resource"] == redeemed["resource"] == grant.resource == world.server_url
    assert (request["scope"], request["redirect_uri"]) == ("read", CALLBACK)
    assert registered[0]["application_type"] == "native"
    assert registered[0]["token_endpoint_auth_method"] == "none"


async def test_authorization_survives_as_json_until_the_browser_comes_back_at_another_replica() -> None:
    async with consent_world() as world:
        text = msgspec.json.encode(await world.begin())
        authorization = msgspec.json.decode(text, type=Authorization)
        grant, _ = await world.make_flow().finish(authorization, world.issuer.browse(authorization.url))
    assert grant.refresh_token
    for secret in (authorization.state, authorization.verifier, grant.refresh_token):
        assert secret not in repr(authorization) + repr(grant)


async def test_challenge_is_asked_for_where_nobody_has_seen_it() -> None:
    async with consent_world() as world:
        world.metadata_paths.clear()
        world.metadata_paths.add("/about")
        about = world.server_url.replace("/mcp", "/about")
        world.unauthorized.append(f'Bearer resource_metadata="{about}", scope="list"')
        authorization = await world.flow.begin(CALLBACK)
        assert (authorization.issuer, authorization.scopes) == (world.issuer.url, ("list",))
        world.unauthorized.append("Basic")
        error = await begin_failure(world, challenge=None)
        world.server_url = world.server_url.replace("127.0.0.1", "169.254.169.254")
        denied = await begin_failure(world, world.make_flow(), challenge=None)
    assert error.cause == DISCOVERY
    assert denied.cause == HOST_NOT_ALLOWED


async def test_server_without_metadata_has_its_issuer_at_its_own_origin() -> None:
    async with consent_world() as world:
        world.resource.clear()
        origin = world.server_url.removesuffix("/mcp")
        error = await begin_failure(world)
        world.server_url = world.issuer.url + "/mcp"
        own, _ = await world.make_flow().finish(*await sign_in(world, world.make_flow()))
    assert own.issuer == world.issuer.url
    assert error.cause == DISCOVERY
    assert f"the issuer {origin} publishes no metadata" in str(error)


async def test_issuer_that_the_server_names_with_a_slash_more_is_the_same() -> None:
    async with consent_world() as world:
        world.resource["authorization_servers"] = [world.issuer.url + "/"]
        grant, _ = await world.sign_in("alice")
        world.later(400)
        await world.source.obtain(world.person("alice"), challenge=world.challenge)
    assert grant.issuer == world.issuer.url


@pytest.mark.parametrize(
    ("settings", "challenge", "resource", "offline", "more", "expected"),
    [
        ((), (), ("a", "b"), False, (), "a b"),
        ((), ("c",), ("a", "b"), False, (), "c"),
        (("s",), ("c",), ("a", "b"), True, (), "s"),
        ((), (), (), True, (), None),
        ((), (), ("a",), True, (), "a offline_access"),
        (("s",), (), (), False, ("y", "x"), "s x y"),
    ],
)
async def test_scopes_are_those_of_the_settings_else_the_challenges_else_the_servers_metadata(
    settings: tuple[str, ...],
    challenge: tuple[str, ...],
    resource: tuple[str, ...],
    offline: bool,
    more: tuple[str, ...],
    expected: str | None,
) -> None:
    async with consent_world(scopes=settings) as world:
        world.resource["scopes_supported"] = list(resource)
        world.issuer.metadata["scopes_supported"] = ["offline_access"] if offline else None
        authorization = await world.begin(challenge=Challenge(scopes=challenge), scopes=frozenset(more))
        world.issuer.browse(authorization.url)
        request = world.issuer.authorizations[0]
    assert request.get("scope") == expected
    assert request.get("prompt") == ("consent" if expected == "a offline_access" else None)


async def test_server_that_wants_more_gets_its_scopes_besides_those_of_the_settings() -> None:
    async with consent_world(scopes=("read",)) as world:
        challenge = Challenge("insufficient_scope", ("write",))
        authorization = await world.begin(challenge=challenge, scopes=frozenset({"list"}))
    assert authorization.scopes == ("read", "write", "list")


async def test_parameters_of_the_settings_go_with_the_authorization_request_and_replace_only_prompt() -> None:
    parameters = {"access_type": "offline", "prompt": "login"}
    async with consent_world(audience="api", resource="https://tools.example.com") as world:
        world.issuer.metadata["scopes_supported"] = ["offline_access"]
        world.issuer.metadata["authorization_endpoint"] = world.issuer.url + "/authorize?tenant=t&state=f"
        flow = world.make_flow(parameters=parameters)
        authorization = await world.begin(flow)
        await flow.finish(authorization, world.issuer.browse(authorization.url))
        error = await begin_failure(world, world.make_flow(parameters={"client_id": "another"}))
        request, redeemed = world.issuer.authorizations[0], world.issuer.token_requests[0]
    assert {name: request[name] for name in ("access_type", "prompt", "audience", "tenant")} == {
        "access_type": "offline",
        "prompt": "login",
        "audience": "api",
        "tenant": "t",
    }
    assert request["state"] == authorization.state
    assert request["resource"] == redeemed["resource"] == "https://tools.example.com"
    assert "access_type" not in redeemed
    assert error.cause == CONFIGURATION


async def test_client_of_the_settings_is_used_and_never_another_registered() -> None:
    secret = Credential(client_secret="a secret")
    async with consent_world(credential=secret, client_id=HAND, issuer="later") as world:
        world.issuer.register(HAND, client_secret="a secret")
        flow = world.make_flow(issuer=world.issuer.url)
        authorization = await world.begin(flow)
        grant, _ = await flow.finish(authorization, world.issuer.browse(authorization.url))
        assert await flow.revoke(grant)
    assert (grant.client_id, grant.client_secret) == (HAND, "")
    assert world.issuer.registrations == []
    assert world.issuer.revoked == [grant.refresh_token]


async def test_public_client_of_the_settings_needs_no_issuer_in_them() -> None:
    async with consent_world(client_id=HAND, client_authentication="none") as world:
        world.issuer.register(HAND)
        grant, _ = await world.sign_in("alice")
    assert (grant.issuer, grant.client_id) == (world.issuer.url, HAND)


async def test_endpoints_of_the_settings_are_used_without_any_discovery() -> None:
    async with consent_world(client_id=HAND, client_authentication="none") as world:
        world.issuer.register(HAND)
        world.issuer.redirect = {"iss": None}
        url = world.issuer.url
        flow = world.make_flow(authorization_url=url + "/authorize", token_url=url + "/token")
        authorization = await world.begin(flow)
        grant, _ = await flow.finish(authorization, world.issuer.browse(authorization.url))
        assert not await flow.revoke(grant)
    assert grant.issuer == url + "/token"
    assert grant.resource == world.server_url
    assert {request.path for request in world.issuer.received} == {"/token"}
    assert world.requests == []


async def test_document_about_the_client_is_its_id_where_the_issuer_reads_documents() -> None:
    document = "https://gateway.example.com/oauth/client.json"
    async with consent_world() as world:
        plain = await world.begin(client_document_url=document)
        world.issuer.metadata["client_id_metadata_document_supported"] = True
        authorization = await world.begin(client_document_url=document)
        world.issuer.register(document)
        grant, _ = await world.flow.finish(authorization, world.issuer.browse(authorization.url))
    assert plain.client_id == "registered-1"
    assert (grant.client_id, grant.client_authentication) == (document, "none")
    assert len(world.issuer.registrations) == 1


async def test_registration_is_shared_by_all_persons_and_replicas_of_one_redirect_uri() -> None:
    async with consent_world() as world:
        clients = {
            authorization.client_id for authorization in await asyncio.gather(*(world.begin() for _ in range(9)))
        }
        clients.add((await world.begin(world.make_flow())).client_id)
        other = await world.flow.begin("https://gateway.example.com/callback", challenge=world.challenge)
        stored = await world.store.read(registration_key(world.issuer.url, CALLBACK))
    assert clients == {"registered-1"}
    assert other.client_id == "registered-2"
    assert world.issuer.registrations[1]["application_type"] == "web"
    assert stored is not None
    assert stored.grant.client_id == "registered-1"


async def test_authorization_has_a_new_client_when_the_secret_of_the_old_expires() -> None:
    async with consent_world() as world:
        world.issuer.metadata["token_endpoint_auth_methods_supported"] = None
        world.issuer.registration = {"client_secret_expires_at": int(world.clock.now) + 1_000}
        grant, _ = await world.sign_in("alice")
        world.later(999)
        assert (await world.begin()).client_id == grant.client_id
        world.later(2)
        assert (await world.begin()).client_id == "registered-2"
    assert (grant.client_authentication, bool(grant.client_secret)) == ("client_secret_basic", True)
    assert grant.client_expires_at > 0


async def test_authorization_has_a_new_client_when_the_issuer_has_forgotten_the_old() -> None:
    async with consent_world() as world:
        authorization = await world.begin()
        answer = world.issuer.browse(authorization.url)
        world.issuer.clients.clear()
        with pytest.raises(GrantFailed) as failed:
            await world.flow.finish(authorization, answer)
        grant, _ = await world.sign_in("alice")
    assert failed.value.cause == INVALID_CLIENT
    assert grant.client_id == "registered-2"


async def test_authorization_is_not_sent_with_a_client_that_the_issuer_has_forgotten() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        world.issuer.clients.clear()
        grant, _ = await world.sign_in("bob")

        def fail(request: Request, reply: Reply) -> bool:
            reply.send(503)
            return True

        world.issuer.answer["/token"] = fail
        still = await world.begin()
        world.issuer.answer["/token"] = lambda request, reply: answer_token(reply)
        odd = await world.begin()
    assert grant.client_id == still.client_id == odd.client_id == "registered-2"


def answer_token(reply: Reply) -> bool:
    """Answer with a token for any code."""
    reply.send(200, b'{"access_token":"a","token_type":"Bearer"}')
    return True


async def test_registration_of_a_faster_replica_is_used_by_all() -> None:
    async with consent_world() as world:
        faster = StoredGrant(world.issuer.url, "faster")
        slower = StoredGrant(world.issuer.url, "elsewhere", client_expires_at=1.0)
        key = registration_key(world.issuer.url, CALLBACK)
        writing: list[asyncio.Task[str | None]] = []

        def register_elsewhere(grant: StoredGrant) -> Callable[[Request, Reply], bool]:
            def answer(request: Request, reply: Reply) -> bool:
                writing.append(asyncio.get_running_loop().create_task(world.store.write(key, grant)))
                reply.send(201, b'{"client_id":"own"}')
                return True

            return answer

        world.issuer.answer["/register"] = register_elsewhere(faster)
        assert (await world.begin()).client_id == "faster"
        await world.store.delete(key)
        world.issuer.answer["/register"] = register_elsewhere(slower)
        assert (await world.begin()).client_id == "own"


async def test_issuer_that_registers_nobody_is_told_with_the_redirect_uri_to_register() -> None:
    async with consent_world() as world:
        world.issuer.metadata["registration_endpoint"] = None
        error = await begin_failure(world)
        world.issuer.metadata["registration_endpoint"] = "http://login.example.com/register"
        insecure = await begin_failure(world)
        world.issuer.metadata["registration_endpoint"] = "https://u:p@login.example.com/register"
        odd = await begin_failure(world)
    assert error.cause == CONFIGURATION
    assert "http://localhost:8765/callback" in str(error)
    assert "oauth.clientId" in str(error)
    assert insecure.cause == odd.cause == DISCOVERY


async def test_registration_whose_key_is_lost_is_replaced() -> None:
    async with consent_world() as world:
        await world.begin()
        world.store.unreadable.add(registration_key(world.issuer.url, CALLBACK))
        assert (await world.begin()).client_id == (await world.begin(world.make_flow())).client_id == "registered-2"


async def test_store_that_is_full_or_away_is_told() -> None:
    async with consent_world() as world:
        world.store.full = True
        full = await begin_failure(world)
        world.store.away = True
        away = await begin_failure(world)
    assert (full.cause, away.cause) == (GRANT_STORE, GRANT_STORE)
    assert "is full" in str(full)
    assert "is away" in str(away)


async def test_declined_and_refused_sign_ins_say_why() -> None:
    async with consent_world() as world:
        authorization = await world.begin()
        declined = await finish_failure(world, authorization, error="access_denied")
        target = await finish_failure(world, authorization, error="invalid_target", error_description="unknown")
        used = world.issuer.browse(authorization.url)
        await world.flow.finish(authorization, used)
        with pytest.raises(GrantFailed) as again:
            await world.flow.finish(authorization, used)
    assert declined.cause == ACCESS_DENIED
    assert target.cause == INVALID_TARGET
    assert "set the server's resource" in str(target)
    assert again.value.cause == INVALID_GRANT
    assert "sign in again" in str(again.value)
    for secret in (authorization.verifier, used["code"]):
        assert secret not in str(again.value)


async def test_revoked_consent_gives_no_more_tokens_and_an_issuer_that_cannot_is_told() -> None:
    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        without = StoredGrant(grant.issuer, grant.client_id)
        stranger = StoredGrant(grant.issuer, "unknown", refresh_token="r")
        assert not await world.flow.revoke(without)
        assert not await world.flow.revoke(stranger)
        assert await world.flow.revoke(grant)
        assert world.issuer.consent_of("alice").ended
        world.issuer.metadata["revocation_endpoint"] = None
        assert not await world.flow.revoke(grant)
        world.issuer.metadata["revocation_endpoint"] = "http://login.example.com/revoke"
        assert not await world.flow.revoke(grant)


async def test_issuer_that_fails_for_now_is_told_to_be_tried_again() -> None:
    async with consent_world() as world:

        def fail(request: Request, reply: Reply) -> bool:
            reply.send(503)
            return True

        world.issuer.answer["/register"] = fail
        error = await begin_failure(world)
    assert error.cause == PROVIDER_ERROR
    assert await world.store.read(registration_key(world.issuer.url, CALLBACK)) is None


async def test_grant_that_is_too_long_leaves_out_scopes_before_the_refresh_token() -> None:
    async with consent_world() as world:
        world.issuer.token_members = {"scope": " ".join(f"scope-{number:040}" for number in range(60))}
        shorter, token = await world.sign_in("alice")
        world.issuer.token_members = {"refresh_token": "r" * 3_000}
        shortest, _ = await world.sign_in("bob")
    assert isinstance(token, AccessToken)
    assert len(token.scopes) == 60
    assert (shorter.scopes, bool(shorter.refresh_token)) == ((), True)
    assert (shortest.scopes, shortest.refresh_token) == ((), "")
    assert shortest.fits
