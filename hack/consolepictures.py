"""Makes the screenshots of the console for the documentation. Run by `hack/screenshots`, which describes the options.

python hack/consolepictures.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page

from consoleshowcase import CHANGED_SERVER, SLOW_TOOL, showcase, tools_state
from consolewalk import NAVIGATION, Look, start_page
from consoleworld import browser
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_gateway.identity.key_format import encode_keys, new_key
from gatewayworld import publish
from waiting import until_async

PORT: Final = 8080
"""Fixed, because pages show it: a random port would change the screenshots."""
ORIGIN: Final = f"http://127.0.0.1:{PORT}"
LOOK: Final = Look(width=1100, height=720)
TRACES: Final = "http://localhost:9411/zipkin/traces/{trace_id}"
QUESTIONS: Final[Mapping[str, str]] = {
    "access": "/console/access?tool=payments__create_refund&agent=shop-assistant",
    "tools": "/console/tools?q=create",
}
"""Pages of the navigation that show more with a query."""
MORE: Final[Mapping[str, str]] = {
    "failed": "/console/servers/default/mail",
    "hidden": f"/console/tools/{SLOW_TOOL}",
    "held": f"/console/servers/default/{CHANGED_SERVER}/held",
}
"""Additional screenshots of pages outside of the navigation."""
WHOLE: Final = frozenset({"held"})
"""Pages that are photographed in full height."""
MOVING: Final = "forecast__get_station"
MEDIANS: Final = (310.0, 905.0, 60.0)
"""Consecutive medians of that tool in milliseconds: too slow for one tier, too slow for two, and fast again."""
STEP_SECONDS: Final = 5.0
"""Seconds between the tool's moves, which the page draws over time."""


async def made(folder: Path) -> None:
    """Make all screenshots as FOLDER/NAME.png. Raises PortTaken."""
    async with browser() as chromium:
        with tempfile.TemporaryDirectory() as documents:
            async with showcase(Path(documents), port=PORT, console_trace_url=TRACES) as gateway:
                page = await start_page(chromium, LOOK)
                await _pages(page, folder)
                await _call(page, folder)
                await _moves(page, folder, gateway, Path(documents))
        with tempfile.TemporaryDirectory() as documents:
            settings, key = _with_keys(Path(documents))
            async with showcase(Path(documents), port=PORT, **settings):
                await _keys(await start_page(chromium, LOOK), folder, key)


async def _pages(page: Page, folder: Path) -> None:
    """Screenshots of pages that need no interaction."""
    await page.goto(f"{ORIGIN}/console/")
    paths = [str(await link.get_attribute("href")) for link in await page.locator(NAVIGATION).all()]
    named = {path.removeprefix("/console/"): path for path in paths}
    for name, path in {**named, **QUESTIONS, **MORE}.items():
        await page.goto(ORIGIN + path)
        if name == "budget":
            await _plan(page)
        await _taken(page, folder / f"{name}.png", whole=name in WHOLE)


async def _plan(page: Page) -> None:
    """Fill in the form on the page about budgets."""
    await page.get_by_label("Largest number of tools").fill("128")
    await page.get_by_label("Tool calls of the task").fill("3")
    await page.get_by_label("Messages").fill("Which orders of this week are not paid yet? Remind their customers.")
    await page.get_by_role("button", name="Plan it").click()
    await page.get_by_role("heading", name="List, tier or search?").scroll_into_view_if_needed()


async def _call(page: Page, folder: Path) -> None:
    """The newest call, which took two attempts."""
    await page.goto(f"{ORIGIN}/console/calls")
    await page.locator("tbody th a").first.click()
    await _taken(page, folder / "call.png")


async def _moves(page: Page, folder: Path, gateway: Gateway, documents: Path) -> None:
    """A tool that leaves tiers and returns to them."""
    for number, median in enumerate(MEDIANS, 1):
        await asyncio.sleep(STEP_SECONDS)
        publish(documents / "documents", tools_state({MOVING: median}))

        async def has_moved(wanted: int = number) -> bool:
            return len(gateway.rest.administration.moves.all) >= wanted

        await until_async("the move", has_moved)
    await page.goto(f"{ORIGIN}/console/tiers")
    heading = page.get_by_role("heading", name="Moves between tiers")
    await heading.evaluate("heading => heading.closest('section').scrollIntoView()")
    await _taken(page, folder / "moves.png")


def _with_keys(folder: Path) -> tuple[dict[str, Any], str]:
    """Settings of a gateway that recognizes Ann, who may create keys, and her key."""
    now = datetime.now(UTC)
    key, record = new_key("ann", ["staff"], now=now, expires=now + timedelta(days=90))
    (folder / "keys.json").write_bytes(encode_keys([record]))
    settings: dict[str, Any] = {
        "api_keys": folder / "keys.json",
        "made_keys": folder / "made.json",
        "key_makers": ("staff",),
    }
    return {**settings, "trust": build_trust(Settings.of(**settings))}, key


async def _keys(page: Page, folder: Path, key: str) -> None:
    """Keys that a user has created."""
    await page.goto(f"{ORIGIN}/console/connect")
    await page.get_by_label("API key or bearer token").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    for name in ("agent in CI", "editor on my laptop"):
        await page.get_by_label("Name").fill(name)
        await page.get_by_role("button", name="Make a key").click()
        await page.get_by_text(f"Your key “{name}”").wait_for()
    await page.get_by_role("heading", name="2. Get a key").evaluate("heading => heading.scrollIntoView()")
    await _taken(page, folder / "keys.png")


async def _taken(page: Page, file: Path, *, whole: bool = False) -> None:
    """Take a screenshot as soon as the page's live parts are loaded."""
    if await page.locator("[data-live][id]").count():
        await page.locator("#live:not([hidden])").wait_for()
    await page.screenshot(path=file, full_page=whole)
    print(file, file=sys.stderr)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(made(target))
    except PortTaken:
        sys.exit(f"hack/screenshots: port {PORT} is taken, and stands in the pictures: free it")
