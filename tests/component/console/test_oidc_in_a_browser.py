"""Signing in through an OpenID provider in Chromium, which enforces SameSite and the console's content security
policy."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from playwright.async_api import Browser

from consoleworld import beside_the_browser, complaints, emptied, open_page, too_wide, violations
from fairlead_console.session_cookie import CookieSealer
from gatewayworld import catalog, running
from oidcprovider import console_of, providing


@beside_the_browser
async def test_a_person_signs_in_and_out_and_no_cookie_is_lost_between_two_sites(
    tmp_path: Path, chromium: Browser
) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])
    async with providing() as provider, emptied(chromium):
        provider.asks = True
        provider.url = provider.url.replace("127.0.0.1", "localhost")  # a site other than the console's
        async with running(tmp_path, shop, **console_of(tmp_path, provider)) as gateway:
            page = await open_page(chromium, gateway, "/console/servers", width=375)
            problems = complaints(page)
            form = (await too_wide(page), await violations(page))
            await page.get_by_role("link", name="Sign in with localhost").click()
            await page.get_by_role("button", name="Yes, it is me").click()
            await page.wait_for_url("**/console/servers")
            who = await page.locator(".who").inner_text()
            cookies = {cookie["name"]: cookie["sameSite"] for cookie in await page.context.cookies()}
            await page.get_by_role("button", name="Sign out").click()
            await page.wait_for_url("**/console/sign-in")
            left = [cookie["name"] for cookie in await page.context.cookies()]
            await page.goto(f"http://127.0.0.1:{gateway.port}/console/servers")
            shut = page.url

    assert form == (False, [])
    assert who == "alice"
    assert [*cookies.values()] == ["Strict"]
    assert left == []
    assert shut.endswith("/console/sign-in?next=%2Fconsole%2Fservers")
    assert problems == []


@beside_the_browser
async def test_a_person_whose_token_ended_goes_on_without_a_word(tmp_path: Path, chromium: Browser) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])
    sealer = CookieSealer(b"key")
    async with providing() as provider, emptied(chromium):
        provider.url = provider.url.replace("127.0.0.1", "localhost")
        async with running(tmp_path, shop, **console_of(tmp_path, provider, session_key="key")) as gateway:
            page = await open_page(chromium, gateway, "/console/sign-in")
            await page.get_by_role("link", name="Sign in with localhost").click()
            await page.get_by_role("link", name="Tools").wait_for()
            (cookie,) = await page.context.cookies()
            session = sealer.session(f"{sealer.name}={cookie['value']}")
            assert session is not None
            over = msgspec.structs.replace(session, expires_at=int(time.time()) - 1)
            cookie["value"] = sealer.seal(over, sealer.name)
            await page.context.add_cookies([cookie])  # type: ignore[list-item]  # Playwright's two types of a cookie
            await page.get_by_role("link", name="Tools").click()
            await page.wait_for_url("**/console/tools")
            who = await page.locator(".who").inner_text()

    assert who == "alice"
    assert [request.get("prompt") for request in provider.asked_for] == [None, "none"]
