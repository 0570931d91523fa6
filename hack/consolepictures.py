"""Makes the pictures of the console for the documentation. Run by `hack/screenshots`, which has the words.

python hack/consolepictures.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from playwright.async_api import Page

from consoleshowcase import SLOW_TOOL, showcase
from consolewalk import NAVIGATION, Look, start_page
from consoleworld import browser
from fairlead_gateway.endpoint.listener import PortTaken

PORT: Final = 8080
"""It is in texts on the pages, so that a free one would change pictures."""
LOOK: Final = Look(width=1100, height=720)
QUESTIONS: Final[Mapping[str, str]] = {
    "access": "/console/access?tool=payments__create_refund&agent=shop-assistant",
    "tools": "/console/tools?q=create",
}
"""Pages of the navigation that show more when they are asked something."""
MORE: Final[Mapping[str, str]] = {
    "failed": "/console/servers/default/mail",
    "hidden": f"/console/tools/{SLOW_TOOL}",
}
"""Pictures beside those of the navigation."""


async def made(folder: Path) -> None:
    """All pictures, as FOLDER/NAME.png. Raises PortTaken."""
    with tempfile.TemporaryDirectory() as documents:
        async with showcase(Path(documents), port=PORT) as gateway, browser() as chromium:
            page = await start_page(chromium, LOOK)
            origin = f"http://127.0.0.1:{gateway.port}"
            await page.goto(f"{origin}/console/")
            paths = [str(await link.get_attribute("href")) for link in await page.locator(NAVIGATION).all()]
            named = {path.removeprefix("/console/"): path for path in paths}
            for name, path in {**named, **QUESTIONS, **MORE}.items():
                await page.goto(origin + path)
                if name == "budget":
                    await _plan(page)
                if await page.locator("[data-live][id]").count():
                    await page.locator("#live:not([hidden])").wait_for()
                await page.screenshot(path=folder / f"{name}.png")
                print(folder / f"{name}.png", file=sys.stderr)


async def _plan(page: Page) -> None:
    """Fill in the form of the page about budgets."""
    await page.get_by_label("Tools at most").fill("128")
    await page.get_by_label("Calls that the task needs").fill("3")
    await page.get_by_label("Messages").fill("Which orders of this week are not paid yet? Remind their customers.")
    await page.get_by_role("button", name="Plan it").click()
    await page.get_by_role("heading", name="List, tier or search?").scroll_into_view_if_needed()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(made(target))
    except PortTaken:
        sys.exit(f"hack/screenshots: port {PORT} is taken, and stands in the pictures: free it")
