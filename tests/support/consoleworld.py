"""The console as a browser or a bare HTTP client sees it.

async with running(tmp_path, *shops(14)) as gateway, emptied(chromium):
    page = await opened(chromium, gateway, "/console/servers")
"""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, Page, async_playwright

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.servers import FAILED, ServerEntry, Servers
from gatewayworld import Answer, Ask, Reachable, ask, catalog
from restworld import get
from toolservers import tool

CHROMIUM: Final = Path("/usr/bin/chromium")
AXE_VERSION: Final = "4.10.3"
WAIT_MS: Final = 15_000
HTML: Final = {"accept": "text/html"}
BROKEN: Final = Servers(
    servers=(
        ServerEntry(
            namespace="default",
            name="mail",
            prefix="mail",
            state=FAILED,
            reason="Invalid",
            cause="StartFailed",
            message="default/mail exited with code 1: MAIL_TOKEN is not set. Check command, args, cwd and env.",
        ),
    )
)
"""A server that has never answered."""
beside_the_browser: Final = pytest.mark.asyncio(loop_scope="session")
"""Mark of tests that use the fixture `chromium`: it belongs to the event loop of the whole run."""


def shops(many: int, each: int = 93, url: str = "http://127.0.0.1:9/mcp") -> list[Catalog]:
    """Catalogs of a number of servers, with a number of tools each."""
    return [
        catalog(f"shop{number:02}", url, [tool(f"item_{index:03}") for index in range(each)]) for number in range(many)
    ]


async def visit(gateway: Reachable, target: str, **headers: str) -> Answer:
    """Answer to a browser's GET, without following redirects."""
    return await get(gateway, target, **{**HTML, **headers})


def cookie_of(answer: Answer) -> str:
    """Cookie that an answer sets, in the form in which a browser sends it."""
    return answer.headers["set-cookie"].partition(";")[0]


async def post_form(gateway: Reachable, target: str, cookie: str = "", origin: str = "", **fields: str) -> Answer:
    """Answer to a submitted form."""
    headers = {"content-type": "application/x-www-form-urlencoded", **HTML}
    headers |= {name: value for name, value in (("cookie", cookie), ("origin", origin)) if value}
    return await ask(gateway, Ask(target=target, body=urlencode(fields).encode(), headers=headers))


async def sign_in(gateway: Reachable, key: str) -> str:
    """Cookie of a new session."""
    return cookie_of(await post_form(gateway, "/console/sign-in", key=key))


def csrf_of(page: Answer) -> str:
    """CSRF token of the session for which a page was made."""
    match = re.search(r'name="csrf" value="([^"]+)"', page.body.decode())
    assert match is not None
    return match[1]


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium of Debian."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: apt-get install chromium")
    async with async_playwright() as drivers:
        chromium = await drivers.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield chromium
        finally:
            await chromium.close()


@contextlib.asynccontextmanager
async def emptied(chromium: Browser) -> AsyncIterator[None]:
    """Close all browser profiles at the end: before the servers of their pages end, and before the next test."""
    try:
        yield
    finally:
        for profile in chromium.contexts:
            await profile.close()


async def open_page(
    chromium: Browser, gateway: Reachable, path: str, *, width: int = 1280, dark: bool = False, **context: Any
) -> Page:
    """A page in a new browser profile. Its errors are collected in `complaints`."""
    profile = await chromium.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        **context,
    )
    page = await profile.new_page()
    page.set_default_timeout(WAIT_MS)
    await page.goto(f"http://127.0.0.1:{gateway.port}{path}")
    return page


def complaints(page: Page) -> list[str]:
    """Errors of scripts and of the Content Security Policy from now on."""
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    return problems


@functools.cache
def axe_source() -> str:
    """Source of axe-core, which is downloaded once into the cache of this machine. Skips the test if npm is not
    reachable.
    """
    folder = Path.home() / ".cache" / "fairlead" / f"axe-core-{AXE_VERSION}"
    file = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = ("npm", "install", "--no-save", "--silent", "--prefix", str(folder), f"axe-core@{AXE_VERSION}")
        try:
            subprocess.run(words, check=True, capture_output=True, timeout=50)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"axe-core cannot be fetched from npm: {error}")
    return file.read_text(encoding="utf-8")


async def violations(page: Page) -> Sequence[str]:
    """Rules of accessibility (WCAG 2.2 AA and best practices) that the page violates, each with the first element."""
    await page.evaluate(axe_source())  # through the debugger, because the page's own policy forbids foreign scripts
    report = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{violation['id']}: {violation['nodes'][0]['html'][:200]}" for violation in report["violations"]]


async def too_wide(page: Page) -> bool:
    """Whether the page has to be scrolled horizontally."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))
