"""A client signs in a user of Dex, whose groups decide which tools the client may call."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import aiohttp
from yarl import URL

from authorizationworld import Attempt, gateway_of, hidden_fields, identity_file, target_of
from dexprocess import dex_process
from dexworld import CLIENT, LOGIN, SECRET, STAFF_ALONE, configuration
from oidcprovider import BareBrowser, parameters
from ports import free_port


async def log_in(url: str, callback: str) -> str:
    """Log in at Dex. Returns the URL to which Dex redirects."""
    fields: dict[str, str] | None = None
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        for _ in range(8):
            verb = "GET" if fields is None else "POST"
            async with session.request(verb, URL(url, encoded=True), data=fields, allow_redirects=False) as answer:
                text, location = await answer.text(), answer.headers.get("location", "")
                assert answer.status < 400, text
            if location.startswith(callback):
                return location
            form = re.search(r'<form[^>]*action="([^"]+)"', text)
            assert location or form is not None, text
            fields = None if location or form is None else LOGIN
            url = urljoin(url, location or unescape(form[1] if form else ""))
    raise AssertionError(f"Dex does not come to an end: {url}")


async def answer_to(base: str, **fields: str) -> dict[str, Any]:
    """The token endpoint's answer to a form."""
    async with aiohttp.ClientSession() as session, session.post(f"{base}/oauth/token", data=fields) as answer:
        assert answer.status == 200, await answer.text()
        members: dict[str, Any] = await answer.json()
        return members


async def tools_of(base: str, token: str) -> list[str]:
    """Names of the tools that a client sees."""
    headers = {"authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(f"{base}/v1/tools", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return [tool["name"] for tool in (await answer.json())["tools"]]


async def test_person_of_dex_has_the_tools_of_her_groups_by_a_client(tmp_path: Path) -> None:
    port, dex_port = free_port(), free_port()
    issuer, callback = f"http://localhost:{dex_port}/dex", f"http://127.0.0.1:{port}/oauth/callback/corp"
    async with dex_process(tmp_path, configuration(issuer, dex_port, callback)):
        (tmp_path / "secret").write_text(SECRET)
        client = {"issuer": "corp", "clientId": CLIENT, "clientSecretFile": str(tmp_path / "secret")}
        file = identity_file(tmp_path, [{"issuer": issuer, "name": "corp"}], [client])
        async with gateway_of(tmp_path, file, STAFF_ALONE, port=port) as (base, _):
            browser, attempt = BareBrowser(base), Attempt()
            begun = await browser.get(f"/oauth/authorize?{urlencode(attempt.query)}")
            page = await browser.get(await log_in(begun.location, callback))
            assert "ann@example.com" in page.text
            allowed = await browser.post("/oauth/consent", **hidden_fields(page), decision="allow")
            code = {"code": parameters(target_of(allowed))["code"], "redirect_uri": attempt.redirect_uri}
            own = {"client_id": attempt.client_id}
            tokens = await answer_to(
                base, grant_type="authorization_code", **own, **code, code_verifier=attempt.verifier
            )
            assert await tools_of(base, tokens["access_token"]) == ["shop__buy"]
            for _ in range(2):
                tokens = await answer_to(base, grant_type="refresh_token", **own, refresh_token=tokens["refresh_token"])
            assert await tools_of(base, tokens["access_token"]) == ["shop__buy"]
