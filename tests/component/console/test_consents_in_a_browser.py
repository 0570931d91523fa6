"""Signing in at a server in Chromium, which enforces SameSite and the content security policy, also for forms."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from consentservers import consent_server
from consentworld import SERVER, consent_catalog, laptop, link_of, whoami
from consoleworld import beside_the_browser, complaints, emptied, open_page, too_wide
from fairlead_app.authentication import Trust
from fairlead_gateway.core.identity import LOCAL, Identity
from fixed_authenticator import Names
from gatewayworld import calling
from ports import free_port

ALICE = Identity(kind="apiKey", principal="name:alice", agent="alice")


def complaints_except_icons(problems: list[str]) -> list[str]:
    """Complaints of the browser, except those about icons, which these pages do not have."""
    return [problem for problem in problems if not problem.startswith("Failed to load resource")]


@beside_the_browser
async def test_a_person_signs_in_at_a_server_on_a_laptop(tmp_path: Path, chromium: Browser) -> None:
    async with (
        consent_server("linear", host="localhost") as server,
        emptied(chromium),
        laptop(tmp_path, server) as gateway,
    ):
        link = await link_of(gateway)
        page = await open_page(chromium, gateway, link.partition(str(gateway.port))[2], width=375)
        problems = complaints(page)
        wide = await too_wide(page)
        await page.get_by_role("button", name="Continue to localhost").click()
        await page.get_by_role("button", name="Allow").click()
        await page.get_by_role("heading", name="Signed in at default/linear").wait_for()
        left = [cookie["name"] for cookie in await page.context.cookies()]
        name = await whoami(gateway)
    assert not wide
    assert (name, left, complaints_except_icons(problems)) == ("alice", [], [])


@beside_the_browser
@pytest.mark.parametrize("path", ["/console/servers/default/linear", "/console/accounts"])
async def test_a_person_signs_in_by_the_button_of_a_page_of_the_console(
    tmp_path: Path, chromium: Browser, path: str
) -> None:
    async with (
        consent_server("linear", host="localhost") as server,
        emptied(chromium),
        laptop(tmp_path, server) as gateway,
    ):
        page = await open_page(chromium, gateway, path)
        problems = complaints(page)
        await page.get_by_text("ou have not signed in at default/linear").wait_for()
        await page.get_by_role("button", name="Sign in at default/linear").click()
        await page.get_by_role("button", name="Continue to localhost").click()
        await page.get_by_role("button", name="Allow").click()
        await page.get_by_role("heading", name="Signed in at default/linear").wait_for()
        name = await whoami(gateway)
        await page.goto(f"http://127.0.0.1:{gateway.port}{path}")
        left = await page.get_by_role("button", name="Sign in at default/linear").count()
    assert (name, left, complaints_except_icons(problems)) == ("alice", 0, [])


@beside_the_browser
async def test_a_link_in_another_site_is_opened_by_the_session_of_the_console(
    tmp_path: Path, chromium: Browser
) -> None:
    port = free_port()
    public = {"port": port, "public_url": f"http://127.0.0.1:{port}", "trust": Trust((Names("alice"),))}
    async with (
        consent_server("linear", host="localhost") as server,
        emptied(chromium),
        laptop(tmp_path, consent_catalog(server.url), **public) as gateway,
    ):
        link = await link_of(gateway, ALICE)
        page = await open_page(chromium, gateway, "/console/sign-in")
        problems = complaints(page)
        await page.get_by_label("API key").fill("alice")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await page.get_by_role("link", name="Tools").wait_for()
        await page.goto("about:blank")
        await page.set_content(f'<a href="{link}">a link in a chat, which is another site</a>')
        await page.get_by_role("link").click()
        await page.get_by_role("button", name="Continue to localhost").click()
        await page.get_by_role("button", name="Allow").click()
        await page.get_by_role("heading", name="Signed in at default/linear").wait_for()
        name = await whoami(gateway, calling("linear__whoami").with_headers(authorization="Bearer alice"))
        others = gateway.sign_ins.has_token(LOCAL, SERVER)
    assert (name, others, complaints_except_icons(problems)) == ("alice", False, [])
