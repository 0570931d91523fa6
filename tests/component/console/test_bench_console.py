"""`hack/bench console` requests the console's existing pages."""

from __future__ import annotations

import asyncio
from pathlib import Path

from console.consoles import FIRST, Browser, three_consoles
from consoleworld import shops
from fairlead_app.gateway import Gateway
from gatewayworld import running


def browse(gateway: Gateway) -> tuple[list[str], int]:
    """Pages that the benchmark's browser finds, and the number of page views of its consoles, at least one per
    console."""
    browser = Browser(gateway.port)
    pages = browser.pages()
    browser.close()
    with three_consoles(gateway.port, pages) as consoles:
        pass
    return pages, consoles.views


async def test_the_consoles_of_the_benchmark_visit_the_navigation_a_server_and_a_tool(tmp_path: Path) -> None:
    async with running(tmp_path, *shops(1, 3)) as gateway:
        pages, views = await asyncio.to_thread(browse, gateway)

    assert pages[0] == FIRST
    assert pages[-2:] == ["/console/servers/default/shop00", "/console/tools/shop00__item_000"]
    assert views >= 3
