"""Assertions of identity providers (ID-JAG) and tokens of ServiceAccounts, exchanged for access tokens; and attacks
with them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from authorizationworld import (
    CLIENT_ID,
    SCOPES,
    SECRET,
    SECRET_ID,
    AuthorizationWorld,
    authorization_world,
    gateway_of,
    identity_file,
    two_providers,
)
from fairlead_gateway.core.identity import Identity
from fairlead_kube.client import Kube
from issuers import LocalIssuer
from oidcprovider import CLIENT, BareBrowser, providing
from ports import free_port
from token_reviews import Reviewer

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
TAKES_ASSERTIONS = {"assertions": ["corp"], "agents": {"vaults": SECRET_ID}}
_OTHER_KEY = RSAKey.generate_key(2048)


async def identity_of(world: AuthorizationWorld, token: str) -> Identity:
    """Identity of an access token at the gateway."""
    identity = await world.gateway.endpoint.identities.identify(f"Bearer {token}".encode())
    assert isinstance(identity, Identity), identity
    return identity


def assertion(world: AuthorizationWorld, issuer: LocalIssuer | None = None, **members: Any) -> str:
    """An assertion about alice for the client `vault`. `header`, `key`: as in `LocalIssuer.token`; other keywords are
    claims.
    """
    header, key = members.pop("header", {}), members.pop("key", None)
    claims = {"sub": "alice", "azp": None, "aud": world.base, "client_id": SECRET_ID, "jti": secrets.token_hex(8)}
    head = {"typ": "oauth-id-jag+jwt", **header}
    return (issuer or world.provider).token(head, key, **{**claims, **members})


async def exchange(world: AuthorizationWorld, text: str, **more: str | None) -> tuple[int, Any]:
    """Exchange an assertion as the client `vault`. Returns the token endpoint's answer."""
    client = {"client_id": SECRET_ID, "client_secret": SECRET}
    return await world.token({"grant_type": JWT_BEARER, "assertion": text, **client, **more})


async def refusal(world: AuthorizationWorld, text: str, **more: str | None) -> str:
    """Description in a refusal, which has to be `invalid_grant`."""
    status, content = await exchange(world, text, **more)
    assert status == 400, content
    assert content["error"] == "invalid_grant"
    assert text not in content["error_description"]
    return str(content["error_description"])


