"""Users sign in at real authorization servers: npm's `oidc-provider`, and that of the Python SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from certificates import Authority
from consentproviders import ConsentProvider, consent_provider
from consentservers import FormBrowser, consent_server
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.authorization_request import read_code
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.consent import ConsentFlow
from fairlead_mcp.oauth.errors import CONFIGURATION, INVALID_TARGET, SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from jwtservers import SCOPE, python_server
from ports import free_port
from rawserver import Reply, Request, raw_server

CALLBACK = "http://127.0.0.1:7007/sign-in/callback"
KEY = GrantKey(b"alice", "default/desk")
ALICE = TokenSubject(b"alice")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@dataclass
class Desk:
    """A server of the Python SDK that accepts the provider's tokens, with Fairlead's token source and store for it."""

    provider: ConsentProvider
    access: TokenAccess
    store: MemoryGrants
    settings: OAuthSettings
    flow: ConsentFlow

    def source(self) -> TokenSource:
        """A new token source, as at another replica."""
        return TokenSource(self.settings, Credential(), self.access, self.store)


async def challenge_of(url: str) -> Challenge:
    """The challenge of a server to a request without a token."""
    async with aiohttp.ClientSession() as session, session.post(url, json=INITIALIZE) as answer:
        assert answer.status == 401
        challenge = Challenge.parse(answer.headers["www-authenticate"].encode())
    assert challenge is not None
    return challenge


async def status_with(url: str, token: str) -> int:
    """Status of a request with a token."""
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession() as session, session.post(url, json=INITIALIZE, headers=headers) as answer:
        return answer.status


@contextlib.asynccontextmanager
async def desk(folder: Path, *, authority: str = "", **members: Any) -> AsyncIterator[Desk]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with (
        consent_provider(folder, {url: SCOPE}, authority) as provider,
        python_server(provider.issuer, provider.jwks_url, port=port),
    ):
        access = TokenAccess(server_url=url, resolve=resolve_by_dns, server=KEY.server)
        settings = OAuthSettings(grant=USER_CONSENT, **members)
        store = MemoryGrants()
        flow = ConsentFlow(settings, Credential(), access, store)
        try:
            yield Desk(provider, access, store, settings, flow)
        finally:
            await flow.aclose()


async def test_oidc_provider_registers_the_gateway_and_a_consent_outlives_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path) as world:
        url = world.access.server_url
        authorization = await world.flow.begin(CALLBACK, challenge=await challenge_of(url))
        answer = await world.provider.browse(authorization.url, "alice")
        grant, token = await world.flow.finish(authorization, answer)
        await world.store.write(KEY, grant)
        statuses = [await status_with(url, token.value)]
        for _ in range(3):
            source = world.source()
            statuses.append(await status_with(url, (await source.obtain(ALICE)).value))
            await source.aclose()
        again = await world.flow.begin(CALLBACK)
        (registered,) = [event["metadata"] for event in world.provider.events_of("registered")]
    assert answer["iss"] == world.provider.issuer
    assert authorization.sends_issuer
    assert again.client_id == authorization.client_id == registered["client_id"]
    assert statuses == [200] * 4
    assert (registered["application_type"], registered["token_endpoint_auth_method"]) == ("native", "none")
    assert {event["resource"] for event in world.provider.events_of("grant") if not event.get("error")} == {url}
    assert world.provider.events_of("error") == []


async def test_oidc_provider_ends_a_consent_whose_refresh_token_comes_twice_but_replicas_send_none_twice(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as world:
        authorization = await world.flow.begin(CALLBACK)
        grant, _ = await world.flow.finish(authorization, await world.provider.browse(authorization.url, "alice"))
        await world.store.write(KEY, grant)
        sources = [world.source() for _ in range(3)]
        tokens = await asyncio.gather(*(source.obtain(ALICE) for source in sources))
        renewed = await world.store.read(KEY)
        assert renewed is not None
        await world.store.write(KEY, grant)
        fresh = world.source()
        with pytest.raises(GrantFailed) as failed:
            await fresh.obtain(ALICE)
        for source in (*sources, fresh):
            await source.aclose()
    assert len({token.value for token in tokens}) == 3
    assert renewed.grant.refresh_token != grant.refresh_token
    assert failed.value.cause == SIGN_IN_REQUIRED
    assert len(world.provider.events_of("ended")) == 1


async def test_oidc_provider_revokes_a_consent(tmp_path: Path) -> None:
    async with desk(tmp_path) as world:
        authorization = await world.flow.begin(CALLBACK)
        grant, _ = await world.flow.finish(authorization, await world.provider.browse(authorization.url, "alice"))
        assert await world.flow.revoke(grant)
        await world.store.write(KEY, grant)
        source = world.source()
        with pytest.raises(GrantFailed) as failed:
            await source.obtain(ALICE)
        await source.aclose()
        assert await world.store.read(KEY) is None
    assert failed.value.cause == SIGN_IN_REQUIRED


async def test_oidc_provider_reads_a_document_about_the_gateway_in_place_of_a_registration(tmp_path: Path) -> None:
    authority = Authority()
    reads: list[Request] = []

    async def serve(request: Request, reply: Reply) -> None:
        reads.append(request)
        document = {
            "client_id": f"https://127.0.0.1:{server.port}/oauth/client",
            "client_name": "Fairlead",
            "redirect_uris": [f"https://127.0.0.1:{server.port}/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "web",
        }
        reply.send(200, json.dumps(document).encode())

    async with (
        raw_server(serve, tls=authority.server_context(tmp_path)) as server,
        desk(tmp_path, authority=authority.bundle) as world,
    ):
        here = f"https://127.0.0.1:{server.port}"
        authorization = await world.flow.begin(f"{here}/callback", client_document_url=f"{here}/oauth/client")
        grant, _ = await world.flow.finish(authorization, await world.provider.browse(authorization.url, "alice"))
        await world.store.write(KEY, grant)
        source = world.source()
        token = await source.obtain(ALICE)
        status = await status_with(world.access.server_url, token.value)
        await source.aclose()
        assert world.provider.events_of("registered") == []
    assert [request.path for request in reads] == ["/oauth/client"]
    assert grant.client_id == authorization.client_id == f"{here}/oauth/client"
    assert status == 200


async def test_oidc_provider_refuses_another_servers_resource_in_words_that_say_what_to_set(tmp_path: Path) -> None:
    async with desk(tmp_path, resource="https://other.example.com/mcp") as world:
        authorization = await world.flow.begin(CALLBACK)
        answer = await world.provider.browse(authorization.url, "alice")
        with pytest.raises(GrantFailed, match="set the server's resource") as failed:
            await world.flow.finish(authorization, answer)
    assert failed.value.cause == INVALID_TARGET


async def test_oidc_provider_says_why_it_does_not_register_a_redirect_uri(tmp_path: Path) -> None:
    async with desk(tmp_path) as world:
        with pytest.raises(GrantFailed, match="invalid_redirect_uri") as failed:
            await world.flow.begin("https://gateway.example.com/sign-in/callback#part")
    assert failed.value.cause == CONFIGURATION
    assert "by hand" in str(failed.value)


async def test_python_sdks_authorization_server_takes_the_same_way() -> None:
    async with consent_server("linear") as server:
        access = TokenAccess(server_url=server.url, resolve=resolve_by_dns, server=KEY.server)
        store = MemoryGrants()
        settings = OAuthSettings(grant=USER_CONSENT)
        flow = ConsentFlow(settings, Credential(), access, store)
        authorization = await flow.begin(CALLBACK, challenge=await challenge_of(server.url))
        async with FormBrowser() as browser:
            form = await browser.get(authorization.url)
            back = await browser.press(form, follow=False)
        answer = dict(URL(back.headers["location"]).query)
        assert read_code(answer, state=authorization.state, issuer=authorization.issuer, sends_issuer=False)
        grant, token = await flow.finish(authorization, answer)
        await store.write(KEY, grant)
        source = TokenSource(settings, Credential(), access, store)
        fresh = await source.obtain(ALICE)
        statuses = [await status_with(server.url, value.value) for value in (token, fresh)]
        renewed = await store.read(KEY)
        assert renewed is not None
        assert await flow.revoke(renewed.grant)
        ended = await status_with(server.url, fresh.value)
        same = await flow.begin(CALLBACK)
        server.provider.clients.clear()  # as after a restart, because the provider has them only in memory
        other = await flow.begin(CALLBACK)
        await source.aclose()
        await flow.aclose()
    assert same.client_id == grant.client_id != other.client_id
    assert statuses == [200, 200]
    assert ended == 401
