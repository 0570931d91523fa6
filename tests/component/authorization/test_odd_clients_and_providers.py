"""Misbehaving clients and providers affect only themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc.jwk import RSAKey

from authorizationworld import (
    CLIENT_ID,
    OTHER_BACK,
    OTHER_ID,
    SECRET_ID,
    Attempt,
    AuthorizationWorld,
    authorization_world,
    gateway_of,
    identity_file,
    two_providers,
)
from fairlead_authorization.protocol import provider as provider_module
from fairlead_authorization.protocol.provider import IdentityProviderClient, OpenIdProvider
from fairlead_authorization.sessions.session import IdentityProviderUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity import jwks
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.token_access import TokenAccess
from issuers import JWKS
from oidcprovider import CLIENT, BareBrowser, OidcProvider
from ports import free_port
from rawserver import Reply, Request, raw_server
from waiting import eventually


class CountedProvider(OidcProvider):
    """Provider that counts requests by path, and answers requests for its keys with 503 while `keyless`."""

    def __init__(self) -> None:
        super().__init__()
        self.keyless = False
        self.paths: list[str] = []
        self.slow: asyncio.Event | None = None
        """All answers wait for this event."""
        self.slow_keys: asyncio.Event | None = None
        """Answers with keys wait for this event."""

    async def handle(self, request: Request, reply: Reply) -> None:
        self.paths.append(request.path)
        if self.slow is not None:
            await self.slow.wait()
        if self.slow_keys is not None and request.path == JWKS:
            await self.slow_keys.wait()
        if self.keyless and request.path == JWKS:
            reply.send(503)
        else:
            await super().handle(request, reply)


@asynccontextmanager
async def counted_world(folder: Path, port: int = 0, **server: Any) -> AsyncIterator[tuple[AuthorizationWorld, Any]]:
    provider = CountedProvider()
    async with raw_server(provider.handle) as listening:
        provider.url = f"http://127.0.0.1:{listening.port}"
        provider.secret = ""
        issuers = [{"issuer": provider.url, "name": "corp", "groupsClaim": "groups"}]
        file = identity_file(folder, issuers, [{"issuer": "corp", "clientId": CLIENT}], **server)
        async with gateway_of(folder, file, port=port) as (base, gateway):
            yield AuthorizationWorld(base, gateway, provider, BareBrowser(base)), provider


async def identity_of(world: AuthorizationWorld, token: str) -> Identity:
    identity = await world.gateway.endpoint.identities.identify(f"Bearer {token}".encode())
    assert isinstance(identity, Identity), identity
    return identity


@pytest.mark.parametrize("header", ["Basic //8=", "Basic dmF1bHQ6/w==", "Basic  ", "Basic :", "Basic"])
async def test_basic_authorization_that_cannot_be_read_is_a_missing_credential(tmp_path: Path, header: str) -> None:
    async with authorization_world(tmp_path) as world:
        form = {"grant_type": "refresh_token", "refresh_token": "x", "client_id": SECRET_ID}
        status, refusal = await world.token(form, authorization=header)
        assert (status, refusal["error"]) == (401, "invalid_client")


async def test_provider_that_is_away_is_asked_once_for_all_who_wait() -> None:
    """Otherwise each request would also wait for the time-outs of all earlier ones."""
    corp = CountedProvider()
    corp.away = True
    corp.slow = asyncio.Event()
    async with raw_server(corp.handle) as server:
        client = IdentityProviderClient(
            name="corp", issuer=Issuer(issuer=f"http://127.0.0.1:{server.port}"), client_id=CLIENT
        )
        tokens = Tokens([], address="", now=time.time, clock=time.monotonic)
        provider = OpenIdProvider(client, tokens, "https://tools.example/back", TokenAccess("", resolve_by_dns))
        waiting = [asyncio.create_task(provider.begin()) for _ in range(5)]
        await eventually(lambda: corp.paths)
        corp.slow.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [IdentityProviderUnavailable] * 5
        alone = len(corp.paths)
        with pytest.raises(IdentityProviderUnavailable):
            await provider.begin()
        assert len(corp.paths) == 2 * alone
        await provider.aclose()


async def test_claims_are_not_those_of_another_providers_access_token(tmp_path: Path) -> None:
    async with two_providers(tmp_path) as (world, corp, partner):
        partner.access = corp.token(sub="bob", aud=world.base, groups=["board"], email="bob@corp.example")
        tokens = await world.sign_in(Attempt(more={"fairlead_provider": "partner"}))
        identity = await identity_of(world, tokens["access_token"])
        assert identity.principal == f"jwt:{partner.url}#alice/{CLIENT_ID}"
        assert identity.groups == frozenset()
        assert "email" not in identity.claims


async def test_claims_are_not_those_of_the_id_token_while_the_access_token_cannot_be_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At some providers, the two tokens have different groups or subjects."""
    monkeypatch.setattr(jwks, "COOL_DOWN", 0.0)
    async with counted_world(tmp_path) as (world, provider):
        provider.access_claims = {"aud": world.base, "groups": ["staff"]}
        provider.id_claims = {"groups": ["board"]}
        tokens = await world.sign_in()
        assert (await identity_of(world, tokens["access_token"])).groups == {"staff"}
        signing = OidcProvider()
        signing.url = provider.url
        signing.keys = [RSAKey.generate_key(2048, {"kid": "unpublished", "use": "sig"})]
        provider.access = signing.token(sub="alice", aud=world.base, groups=["staff"])
        provider.keyless = True
        answer = await world.complete_authorization(Attempt())
        assert answer.get("error") == "temporarily_unavailable"
        status, refusal = await world.refresh(tokens)
        assert (status, refusal.get("error")) == (503, "temporarily_unavailable")
        provider.access = None
        status, renewed = await world.refresh(tokens)
        assert status == 200, renewed
        assert (await identity_of(world, renewed["access_token"])).groups == {"staff"}


