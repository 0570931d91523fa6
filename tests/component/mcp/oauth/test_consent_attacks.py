"""Malicious servers and authorization servers that try to get codes, refresh tokens or clients of others, or never
end."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from consentissuer import CALLBACK, ConsentWorld, consent_world
from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import Address
from fairlead_mcp.oauth.client_registrations import MAX_PER_REDIRECT_URI, MAX_REGISTRATIONS
from fairlead_mcp.oauth.consent import FLOW_SECONDS
from fairlead_mcp.oauth.errors import (
    BAD_ANSWER,
    CLOSED,
    CONFIGURATION,
    DISCOVERY,
    HOST_NOT_ALLOWED,
    INVALID_REQUEST,
    ISSUER_MISMATCH,
    SIGN_IN_REQUIRED,
    TIMEOUT,
    GrantFailed,
)
from fairlead_mcp.oauth.token_http import MAX_BODY_BYTES
from rawserver import Reply, Request, raw_server

_METADATA = "/.well-known/oauth-authorization-server"
GATEWAY = "https://gateway.example.com"


async def literal(host: str, port: int) -> list[Address]:
    """Resolve a literal address, without the thread of a real lookup."""
    return [(host, port)]


async def begin_failure(world: ConsentWorld, **options: Any) -> GrantFailed:
    with pytest.raises(GrantFailed) as failed:
        await world.begin(**options)
    return failed.value


async def test_code_of_an_honest_issuer_never_reaches_the_token_endpoint_of_an_evil_one() -> None:
    """Mix-up (RFC 9207 section 1): the malicious issuer redirects the browser to the honest one."""
    async with consent_world() as honest, consent_world() as evil:
        await honest.begin()
        authorization = await evil.begin()
        deceived = authorization.url.replace(evil.issuer.url, honest.issuer.url)
        assert authorization.client_id in honest.issuer.clients
        answer = honest.issuer.browse(deceived)
        with pytest.raises(GrantFailed) as failed:
            await evil.flow.finish(authorization, answer)
        assert evil.issuer.redemptions == []
    assert failed.value.cause == ISSUER_MISMATCH
    assert honest.issuer.url in str(failed.value)
    assert evil.issuer.url in str(failed.value)


async def test_code_of_an_issuer_that_always_names_itself_is_not_used_without_its_name() -> None:
    async with consent_world() as world:
        world.issuer.redirect = {"iss": None}
        authorization = await world.begin()
        with pytest.raises(GrantFailed) as failed:
            await world.flow.finish(authorization, world.issuer.browse(authorization.url))
        assert world.issuer.redemptions == []
    assert failed.value.cause == ISSUER_MISMATCH


async def test_code_that_somebody_else_got_is_not_redeemed_for_the_person() -> None:
    """An attacker makes the user's browser return with the attacker's own code."""
    async with consent_world() as world:
        world.issuer.person = "mallory"
        attackers = world.issuer.browse((await world.begin()).url)
        authorization = await world.begin()
        with pytest.raises(GrantFailed) as failed:
            await world.flow.finish(authorization, attackers)
        assert world.issuer.redemptions == []
        with pytest.raises(GrantFailed):
            await world.flow.finish(authorization, {**attackers, "state": authorization.state})
        assert world.issuer.consents == []
    assert failed.value.cause == INVALID_REQUEST


@pytest.mark.parametrize("methods", [["plain"], [], "S256", {"S256": True}])
async def test_issuer_without_s256_gets_neither_a_registration_nor_a_person(methods: object) -> None:
    async with consent_world() as world:
        world.issuer.metadata["code_challenge_methods_supported"] = methods
        error = await begin_failure(world)
        assert world.issuer.registrations == []
        world.issuer.metadata["code_challenge_methods_supported"] = None
        assert (await world.begin()).client_id
    assert error.cause == DISCOVERY
    assert "S256" in str(error)


async def test_registration_at_one_issuer_is_not_used_at_another() -> None:
    async with consent_world() as honest, consent_world() as evil:
        evil.issuer.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        honest.issuer.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        honest.issuer.registration = {"client_id": "the honest client", "client_secret": "the honest secret"}
        await honest.sign_in("alice")
        honest.resource["authorization_servers"] = [evil.issuer.url]
        await honest.flow.begin(CALLBACK, challenge=honest.challenge)
        world = honest
        world.issuer = evil.issuer
        await world.sign_in("alice")
        seen = repr(evil.issuer.received) + repr(evil.issuer.authorizations)
    assert "honest client" not in seen
    assert base64.b64encode(b"the+honest+client:the+honest+secret").decode() not in seen
    assert len(evil.issuer.registrations) == 1


async def test_code_goes_to_no_token_endpoint_that_settings_name_later() -> None:
    async with consent_world() as world, consent_world() as evil:
        authorization = await world.begin()
        answer = world.issuer.browse(authorization.url)
        url = evil.issuer.url
        urls = {"authorization_url": url + "/authorize", "token_url": url + "/token"}
        others: list[dict[str, str]] = [
            {"issuer": url},
            {"client_id": "other", "client_authentication": "none"},
            {"client_id": authorization.client_id, "client_authentication": "none", **urls},
        ]
        for other in others:
            with pytest.raises(GrantFailed, match="have changed") as failed:
                await world.make_flow(**other).finish(authorization, answer)
            assert failed.value.cause == CLOSED
        assert evil.issuer.received == []
        assert (await world.flow.finish(authorization, answer))[0].refresh_token


async def test_refresh_token_goes_to_no_issuer_that_the_server_names_later() -> None:
    async with consent_world() as honest, consent_world() as evil:
        await honest.sign_in("alice")
        honest.resource["authorization_servers"] = [evil.issuer.url]
        with pytest.raises(GrantFailed) as failed:
            await honest.source.obtain(honest.person("alice"), challenge=honest.challenge)
        assert evil.issuer.received == []
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_refresh_token_goes_to_no_token_endpoint_that_metadata_of_another_issuer_names() -> None:
    async with consent_world() as honest, consent_world() as evil:
        await honest.sign_in("alice")
        honest.issuer.metadata = {"issuer": evil.issuer.url, "token_endpoint": evil.issuer.url + "/token"}
        with pytest.raises(GrantFailed) as failed:
            await honest.source.obtain(honest.person("alice"))
        assert evil.issuer.received == []
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_refresh_token_is_not_revoked_at_an_issuer_that_the_settings_name_later() -> None:
    async with consent_world() as world, consent_world() as evil:
        grant, _ = await world.sign_in("alice")
        token_url = f"{evil.issuer.url}/token"
        later = world.make_flow(issuer=evil.issuer.url, token_url=token_url, authorization_url=token_url)
        assert not await later.revoke(grant)
        assert not any(grant.refresh_token.encode() in request.body for request in evil.issuer.received)
        assert await world.flow.revoke(grant)


async def test_token_of_a_grant_is_not_obtained_for_a_server_that_has_another_url_by_now() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        before, world.server_url = world.server_url, world.server_url.replace("/mcp", "/elsewhere")
        with pytest.raises(GrantFailed) as refused:
            await world.make_source().obtain(world.person("alice"))
    assert refused.value.cause == SIGN_IN_REQUIRED
    assert f"you signed in at {before}, but the server is at {world.server_url} now: sign in" in str(refused.value)
    assert world.issuer.requests_of("refresh_token") == []


@pytest.mark.parametrize("changed", [{"host_header": "evil.example"}, {"server_uid": "another"}])
async def test_token_of_a_grant_is_not_obtained_for_another_server_of_its_name(changed: dict[str, str]) -> None:
    async with consent_world(options={"host_header": "box.example", "server_uid": "first"}) as world:
        await world.sign_in("alice")
        world.options |= changed
        with pytest.raises(GrantFailed, match=r"evil\.example|another one has its name now") as refused:
            await world.make_source().obtain(world.person("alice"))
    assert refused.value.cause == SIGN_IN_REQUIRED
    assert world.issuer.requests_of("refresh_token") == []


async def test_refresh_token_goes_to_no_token_endpoint_that_settings_name_later() -> None:
    async with consent_world() as world, consent_world() as evil:
        grant, _ = await world.sign_in("alice")
        own, url = world.issuer.url, evil.issuer.url
        client = {"client_id": grant.client_id, "client_authentication": "none"}
        later = world.make_source(issuer=own, authorization_url=f"{own}/authorize", token_url=f"{url}/token", **client)
        with pytest.raises(GrantFailed, match="token endpoint in the server's settings") as failed:
            await later.obtain(world.person("alice"))
        assert evil.issuer.received == []
        assert (await world.make_source(issuer=own).obtain(world.person("alice"))).value
    assert failed.value.cause == SIGN_IN_REQUIRED


@pytest.mark.parametrize("changed", [{"server_uid": "another"}, {"host_header": "evil.example"}])
async def test_code_is_not_redeemed_for_another_server_of_the_name_that_it_was_requested_for(
    changed: dict[str, str],
) -> None:
    async with consent_world() as world:
        authorization = await world.begin()
        world.options |= changed
        with pytest.raises(GrantFailed, match="have changed") as failed:
            await world.make_flow().finish(authorization, world.issuer.browse(authorization.url))
        assert world.issuer.redemptions == []
    assert failed.value.cause == CLOSED


async def test_person_never_gets_a_token_by_the_grant_of_another() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        with pytest.raises(GrantFailed) as failed:
            await world.source.obtain(world.person("bob"))
        assert world.issuer.requests_of("refresh_token") == []
        await world.sign_in("bob")
        await world.source.review(b"bob")
        bob = await world.source.obtain(world.person("bob"))
    assert failed.value.cause == SIGN_IN_REQUIRED
    assert json.loads(base64.urlsafe_b64decode(bob.value.split(".")[1] + "=="))["sub"] == "bob"


async def test_server_gets_no_token_that_the_gateway_takes() -> None:
    """A tenant's server names the company's own issuer, and the gateway as its resource."""
    async with consent_world(resource=GATEWAY, options={"is_own_audience": lambda name: name == GATEWAY}) as world:
        authorization = await world.begin()
        with pytest.raises(GrantFailed, match="is this gateway") as failed:
            await world.flow.finish(authorization, world.issuer.browse(authorization.url))
    assert failed.value.cause == BAD_ANSWER


async def test_secret_of_the_settings_goes_to_no_issuer_that_only_the_server_names() -> None:
    async with consent_world(client_id="by-hand") as world:
        error = await begin_failure(world)
        assert world.issuer.received == []
        flow = world.make_flow(issuer="https://login.example.com")
        with pytest.raises(GrantFailed) as failed:
            await flow.begin(CALLBACK, challenge=world.challenge)
        assert world.issuer.received == []
    assert error.cause == CONFIGURATION
    assert failed.value.cause == ISSUER_MISMATCH
    assert world.issuer.url in str(failed.value)


async def test_registration_is_not_sent_where_egress_rules_forbid_it() -> None:
    async with consent_world() as world:
        world.issuer.metadata["registration_endpoint"] = "https://169.254.169.254/register"
        error = await begin_failure(world)
    assert error.cause == HOST_NOT_ALLOWED


async def test_issuers_without_end_leave_few_registrations() -> None:
    async with consent_world() as world:
        await world.sign_in("alice")
        url = world.issuer.url
        names = [f"{url}/{number}" for number in range(MAX_PER_REDIRECT_URI + 2)]

        def describe(request: Request, reply: Reply) -> bool:
            name = url + request.path.removeprefix(_METADATA)
            kinds = {"authorization": "authorize", "token": "token", "registration": "register"}
            endpoints = {f"{kind}_endpoint": f"{url}/{path}" for kind, path in kinds.items()}
            reply.send(200, json.dumps({"issuer": name, **endpoints}).encode())
            return True

        for name in names:
            world.later(1)
            world.issuer.answer[name.replace(url, _METADATA)] = describe
            world.resource["authorization_servers"] = [name]
            assert (await world.begin()).issuer == name
        names_left = [key.server for key, _ in await world.store.of_person(b"")]
        assert sorted(names_left) == [f"registration:{name} {CALLBACK}" for name in names[-MAX_PER_REDIRECT_URI:]]
        for number in range(MAX_REGISTRATIONS + 2):
            world.later(1)
            await world.flow.begin(f"{CALLBACK}/{number}", challenge=world.challenge)
        assert len(await world.store.of_person(b"")) == MAX_REGISTRATIONS
        world.resource["authorization_servers"] = [url]
        assert (await world.source.obtain(world.person("alice"))).value, "a grant keeps its own client"


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/register", "/token"])
async def test_huge_answers_are_not_read(path: str) -> None:
    def answer(request: Request, reply: Reply) -> bool:
        reply.send(200, b" " * MAX_BODY_BYTES + b"{}")
        return True

    async with consent_world() as world:
        world.issuer.answer[path] = answer
        with pytest.raises(GrantFailed) as failed:
            await world.sign_in("alice")
    assert failed.value.cause == BAD_ANSWER


@pytest.mark.parametrize("path", ["/register", "/token", "/revoke"])
async def test_redirects_are_not_followed(path: str) -> None:
    reached: list[Request] = []

    async def take(request: Request, reply: Reply) -> None:
        reached.append(request)
        reply.send(200, b'{"client_id":"x","access_token":"y"}')

    async with consent_world() as world, raw_server(take) as evil:

        def answer(request: Request, reply: Reply) -> bool:
            reply.send(307, location=evil.url)
            return True

        grant, _ = await world.sign_in("alice")
        world.issuer.answer[path] = answer
        await world.store.delete(next(key for key, _ in await world.store.all_grants() if not key.person))
        assert path != "/revoke" or not await world.flow.revoke(grant)
        if path != "/revoke":
            with pytest.raises(GrantFailed, match="redirects") as failed:
                await world.sign_in("alice")
            assert failed.value.cause == BAD_ANSWER
    assert reached == []


@pytest.mark.parametrize(
    "names",
    [
        ["http://login.example.com"],
        ["https://login.example.com?tenant=x"],
        ["file:///etc/passwd"],
        ["https://u:p@login.example.com"],
        ["https://login.example.com/" + "x" * 600],
        ["", "https://login.example.com"],
    ],
)
async def test_discovery_refuses_names_that_are_not_urls_of_issuers_before_anything_is_sent(names: list[str]) -> None:
    async with consent_world() as world:
        world.resource["authorization_servers"] = names
        error = await begin_failure(world)
    assert error.cause == DISCOVERY


@pytest.mark.looptime(start=0)
async def test_slow_issuer_ends_with_the_time_limit_of_a_request() -> None:
    loop = asyncio.get_running_loop()
    async with consent_world(options=in_time_of(loop)) as world:
        authorization = await world.begin()
        world.issuer.hold = asyncio.Event()
        began = loop.time()
        with pytest.raises(GrantFailed) as failed:
            await world.flow.finish(authorization, world.issuer.browse(authorization.url))
        assert loop.time() - began <= FLOW_SECONDS
    assert failed.value.cause == TIMEOUT


@pytest.mark.looptime(start=0)
async def test_issuer_that_is_slow_in_each_of_many_requests_ends_with_the_time_limit_of_a_step() -> None:
    loop = asyncio.get_running_loop()

    async def crawl(request: Request, reply: Reply) -> None:
        await asyncio.sleep(4)
        reply.send(404)

    async with consent_world(options=in_time_of(loop)) as world, raw_server(crawl) as server:
        world.server_url = server.url
        flow = world.make_flow(issuer=f"http://127.0.0.1:{server.port}/a/b")
        began = loop.time()
        with pytest.raises(GrantFailed, match="within 15 s") as failed:
            await flow.begin(CALLBACK)
        assert loop.time() - began == pytest.approx(FLOW_SECONDS, abs=0.5)
    assert failed.value.cause == TIMEOUT


def in_time_of(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """TokenAccess with the time of the test's event loop."""
    return {"resolve": Egress().guard(literal, "default"), "monotonic": loop.time}
