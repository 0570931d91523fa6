"""A client that is a web page signs a user in, in Chromium, which enforces CORS, SameSite and `form-action`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

from playwright.async_api import Browser, Page

from authorizationworld import LOCAL_BACK, LOCAL_ID, Attempt, authorization_world
from consoleworld import WAIT_MS, beside_the_browser, complaints, emptied
from dexworld import LOGIN, dex_world
from rawserver import RawServer, Reply, Request, raw_server

REGISTERED = {"registration": {"redirectHosts": ["localhost"]}}
SCRIPT = """
const headers = {'content-type': 'application/json', accept: 'application/json, text/event-stream'};
const era = {'mcp-protocol-version': '2025-11-25'};
const list = JSON.stringify({jsonrpc: '2.0', id: 1, method: 'tools/list'});
const json = async (url, options = {}) => (await fetch(url, {headers: era, ...options})).json();

async function authorizationUrl(mcp) {
  const refusal = await fetch(mcp, {method: 'POST', headers: {...headers, ...era}, body: list});
  const challenge = refusal.headers.get('www-authenticate');
  const resource = await json(/resource_metadata="([^"]+)"/.exec(challenge)[1]);
  const issuer = resource.authorization_servers[0];
  const server = await json(`${issuer}/.well-known/oauth-authorization-server`);
  const redirect = `${location.origin}/back`;
  const wanted = {redirect_uris: [redirect], client_name: 'Page', token_endpoint_auth_method: 'none'};
  const body = JSON.stringify(wanted);
  const client = await json(server.registration_endpoint, {method: 'POST', headers, body});
  const verifier = [...crypto.getRandomValues(new Uint8Array(32))].map((b) => b.toString(16)).join('').padEnd(43, '0');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  const challenge64 = btoa(String.fromCharCode(...new Uint8Array(digest)));
  const code_challenge = challenge64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
  const kept = {client_id: client.client_id, redirect_uri: redirect, code_verifier: verifier};
  sessionStorage.setItem('kept', JSON.stringify({token: server.token_endpoint, kept, resource: resource.resource}));
  const query = {response_type: 'code', client_id: client.client_id, redirect_uri: redirect, code_challenge,
                 code_challenge_method: 'S256', resource: resource.resource, state: 'a state'};
  return `${server.authorization_endpoint}?${new URLSearchParams(query)}`;
}

async function tools(mcp) {
  const {token, kept, resource} = JSON.parse(sessionStorage.getItem('kept'));
  const code = new URLSearchParams(location.search).get('code');
  let body = new URLSearchParams({grant_type: 'authorization_code', code, resource, ...kept});
  const first = await (await fetch(token, {method: 'POST', body})).json();
  const refresh = {grant_type: 'refresh_token', refresh_token: first.refresh_token, client_id: kept.client_id};
  const tokens = await (await fetch(token, {method: 'POST', body: new URLSearchParams(refresh)})).json();
  const authorization = `Bearer ${tokens.access_token}`;
  const answer = await fetch(mcp, {method: 'POST', headers: {...headers, ...era, authorization}, body: list});
  return (await answer.json()).result.tools.map((tool) => tool.name);
}
"""


@contextlib.asynccontextmanager
async def page_host(html: str) -> AsyncIterator[RawServer]:
    """A server with one page at all paths."""

    async def show(request: Request, reply: Reply) -> None:
        reply.send(200, f"<!doctype html><link rel=icon href=data:,>{html}".encode(), kind="text/html")

    async with raw_server(show) as server:
        yield server


async def empty_page(chromium: Browser) -> Page:
    page = await (await chromium.new_context()).new_page()
    page.set_default_timeout(WAIT_MS)
    return page


@beside_the_browser
async def test_page_registers_signs_a_person_of_dex_in_and_lists_tools(tmp_path: Path, chromium: Browser) -> None:
    async with (
        page_host(f"<script>{SCRIPT}</script>") as host,
        dex_world(tmp_path, server=REGISTERED) as world,
        emptied(chromium),
    ):
        mcp = f"{world.base}/mcp"
        page = await empty_page(chromium)
        await page.goto(f"http://localhost:{host.port}/")  # a site other than the gateway's
        await page.goto(await page.evaluate("(mcp) => authorizationUrl(mcp)", mcp))
        await page.locator("[name=login]").fill(LOGIN["login"])
        await page.locator("[name=password]").fill(LOGIN["password"])
        await page.locator("[type=submit]").click()
        problems = complaints(page)
        await page.get_by_role("button", name="Allow").click()
        await page.wait_for_url(f"http://localhost:{host.port}/back?*")
        names = await page.evaluate("(mcp) => tools(mcp)", mcp)
        left = [cookie["name"] for cookie in await page.context.cookies(world.base) if "fairlead" in cookie["name"]]
    assert names == ["shop__buy"]
    assert left == []
    assert problems == []


@beside_the_browser
async def test_consent_is_asked_in_a_window_and_not_in_a_frame(tmp_path: Path, chromium: Browser) -> None:
    async with authorization_world(tmp_path) as world, emptied(chromium):
        url = f"{world.base}/oauth/authorize?{urlencode(Attempt(LOCAL_ID, LOCAL_BACK).query)}"
        async with page_host('<iframe name="framed"></iframe>') as host:
            page = await empty_page(chromium)
            problems = complaints(page)
            await page.goto(f"http://127.0.0.1:{host.port}/")  # the gateway's site, so that cookies are sent
            async with page.expect_event("console", lambda message: "frame" in message.text):
                await page.evaluate("(url) => { document.querySelector('iframe').src = url; }", url)
            inner = page.frame("framed")
            assert inner is not None
            framed = await inner.locator("button").count()
            cookies = await page.context.cookies(world.base)
            await page.goto(url)
            shown = await page.get_by_role("button", name="Allow").count()
    assert (framed, shown) == (0, 1)
    assert any("frame-ancestors" in problem or "X-Frame-Options" in problem for problem in problems)
    assert {(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies} == {(True, "Lax")}
