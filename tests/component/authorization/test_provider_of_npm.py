"""Clients sign in users at the npm package `oidc-provider`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from authorizationworld import Attempt, gateway_of, identity_file, target_of
from consentproviders import ConsentProvider, consent_provider
from oidcprovider import BareBrowser, parameters
from ports import free_port


async def client_metadata(provider: ConsentProvider, redirect_uri: str) -> dict[str, Any]:
    """The gateway as a client of the provider."""
    wanted = {
        "redirect_uris": [redirect_uri],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
    }
    async with aiohttp.ClientSession() as session, session.post(f"{provider.base}/reg", json=wanted) as answer:
        assert answer.status == 201, await answer.text()
        client: dict[str, Any] = await answer.json()
        return client


async def token_answer(base: str, path: str = "/oauth/token", **fields: str) -> tuple[int, dict[str, Any]]:
    """Post a form to the token endpoint. Returns status and members of the answer."""
    async with aiohttp.ClientSession() as session, session.post(base + path, data=fields) as answer:
        return answer.status, await answer.json()


async def test_person_signs_in_and_the_client_refreshes_until_it_ends_the_sign_in(tmp_path: Path) -> None:
    port = free_port()
    async with consent_provider(tmp_path, {}) as provider:
        client = await client_metadata(provider, f"http://127.0.0.1:{port}/oauth/callback/corp")
        (tmp_path / "secret").write_text(client["client_secret"])
        settings = {
            "issuer": "corp",
            "clientId": client["client_id"],
            "clientSecretFile": str(tmp_path / "secret"),
            "prompt": "consent",
        }
        file = identity_file(tmp_path, [{"issuer": provider.issuer, "name": "corp"}], [settings])
        async with gateway_of(tmp_path, file, port=port) as (base, gateway):
            browser, attempt = BareBrowser(base), Attempt(more={"resource": f"{base}/mcp"})
            begun = await browser.get(f"/oauth/authorize?{urlencode(attempt.query)}")
            assert begun.status == 303, begun.text
            back = await provider.browse(begun.location, "alice")
            page = await browser.get(f"/oauth/callback/corp?{urlencode(back)}")
            assert page.status == 200, page.text
            hidden = {"id": "", "token": ""}
            for name in hidden:
                hidden[name] = page.text.partition(f'name="{name}" value="')[2].partition('"')[0]
            answer = parameters(target_of(await browser.post("/oauth/consent", **hidden, decision="allow")))
            assert answer["iss"] == base
            code = {"grant_type": "authorization_code", "client_id": attempt.client_id, "code": answer["code"]}
            proof = {"redirect_uri": attempt.redirect_uri, "code_verifier": attempt.verifier}
            status, tokens = await token_answer(base, **code, **proof)
            assert status == 200, tokens
            identity = await gateway.endpoint.identities.identify(f"Bearer {tokens['access_token']}".encode())
            assert getattr(identity, "principal", identity) == f"jwt:{provider.issuer}#alice/{attempt.client_id}"
            refresh = {"grant_type": "refresh_token", "client_id": attempt.client_id}
            for _ in range(3):
                status, tokens = await token_answer(base, **refresh, refresh_token=tokens["refresh_token"])
                assert status == 200, tokens
            assert len(provider.events_of("grant")) == 4
            revoked = {"token": tokens["refresh_token"], "client_id": attempt.client_id}
            assert (await token_answer(base, "/oauth/revoke", **revoked))[0] == 200
            status, refusal = await token_answer(base, **refresh, refresh_token=tokens["refresh_token"])
            assert (status, refusal["error"]) == (400, "invalid_grant")
