"""Signing in to the console through Dex, in Chromium: sign-in, renewal of an expired token, and sign-out.

Dex, an OpenID provider, has one user (EMAIL, PASSWORD) and one client, the console.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from playwright.async_api import Browser, Page

from consoleworld import beside_the_browser, complaints, emptied, open_page
from dexprocess import dex_process
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_console.session_cookie import CookieSealer
from gatewayworld import catalog, running
from ports import free_port

CLIENT: Final = "fairlead-console"
SECRET: Final = "the secret/of the console+"
EMAIL: Final = "ann@example.com"
PERSON: Final = "ann"
PASSWORD: Final = "password"
PASSWORD_HASH: Final = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
"""bcrypt hash of PASSWORD."""


def configuration(issuer: str, port: int, console: str) -> dict[str, Any]:
    """Configuration file as JSON. `console`: origin of the gateway."""
    return {
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{port}"},
        "oauth2": {"skipApprovalScreen": True},
        "enablePasswordDB": True,
        "sessions": {"rememberMeCheckedByDefault": True},
        "staticClients": [
            {
                "id": CLIENT,
                "name": "The console",
                "secret": SECRET,
                "redirectURIs": [f"{console}/console/sign-in/oidc/callback"],
                "postLogoutRedirectURIs": [f"{console}/console/sign-in"],
            }
        ],
        "staticPasswords": [
            {
                "email": EMAIL,
                "hash": PASSWORD_HASH,
                "username": PERSON,
                "preferredUsername": PERSON,
                "groups": ["staff"],
                "userID": "08a8684b-db88-4b73-90a9-3cd1661f5466",
            }
        ],
    }


@contextlib.asynccontextmanager
async def dex(folder: Path, console: str) -> AsyncIterator[str]:
    """Issuer of a Dex on a free port. Its host is `localhost`, which is a different site from the gateway's to
    browsers."""
    port = free_port()
    issuer = f"http://localhost:{port}/dex"
    async with dex_process(folder, configuration(issuer, port, console)):
        yield issuer


KEY = "key of the sessions"
SEALER = CookieSealer(KEY.encode())
STAFF_ALONE = Rules(
    policies=(
        Policy(
            namespace="default",
            name="staff",
            every=True,
            subjects=(Subject(kind="Group", name="staff"),),
            rules=(Rule(action="Allow", tools=("*",)),),
        ),
    ),
)


@asynccontextmanager
async def signing_in_by_dex(folder: Path) -> AsyncIterator[Gateway]:
    """A gateway with one server, whose tools are for staff, and a console with sign-in through Dex."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    async with dex(folder, base) as issuer:
        file = folder / "identity.yaml"
        issuer_entry = {"issuer": issuer, "agentClaims": ["preferred_username"], "audiences": [CLIENT]}
        file.write_text(json.dumps({"issuers": [issuer_entry]}))
        settings: dict[str, Any] = {
            "identity": file,
            "port": port,
            "public_url": base,
            "console_client_id": CLIENT,
            "console_client_secret": SECRET,
            "console_scopes": ("groups", "profile"),
            "session_key": KEY,
        }
        shop = catalog("shop", "http://127.0.0.1:9/mcp", ["buy"])
        async with running(
            folder, shop, STAFF_ALONE, **settings, trust=build_trust(Settings.of(**settings))
        ) as gateway:
            yield gateway


async def sign_in(page: Page) -> None:
    """Sign in: from the console's form to Dex's form and back."""
    await page.get_by_role("link", name="Sign in with localhost").click()
    await page.locator("#login").fill(EMAIL)
    await page.locator("#password").fill(PASSWORD)
    await page.locator("#submit-login").click()
    await page.locator(".who").wait_for()


async def let_end(page: Page) -> None:
    """Make the token of the console's session expire."""
    cookies = await page.context.cookies()
    (cookie,) = [cookie for cookie in cookies if cookie["name"] == SEALER.name]
    session = SEALER.session(f"{SEALER.name}={cookie['value']}")
    assert session is not None
    over = msgspec.structs.replace(session, expires_at=int(time.time()) - 1)
    cookie["value"] = SEALER.seal(over, SEALER.name)
    await page.context.add_cookies([cookie])  # type: ignore[list-item]  # Playwright's two types of a cookie


@beside_the_browser
@pytest.mark.heavy
async def test_a_person_of_dex_signs_in_goes_on_and_signs_out(tmp_path: Path, chromium: Browser) -> None:
    async with signing_in_by_dex(tmp_path) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/tools")
        problems = complaints(page)
        await sign_in(page)
        who = await page.locator(".who").inner_text()
        tools = await page.locator("tbody th").all_inner_texts()
        await let_end(page)
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        await page.get_by_role("link", name="Tiers").click()
        await page.wait_for_url("**/console/tiers")
        renewed = await page.locator(".who").inner_text()
        silent = [url for url in urls if "/dex/auth?" in url and "prompt=none" in url]
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url("**/console/sign-in")
        left = [cookie["name"] for cookie in await page.context.cookies()]
        await page.get_by_role("link", name="Sign in with localhost").click()
        again = await page.locator("#password").count()

    assert (who, renewed) == (PERSON, PERSON)
    assert [name.strip() for name in tools] == ["shop__buy"]
    assert len(silent) == 1
    assert left == []
    assert again == 1, "Dex asks for the password again: its session ended too"
    assert problems == []


@beside_the_browser
@pytest.mark.heavy
async def test_a_person_whose_session_at_dex_is_gone_signs_in_again(tmp_path: Path, chromium: Browser) -> None:
    async with signing_in_by_dex(tmp_path) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/tools")
        await sign_in(page)
        await let_end(page)
        await page.context.clear_cookies(domain="localhost")
        await page.get_by_role("link", name="Tiers").click()
        text = await page.locator("main").inner_text()
        await sign_in(page)
        address = page.url

    assert "Your session at localhost" in text
    assert address.endswith("/console/tiers")