async def test_client_that_has_lost_a_name_of_an_agent_does_not_keep_it_by_refreshes(tmp_path: Path) -> None:
    port = free_port()
    async with counted_world(tmp_path, port, agents={"tool": CLIENT_ID}) as (world, provider):
        tokens = await world.sign_in()
        assert (await identity_of(world, tokens["access_token"])).agent == "tool"
        file = tmp_path / "identity.yaml"
        file.write_text(file.read_text().replace('"agents": {"tool": "desk"}', '"agents": {"tool": "other"}'))
        async with gateway_of(tmp_path, file, port=free_port(), public_url=world.base) as (base, gateway):
            later = AuthorizationWorld(base, gateway, provider, BareBrowser(base))
            status, renewed = await later.refresh(tokens)
            assert status == 200, renewed
            assert (await identity_of(later, renewed["access_token"])).agent == CLIENT_ID


async def test_page_warns_of_a_loopback_redirect_beside_others(tmp_path: Path) -> None:
    """VS Code's document has both kinds. Any program on the machine can send VS Code's client id."""
    both = {"id": "both", "redirectUris": ["https://both.example/back", "http://127.0.0.1/back"]}
    async with authorization_world(tmp_path, server={"more_clients": [both]}) as world:
        for uri, warns in (("https://both.example/back", False), ("http://127.0.0.1:7777/back", True)):
            page = await world.come_back(await world.authorize(Attempt(client_id="both", redirect_uri=uri)))
            assert page.status == 200
            assert ("any program there can say that it is this one" in page.text) is warns


async def test_refresh_token_that_a_provider_gave_outlives_slow_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "COOL_DOWN", 0.0)
    monkeypatch.setattr(provider_module, "KEYS_SECONDS", 0.05)
    async with counted_world(tmp_path) as (world, provider):
        tokens = await world.sign_in()
        signing = OidcProvider()
        signing.url = provider.url
        signing.keys = [RSAKey.generate_key(2048, {"kid": "unpublished", "use": "sig"})]
        provider.access = signing.token(sub="alice", aud=world.base)
        provider.slow_keys = asyncio.Event()
        status, refusal = await world.refresh(tokens)
        assert (status, refusal.get("error")) == (503, "temporarily_unavailable")
        provider.slow_keys.set()
        provider.access = None
        status, renewed = await world.refresh(tokens)
        assert status == 200, renewed


async def test_claims_about_the_gateways_client_are_not_those_of_the_person(tmp_path: Path) -> None:
    """Otherwise a policy for an agent's claim would apply to all clients of the gateway."""
    async with authorization_world(tmp_path) as world:
        file = tmp_path / "identity.yaml"
        file.write_text(file.read_text().replace('"agentClaims": ["azp"]', '"agentClaims": ["app_name"]'))
        async with gateway_of(tmp_path, file, port=free_port()) as (base, gateway):
            own = AuthorizationWorld(base, gateway, world.provider, BareBrowser(base))
            own.provider.id_claims = {
                "app_name": "desk of the board",
                "cid": "0oa",
                "appid": "1",
                "email": "a@x.example",
            }
            identity = await identity_of(own, (await own.sign_in())["access_token"])
            assert identity.claims.keys() & {"app_name", "cid", "appid", "email"} == {"email"}


async def test_log_says_once_that_a_provider_gives_no_refresh_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with authorization_world(tmp_path) as world:
        await world.sign_in()
        assert "prompt: consent" not in caplog.text
        world.provider.gives_refresh = False
        await world.sign_in()
        await world.sign_in()
        assert caplog.text.count("gave no refresh token") == 1
        assert "prompt: consent in providers" in caplog.text


@pytest.mark.parametrize("path", ["/oauth/jwks", "/.well-known/oauth-authorization-server"])
async def test_head_of_a_public_document_is_that_of_the_document(tmp_path: Path, path: str) -> None:
    async with authorization_world(tmp_path) as world, aiohttp.ClientSession() as session:
        async with session.head(world.base + path) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            assert answer.headers["access-control-allow-origin"] == "*"
            length = answer.headers["content-length"]
        async with session.get(world.base + path) as answer:
            assert str(len(await answer.read())) == length
        async with session.head(f"{world.base}/oauth/token") as answer:
            assert answer.status == 405


async def test_a_wrong_secret_of_the_gateway_is_logged_and_ends_no_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await world.sign_in()
        right, world.provider.secret = world.provider.secret, "another"
        page = await world.come_back(await world.authorize(Attempt(OTHER_ID, OTHER_BACK)))
        away = await world.refresh(tokens)
        world.provider.secret = right
        assert (await world.refresh(tokens))[0] == 200
    assert "rejects the gateway as its client (invalid_client): tell the gateway" in page.text
    assert (page.status, away[0], away[1]["error"]) == (400, 503, "temporarily_unavailable")
    (logged,) = [record.getMessage() for record in caplog.records if "rejects the client" in record.getMessage()]
    assert "compare clientId and clientSecretFile (chart: clientSecret) of authorizationServer" in logged
