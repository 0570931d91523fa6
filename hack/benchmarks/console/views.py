"""Size and speed of the console's pages: time to the last byte, and to the first paint in Chromium."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from console.consoles import Browser, start_console
from rig.harness import Cell, Goal, Report, Sample, Settings
from rig.processes import Stage, cores, cpu_time

CHROMIUM: Final = Path("/usr/bin/chromium")
TIMES: Final = 40
"""Requests of each page."""
PAINTS: Final = 10
"""Paints of each page by Chromium."""
AT_MOST_MS, AT_MOST_KB = 300, 100
PAINTED: Final = """new Promise((done) => new PerformanceObserver((list) => {
  for (const one of list.getEntriesByName('first-contentful-paint')) done(one.startTime);
}).observe({ type: 'paint', buffered: true }))"""
"""Milliseconds of the first contentful paint; waits until it has happened."""
BARE: Final = "/v1/tiers"
"""A small answer without style or script. Its paint time is Chromium's own."""
VIEW_COLUMNS: Final = ("first ms", "ms", "CPU ms", "paint ms", "kB", "kB gzip")


def views(settings: Settings, report: Report, tools: int) -> list[dict[str, Cell]]:
    """One row for each page of a gateway with `tools` tools, and the goals. Raises Unmeasurable."""
    times = 3 if settings.quick else TIMES
    rows: list[dict[str, Cell]] = []
    with Stage() as stage:
        gateway = start_console(stage, tools, cores()).gateway
        port = gateway.port
        browser = Browser(port)
        begun = browser.page("/console/servers")[2]  # the first request loads the console
        pages = browser.pages()
        first = {path: browser.page(path)[2] for path in pages}
        for path in pages:
            before = cpu_time(gateway.pid).total
            seen = [browser.page(path) for _ in range(times)]
            spent = 1000 * (cpu_time(gateway.pid).total - before) / times
            html, wire, _ = seen[-1]
            took = Sample.of(view[2] for view in seen)
            sizes: dict[str, Cell] = {"kB": len(html) / 1000, "kB gzip": wire / 1000}
            rows.append({"what": path, "tools": tools, "ms": took, "CPU ms": spent, **sizes})
        browser.close()
        painted = paints(port, [BARE, *pages], 3 if settings.quick else PAINTS)
    for row in rows:
        path = str(row["what"])
        row |= {"first ms": begun if path == pages[0] else first[path], "paint ms": painted.get(path)}
    if bare := painted.get(BARE):
        report.notes.append(f"{tools:,} tools: Chromium paints an answer of two lines in {bare.median:.0f} ms")
    report.goals.append(Goal(f"first page after a start, {tools:,} tools", begun, "ms", at_most=AT_MOST_MS))
    report.goals += _goals(rows, tools, [first[path] for path in pages])
    return rows


def _goals(rows: list[dict[str, Cell]], tools: int, first: list[float]) -> list[Goal]:
    served = [row["ms"].median for row in rows if isinstance(row["ms"], Sample)]
    painted = [row["paint ms"].median for row in rows if isinstance(row["paint ms"], Sample)]
    sizes = [row["kB"] for row in rows if isinstance(row["kB"], float)]
    where = f"{tools:,} tools"
    return [
        Goal(f"view of the slowest page, {where}", max(served), "ms", at_most=AT_MOST_MS),
        Goal(f"slowest of all first views of a page, {where}", max(first), "ms", at_most=AT_MOST_MS),
        Goal(f"first paint of the slowest page, {where}", max(painted, default=None), "ms", at_most=AT_MOST_MS),
        Goal(f"largest page, {where}", max(sizes), "kB", at_most=AT_MOST_KB),
    ]


def paints(port: int, pages: list[str], times: int) -> dict[str, Sample]:
    """Milliseconds from the navigation to the first contentful paint, in a profile without a cache. Empty without
    Chromium.
    """
    if not CHROMIUM.exists():
        return {}
    from playwright.sync_api import sync_playwright

    times_by_path: dict[str, list[float]] = {path: [] for path in pages}
    with sync_playwright() as drivers:
        chromium = drivers.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        for _ in range(times):
            for path in pages:
                profile = chromium.new_context(viewport={"width": 1280, "height": 900})
                page = profile.new_page()
                page.goto(f"http://127.0.0.1:{port}{path}")
                times_by_path[path].append(float(page.evaluate(PAINTED)))
                profile.close()
        chromium.close()
    return {path: Sample(statistics.median(values), min(values), max(values)) for path, values in times_by_path.items()}
