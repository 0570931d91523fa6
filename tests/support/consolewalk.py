"""Visits all pages of a console in a browser, following only links, and collects the problems of each page.

pages = await walk(chromium, gateway, Look(width=375, dark=True))
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from playwright.async_api import Browser, Page

from consoleworld import WAIT_MS, complaints, too_wide, violations
from gatewayworld import Reachable

MOST_BYTES: Final = 100_000
"""Maximum size of an answer in bytes."""
START: Final = "/console/"
NAVIGATION: Final = 'nav[aria-label="Pages"] a'
EACH: Final = 2
"""Number of visited pages of each kind: the first server fails, the second one works."""
TABBED: Final = """() => {
  const wanted = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const found = [...document.querySelectorAll(wanted)].filter((one) => one.checkVisibility() && !one.disabled);
  found.forEach((one, place) => { one.dataset.walked = place; });
  document.activeElement?.blur();
  window.walked = [];
  window.fetch = () => new Promise(() => {});  // what is live stays as it is meanwhile,
  Element.prototype.replaceChildren = () => {};  // by an answer that is on its way too
  document.addEventListener('focusin', ({ target: one }) => {
    const seen = getComputedStyle(one).outlineStyle !== 'none' || one.matches('.skip');
    window.walked.push({ place: Number(one.dataset.walked ?? -1), seen, html: one.outerHTML.slice(0, 120) });
  });
  return found.map((one) => one.outerHTML.slice(0, 120));
}"""


@dataclass(frozen=True)
class Look:
    """Window and colors of a walk."""

    width: int = 1280
    dark: bool = False
    height: int = 900

    def __str__(self) -> str:
        return f"{self.width}-{'dark' if self.dark else 'light'}"


@dataclass
class WalkedPage:
    """One page."""

    path: str
    size: int
    """Size of its HTML in bytes."""
    problems: list[str] = field(default_factory=list)


async def walk(
    chromium: Browser, gateway: Reachable, look: Look, *, keyboard: bool = False, folder: Path | None = None
) -> list[WalkedPage]:
    """Visit all pages that are linked from the first one, EACH of a kind. With `keyboard`, every control has to be
    reachable with the tab key. Screenshots are saved in `folder`.
    """
    origin = f"http://127.0.0.1:{gateway.port}"
    page = await start_page(chromium, look)
    console_problems = complaints(page)
    foreign = list[str]()
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(origin) else None)
    pages: list[WalkedPage] = []
    waiting = deque([START])
    reached = {START}
    kinds = Counter[str]()
    while waiting:
        visited = await _visit(page, origin, waiting.popleft())
        reached.add(visited.path)
        visited.problems += await violations(page)
        visited.problems += [f"asks {url}" for url in foreign] + console_problems
        if await too_wide(page):
            visited.problems.append("is wider than the window")
        if folder is not None:
            await page.screenshot(path=folder / f"{name_of(visited.path)}-{look}.png", full_page=True)
        if keyboard:
            visited.problems += await out_of_reach(page)
        console_problems.clear()
        foreign.clear()
        pages.append(visited)
        entries = await _links(page, NAVIGATION)
        for link in dict.fromkeys([*entries, *await _links(page, "a[href]")]):
            kind = kind_of(link, entries)
            if link not in reached and kinds[kind] < EACH:
                reached.add(link)
                kinds[kind] += 1
                waiting.append(link)
    await page.context.close()
    return pages


async def start_page(chromium: Browser, look: Look) -> Page:
    """An empty page in a new browser profile, which is closed with its context."""
    profile = await chromium.new_context(
        viewport={"width": look.width, "height": look.height},
        color_scheme="dark" if look.dark else "light",
        reduced_motion="reduce",
    )
    page = await profile.new_page()
    page.set_default_timeout(WAIT_MS)
    return page


async def _visit(page: Page, origin: str, path: str) -> WalkedPage:
    answer = await page.goto(origin + path)
    assert answer is not None
    size = len(await answer.body())
    problems = [] if answer.status == 200 else [f"answered {answer.status}"]
    if size > MOST_BYTES:
        problems.append(f"has {size} bytes")
    if await page.locator("[data-live][id]").count():
        await page.locator("#live:not([hidden])").wait_for()
    return WalkedPage(page.url.removeprefix(origin), size, problems)  # the first page redirects


async def _links(page: Page, selector: str) -> list[str]:
    """Addresses of the console's pages in document order, without fragments."""
    urls = await page.eval_on_selector_all(selector, "all => all.map(one => one.href)")
    targets = []
    for url in urls:
        parts = urlsplit(url)
        if parts.path.startswith(START) and parts.path != START:
            targets.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    return list(dict.fromkeys(targets))


def kind_of(link: str, entries: list[str]) -> str:
    """Kind of a page: its entry in the navigation, and the names of its parameters."""
    parts = urlsplit(link)
    names = sorted({name for name, _ in parse_qsl(parts.query)})
    entry = next((prefix for prefix in entries if parts.path.startswith(f"{prefix}/")), None)
    return f"{parts.path if entry is None else f'{entry}/*'}?{'&'.join(names)}"


def name_of(path: str) -> str:
    """File name of a page's screenshot."""
    return re.sub(r"\W+", "-", path.removeprefix(START)).strip("-") or "first"


async def out_of_reach(page: Page) -> list[str]:
    """Controls that cannot be reached with the tab key, or that do not show the focus."""
    wanted: list[str] = await page.evaluate(TABBED)
    for _ in wanted:
        await page.keyboard.press("Tab")
    focused: list[dict[str, Any]] = await page.evaluate("window.walked")
    reached = {element["place"] for element in focused}
    hidden = {element["html"] for element in focused if not element["seen"]}
    return [
        *(f"not reached by keyboard: {html}" for index, html in enumerate(wanted) if index not in reached),
        *(f"does not show its focus: {html}" for html in sorted(hidden)),
    ]