async def test_client_with_an_assertion_acts_for_the_person_as_after_a_login(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        text = assertion(world, resource=f"{world.base}/v1", groups=["staff"], email="alice@example.com")
        status, content = await exchange(world, text)
        assert status == 200, content
        assert content.keys() == {"access_token", "token_type", "expires_in"}
        assert 500 < content["expires_in"] <= 600
        identity = await identity_of(world, content["access_token"])
        assert (identity.principal, identity.agent) == (f"jwt:{world.provider.url}#alice/vaults", "vaults")
        assert (identity.groups, identity.resource) == (frozenset({"staff"}), "/v1")
        assert identity.claims == {
            "iss": world.provider.url,
            "sub": "alice",
            "groups": ["staff"],
            "email": "alice@example.com",
        }
        direct = await identity_of(world, world.provider.token(sub="alice", aud=world.base, groups=["staff"]))
        assert (identity.person, identity.groups, identity.issuers) == (direct.person, direct.groups, direct.issuers)
        assert await world.call(content["access_token"]) == 200
        assert await world.call(content["access_token"], "/mcp") == 401


async def test_metadata_name_the_grant_where_it_is_taken(tmp_path: Path) -> None:
    for server, profiles, grants in ((TAKES_ASSERTIONS, [PROFILE], [JWT_BEARER]), ({}, None, [])):
        async with authorization_world(tmp_path, server=dict(server)) as world:
            url = f"{world.base}/.well-known/oauth-authorization-server"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                document = await answer.json()
            assert document.get("authorization_grant_profiles_supported") == profiles
            assert document["grant_types_supported"] == ["authorization_code", "refresh_token", *grants]


async def test_assertions_are_taken_only_where_they_are_allowed(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        status, content = await exchange(world, assertion(world))
        assert (status, content.get("error")) == (400, "unsupported_grant_type")


async def test_assertion_of_another_type_is_refused(tmp_path: Path) -> None:
    """ID tokens and access tokens also reach other clients and servers."""
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        for typ in ("JWT", "at+jwt", None):
            assert "typ" in await refusal(world, assertion(world, header={"typ": typ}))


async def test_assertion_is_not_an_access_token(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        assert await world.call(assertion(world)) == 401


async def test_assertion_of_an_issuer_that_only_signs_people_in_is_refused(tmp_path: Path) -> None:
    async with two_providers(tmp_path, assertions=["partner"]) as (world, corp, partner):
        assert "iss" in await refusal(world, assertion(world, corp))
        status, content = await exchange(world, assertion(world, partner))
        assert status == 200, content


@pytest.mark.parametrize(
    "members",
    [
        {"key": _OTHER_KEY},
        {"key": OctKey.import_key("k" * 32), "header": {"alg": "HS256"}},
        {"header": {"alg": "RS512"}},
    ],
    ids=["another key", "a symmetric algorithm", "an algorithm that is not in the list"],
)
async def test_assertion_that_the_issuer_did_not_sign_is_refused(tmp_path: Path, members: dict[str, Any]) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        await refusal(world, assertion(world, **members))


async def test_assertion_without_a_signature_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        header, claims, _ = assertion(world).split(".")
        await refusal(world, f"{header}.{claims}.")
        await refusal(world, f"eyJhbGciOiJub25lIiwidHlwIjoib2F1dGgtaWQtamFnK2p3dCJ9.{claims}.")
        await refusal(world, "no assertion")


async def test_assertion_for_another_server_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        audiences: list[Any] = ["https://other.example", f"{world.base}/mcp", None, [], 5, SECRET_ID]
        for audience in audiences:
            assert "aud" in await refusal(world, assertion(world, aud=audience))


async def test_assertion_for_several_servers_is_refused(tmp_path: Path) -> None:
    """Each of these servers could redeem the assertion at the others."""
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        assert "aud" in await refusal(world, assertion(world, aud=[world.base, "https://other.example"]))
        assert (await exchange(world, assertion(world, aud=[f"{world.base}/"])))[0] == 200


async def test_assertion_for_another_client_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        for client in (CLIENT_ID, None, [SECRET_ID]):
            assert "another client" in await refusal(world, assertion(world, client_id=client))


async def test_client_that_nobody_can_tell_from_another_exchanges_nothing(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        text = assertion(world, client_id=CLIENT_ID)
        status, content = await exchange(world, text, client_id=CLIENT_ID, client_secret=None)
        assert (status, content.get("error")) == (400, "unauthorized_client")
        status, content = await exchange(world, assertion(world), client_secret=None)
        assert (status, content.get("error")) == (401, "invalid_client")
        status, content = await exchange(world, assertion(world), client_id=None, client_secret=None)
        assert (status, content.get("error")) == (401, "invalid_client")


async def test_assertion_for_a_resource_elsewhere_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        resources: list[Any] = ["https://other.example/mcp", f"{world.base}.evil.example", [], 5]
        for resource in resources:
            assert "resource" in await refusal(world, assertion(world, resource=resource))


async def test_assertion_for_a_resource_here_and_one_elsewhere_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        assert "resource" in await refusal(world, assertion(world, resource=[f"{world.base}/mcp", "https://x.example"]))


async def test_request_does_not_widen_the_resource_of_an_assertion(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        own = f"{world.base}/servers/a/b"
        for resource in (world.base, f"{world.base}/mcp", f"{own}c", "https://other.example"):
            status, content = await exchange(world, assertion(world, resource=own), resource=resource)
            assert (status, content.get("error")) == (400, "invalid_target")
        status, content = await exchange(world, assertion(world, resource=own), resource=f"{own}/mcp")
        assert (await identity_of(world, content["access_token"])).resource == "/servers/a/b/mcp"
        both = [f"{world.base}/mcp", f"{world.base}/v1"]
        status, content = await exchange(world, assertion(world, resource=both))
        assert (status, content.get("error")) == (400, "invalid_target")
        status, content = await exchange(world, assertion(world, resource=both), resource=both[1])
        assert (await identity_of(world, content["access_token"])).resource == "/v1"


async def test_token_has_no_more_scopes_than_the_assertion(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server={**TAKES_ASSERTIONS, "scopes": list(SCOPES)}) as world:
        text = assertion(world, scope=f"{SCOPES[0]} openid")
        status, content = await exchange(world, text, scope=" ".join(SCOPES))
        assert (status, content["scope"]) == (200, SCOPES[0])
        status, content = await exchange(world, assertion(world, scope=" ".join(SCOPES)), scope=SCOPES[1])
        assert (status, content["scope"]) == (200, SCOPES[1])
        status, content = await exchange(world, assertion(world, scope=" ".join(SCOPES)))
        assert (status, content["scope"]) == (200, " ".join(SCOPES))
        for scope in ("openid", None):
            assert "scope" in await refusal(world, assertion(world, scope=scope), scope=SCOPES[0])


async def test_assertion_is_good_once(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        text = assertion(world)
        answers = await asyncio.gather(*(exchange(world, text) for _ in range(4)))
        assert sorted(status for status, _ in answers) == [200, 400, 400, 400]
        assert "used before" in await refusal(world, text)
        # another assertion with the same `jti` and another time
        again = assertion(world, jti="one")
        assert (await exchange(world, again))[0] == 200
        assert "used before" in await refusal(world, assertion(world, jti="one", iat=int(time.time()) - 1))


async def test_assertion_that_was_refused_for_another_reason_is_not_spent(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        text = assertion(world)
        assert (await exchange(world, text, resource="https://other.example"))[0] == 400
        assert (await exchange(world, text))[0] == 200


async def test_assertion_outside_of_its_times_is_refused(tmp_path: Path) -> None:
    """Clocks may differ by 30 s, the issuer's `leewaySeconds`."""
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        now = int(time.time())
        wrong: list[dict[str, Any]] = [
            {"exp": now - 40},
            {"nbf": now + 90},
            {"iat": now + 90},
            {"exp": None},
            {"iat": None},
        ]
        for times in wrong:
            await refusal(world, assertion(world, **times))
        for name, value in (("exp", now - 10), ("nbf", now + 10)):
            assert (await exchange(world, assertion(world, None, **{name: value})))[0] == 200


async def test_assertion_that_lives_long_is_refused(tmp_path: Path) -> None:
    """Its `jti` would have to be stored for its whole lifetime."""
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        assert "exp" in await refusal(world, assertion(world, exp=int(time.time()) + 86_400))


async def test_assertion_without_a_name_or_subject_is_refused(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        for name in (None, "", 5, "x" * 257):
            assert "jti" in await refusal(world, assertion(world, jti=name))
        for subject in (None, "", 5):
            assert "sub" in await refusal(world, assertion(world, sub=subject))


async def test_assertion_that_says_too_much_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, server=TAKES_ASSERTIONS) as world:
        groups = [f"group-{number:04d}" for number in range(300)]
        assert "claims" in await refusal(world, assertion(world, groups=groups))


async def test_issuer_that_is_away_costs_no_assertion(tmp_path: Path) -> None:
    async with providing() as provider:
        away = LocalIssuer()
        away.url = f"http://127.0.0.1:{free_port()}"
        issuers = [{"issuer": provider.url, "name": "corp"}, {"issuer": away.url, "name": "away"}]
        providers = [{"issuer": "corp", "clientId": CLIENT}]
        file = identity_file(tmp_path, issuers, providers, assertions=["away"])
        async with gateway_of(tmp_path, file) as (base, gateway):
            world = AuthorizationWorld(base, gateway, provider, BareBrowser(base))
            status, content = await exchange(world, text := assertion(world, away))
        assert (status, content["error"]) == (503, "temporarily_unavailable")
        assert text not in content["error_description"]


def workload_token(**claims: Any) -> str:
    """Token of a ServiceAccount. The fake reviews of `token_reviews` do not check its signature."""
    members = {"sub": "system:serviceaccount:shop:npc", "exp": int(time.time()) + 3_600, **claims}
    return jwt.encode({"alg": "HS256"}, members, OctKey.import_key("k" * 32))


@contextlib.asynccontextmanager
async def workload_world(folder: Path, audience: str = "", **server: Any) -> AsyncIterator[AuthorizationWorld]:
    """A gateway that accepts tokens of ServiceAccounts with `audience`, by default the gateway's token endpoint."""
    port = free_port()
    reviewer = cast("Kube", Reviewer(audience or f"http://127.0.0.1:{port}/oauth/token"))
    allowed = {"service_accounts": {"audiences": ["fairlead"]}, "workloads": "allow", **server}
    async with authorization_world(folder, server=allowed, kube=reviewer, port=port) as world:
        yield world


async def test_workload_exchanges_its_token_for_one_of_a_resource(tmp_path: Path) -> None:
    async with workload_world(tmp_path) as world:
        fields = {"grant_type": JWT_BEARER, "assertion": workload_token(), "resource": f"{world.base}/v1"}
        status, content = await world.token(fields)
        assert status == 200, content
        assert content.keys() == {"access_token", "token_type", "expires_in"}
        assert await world.call(content["access_token"]) == 200
        assert await world.call(content["access_token"], "/mcp") == 401


async def test_workload_is_the_same_as_with_its_own_token(tmp_path: Path) -> None:
    async with workload_world(tmp_path, "fairlead", scopes=list(SCOPES)) as world:
        direct = await identity_of(world, workload_token())
        _, content = await world.token({"grant_type": JWT_BEARER, "assertion": workload_token()})
        identity = await identity_of(world, content["access_token"])
        for name in ("kind", "principal", "agent", "groups", "issuers", "service_account", "owner", "person"):
            assert getattr(identity, name) == getattr(direct, name), name
        assert (identity.principal, identity.resource) == ("sa:shop/npc", "")


async def test_token_of_a_workload_does_not_outlive_that_of_its_service_account(tmp_path: Path) -> None:
    async with workload_world(tmp_path) as world:
        text = workload_token(exp=int(time.time()) + 120)
        _, content = await world.token({"grant_type": JWT_BEARER, "assertion": text})
        assert 0 < content["expires_in"] <= 120


async def test_token_of_a_workload_for_another_audience_is_refused(tmp_path: Path) -> None:
    async with workload_world(tmp_path, "https://kubernetes.default.svc") as world:
        status, content = await world.token({"grant_type": JWT_BEARER, "assertion": workload_token()})
        assert (status, content.get("error")) == (400, "invalid_grant")


async def test_workload_asks_for_no_resource_elsewhere(tmp_path: Path) -> None:
    async with workload_world(tmp_path) as world:
        fields = {"grant_type": JWT_BEARER, "assertion": workload_token(), "resource": "https://other.example"}
        status, content = await world.token(fields)
        assert (status, content.get("error")) == (400, "invalid_target")


async def test_workload_is_not_a_person_or_client(tmp_path: Path) -> None:
    async with workload_world(tmp_path, assertions=["corp"]) as world:
        for text in (assertion(world), assertion(world, header={"typ": "JWT"}), "no assertion"):
            status, content = await world.token({"grant_type": JWT_BEARER, "assertion": text})
            assert (status, content.get("error")) == (400, "invalid_grant")
        # a workload cannot authenticate as a client
        assert "iss" in await refusal(world, workload_token(iss="https://kubernetes.default.svc"))


async def test_workloads_exchange_nothing_where_that_is_not_allowed(tmp_path: Path) -> None:
    async with workload_world(tmp_path, workloads="deny", assertions=["corp"]) as world:
        status, content = await world.token({"grant_type": JWT_BEARER, "assertion": workload_token()})
        assert (status, content.get("error")) == (401, "invalid_client")
