"""A real browser opens every page that the console's links lead to, at gateways of three sizes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser

from consoleshowcase import showcase
from consolewalk import Look, walk
from consoleworld import BROKEN, beside_the_browser, emptied, visit
from fairlead_api.documents.servers import Servers
from fairlead_app.gateway import Gateway
from gatewayworld import running

DAY = Look(1280)
NIGHT = Look(375, dark=True)
"""Together with DAY: both widths and both color schemes. Colors do not depend on the width."""
OTHERS = (Look(375), Look(1280, dark=True))
PICTURES = os.environ.get("FAIRLEAD_SCREENSHOTS", "")
"""Folder for pictures of all pages; empty: no pictures are made."""


@asynccontextmanager
async def world(name: str, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway by name: `large` with 14 servers, 1,302 tools and a failing server, `broken` with only the failing
    server, `none` without servers."""
    made = showcase(folder) if name == "large" else running(folder, BROKEN if name == "broken" else Servers())
    async with made as gateway:
        yield gateway


def screenshots(name: str) -> Path | None:
    """Folder for the pictures of one gateway; None if no pictures are made."""
    if not PICTURES:
        return None
    folder = Path(PICTURES) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def problems_of(chromium: Browser, name: str, folder: Path, look: Look) -> list[str]:
    """Problems of all pages of one gateway. Asserts that every page was found."""
    async with world(name, folder) as gateway, emptied(chromium):
        first = (await visit(gateway, "/console/servers")).body.decode()
        pages = await walk(chromium, gateway, look, keyboard=look == DAY, folder=screenshots(name))
    entries = first.partition("</nav>")[0].count("<li>")
    assert len(pages) >= entries >= 7
    return [f"{page.path}: {problem}" for page in pages for problem in page.problems]


@beside_the_browser
@pytest.mark.heavy
@pytest.mark.timeout(240)
@pytest.mark.parametrize("look", [DAY, NIGHT], ids=str)
@pytest.mark.parametrize("name", ["large", "broken", "none"])
async def test_every_page_is_sound_at_both_widths_and_in_both_colors(
    chromium: Browser, tmp_path: Path, name: str, look: Look
) -> None:
    assert await problems_of(chromium, name, tmp_path, look) == []


@beside_the_browser
@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize("look", OTHERS, ids=str)
@pytest.mark.parametrize("name", ["large", "broken", "none"])
async def test_every_page_is_sound_in_the_other_colors_too(
    chromium: Browser, tmp_path: Path, name: str, look: Look
) -> None:
    assert await problems_of(chromium, name, tmp_path, look) == []
