"""The console's pages about calls: the live tail, the timeline of a call, escaping of text, and limits on size."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from consoleworld import beside_the_browser, complaints, emptied, open_page, sign_in, too_wide, violations, visit
from fairlead_api.bad_setting import BadSetting
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_console.timeline import TimelinePhase, timeline_picture
from fairlead_console.trace_url import check_trace_url, trace_link
from fairlead_console.wording import OUTCOMES, with_line_breaks
from fairlead_tools import refusal
from fixed_authenticator import Names
from gatewayworld import ask, calling, catalog, legacy, running
from restworld import get
from toolservers import modern_server

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
LIST = "/console/calls"
HOSTILE = "\"><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@asynccontextmanager
async def shop(folder: Path, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway with a server that answers, and a server that cannot be reached."""
    away = catalog("away", "http://127.0.0.1:9/mcp", ["x"])
    async with (
        modern_server() as server,
        running(folder, catalog("demo", server.url, ["add", "sub"]), away, **settings) as gateway,
    ):
        yield gateway


async def newest(gateway: Gateway, **headers: str) -> str:
    """Path of the newest call's page."""
    calls = (await get(gateway, "/v1/calls", **headers)).message["calls"]
    return f"{LIST}/{calls[0]['id']}"


@beside_the_browser
async def test_call_list_shows_new_calls_and_applies_filters_without_a_reload(
    tmp_path: Path, chromium: Browser
) -> None:
    async with shop(tmp_path) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, LIST)
        problems = complaints(page)
        empty = await page.locator("main").inner_text()
        await page.locator("#live:not([hidden])").wait_for()
        await ask(gateway, calling("demo__add", {}))
        await page.get_by_role("link", name="demo__add").wait_for()
        await ask(gateway, calling("away__x", {}))
        await page.get_by_role("link", name="away__x").wait_for()
        await page.reload()  # now the server has rendered both rows; so far, the script has added them
        await page.get_by_label("Outcome").select_option("failed")
        await page.get_by_role("link", name="demo__add").wait_for(state="detached")
        failed = await page.locator("tbody tr").count()
        await ask(gateway, calling("demo__sub", {}))
        await ask(gateway, calling("away__x", {}))
        await page.locator("tbody tr").nth(1).wait_for()
        names = await page.locator("tbody th").all_inner_texts()

    assert "No call yet" in empty
    assert failed == 1
    assert [name.strip() for name in names] == ["away__x", "away__x"]
    assert problems == []


@beside_the_browser
async def test_the_page_of_a_call_shows_its_phases_and_links_its_trace(tmp_path: Path, chromium: Browser) -> None:
    url = "https://traces.example.com/trace/{trace_id}?from=now-1h"
    async with shop(tmp_path, console_trace_url=url) as gateway, emptied(chromium):
        await ask(gateway, calling("demo__add", {}).with_headers(traceparent=PARENT))
        page = await open_page(chromium, gateway, LIST)
        problems = complaints(page)
        await page.get_by_role("link", name="demo__add").click()
        picture = await page.get_by_role("img").get_attribute("aria-label")
        rows = await page.locator("tbody th").all_inner_texts()
        link = await page.get_by_role("link", name="Open the trace").get_attribute("href")
        broken = await violations(page)

    assert rows == ["checks of the gateway", "server", "translation"]
    assert picture is not None
    assert "server" in picture
    assert link == f"https://traces.example.com/trace/{TRACE}?from=now-1h"
    assert broken == []
    assert problems == []


@beside_the_browser
async def test_outcomes_are_words_with_the_code_beside_them(tmp_path: Path, chromium: Browser) -> None:
    async with shop(tmp_path) as gateway, emptied(chromium):
        for name in ("demo__add", "away__x"):
            await ask(gateway, calling(name, {}))
        page = await open_page(chromium, gateway, LIST)
        shown = await page.locator("td .tag").all_inner_texts()
        titles = [await tag.get_attribute("title") for tag in await page.locator("td .tag").all()]
        offered = await page.locator("#outcome option").all_inner_texts()
        await page.get_by_label("Outcome").select_option(label="no connection to the server")
        await page.get_by_role("link", name="demo__add").wait_for(state="detached")
        await page.get_by_role("link", name="away__x").click()
        own = await page.locator("p.alert").inner_text()
        phases = await page.locator("tbody th").all_inner_texts()

    assert shown == ["no connection to the server", "answered"]
    assert titles == ["CONNECTION_LOST", "ok"]
    assert offered == ["any", "answered", "all that failed", "no connection to the server"]
    assert own.startswith("no connection to the server (CONNECTION_LOST) after")
    assert not [phase for phase in phases if re.search("[a-z][A-Z]|_", phase)]


def test_each_code_of_a_refusal_has_words() -> None:
    codes = {value for name, value in vars(refusal).items() if name == value} - {refusal.OUTPUT_SCHEMA_MISMATCH}
    assert codes
    assert codes <= OUTCOMES.keys()
    assert not [words for words in OUTCOMES.values() if words == words.upper()]


@beside_the_browser
async def test_long_names_break_between_server_and_tool(tmp_path: Path, chromium: Browser) -> None:
    name = "a_tool_with_a_long_name_too"
    servers = catalog("inventory-of-the-company", "http://127.0.0.1:9/mcp", [name])
    async with running(tmp_path, servers) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/tools", width=390)
        link = page.get_by_role("link", name=f"inventory-of-the-company__{name}")
        lines = await link.evaluate(
            """link => {
              const lines = {}, range = document.createRange();
              for (const text of [...link.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE))
                for (let at = 0; at < text.length; at++) {
                  range.setStart(text, at); range.setEnd(text, at + 1);
                  const top = Math.round(range.getBoundingClientRect().top);
                  lines[top] = (lines[top] ?? "") + text.data[at];
                }
              return Object.values(lines);
            }"""
        )

    assert lines == ["inventory-of-the-company__", name]


def test_a_name_of_underscores_alone_stays_small() -> None:
    assert len(with_line_breaks("__x" * 1000)) < 3100


@beside_the_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (375, True)])
async def test_the_pages_are_accessible_and_fit(tmp_path: Path, width: int, dark: bool, chromium: Browser) -> None:
    async with shop(tmp_path) as gateway, emptied(chromium):
        empty = await open_page(chromium, gateway, LIST, width=width, dark=dark)
        broken = [*await violations(empty)]
        wide = [await too_wide(empty)]
        for name in ("demo__add", "away__x", "demo__none"):
            await ask(gateway, calling(name, {}))
        for path in (LIST, f"{LIST}?outcome=failed&slow=1", await newest(gateway)):
            page = await open_page(chromium, gateway, path, width=width, dark=dark)
            broken += [f"{path}: {violation}" for violation in await violations(page)]
            wide.append(await too_wide(page))

    assert broken == []
    assert not any(wide)


@beside_the_browser
async def test_the_pages_work_without_scripts(tmp_path: Path, chromium: Browser) -> None:
    async with shop(tmp_path) as gateway, emptied(chromium):
        for name in ("demo__add", "away__x"):
            await ask(gateway, calling(name, {}))
        page = await open_page(chromium, gateway, LIST, java_script_enabled=False)
        await page.locator("#outcome").select_option("ok")
        await page.get_by_role("button", name="Filter").click()
        assert await page.locator("tbody tr").count() == 1
        await page.get_by_role("link", name="demo__add").click()
        assert await page.locator("svg.timeline rect").count() == 3


@beside_the_browser
async def test_names_and_arguments_of_clients_are_text(tmp_path: Path, chromium: Browser) -> None:
    log = {"audit": "all", "audit_arguments": "full", "audit_file": tmp_path / "audit.log"}
    async with shop(tmp_path, **log) as gateway, emptied(chromium):
        await ask(gateway, legacy("tools/call", {"name": HOSTILE, "arguments": {}}))
        await ask(gateway, legacy("tools/call", {"name": "demo__add", "arguments": {HOSTILE: HOSTILE}}))
        page = await open_page(chromium, gateway, LIST)
        problems = complaints(page)
        title = await page.title()
        text = await page.locator("main").inner_text()
        images = await page.locator("main img, main script").count()
        await page.goto(f"http://127.0.0.1:{gateway.port}{await newest(gateway)}")
        shown = await page.get_by_label("Arguments").inner_text()
        images += await page.locator("main img, main script").count()
        filtered = await visit(gateway, f"{LIST}?tool=%22%3E%3Cimg%20src=x%3E&slow=%3Cimg%3E&agent=%3Cimg%3E")

    assert title.startswith("Calls")
    assert "<img src=x" in text
    assert "<script>" in shown
    assert images == 0
    assert "<img" not in filtered.body.decode().partition("<main")[2]
    assert problems == []


async def test_pages_of_many_calls_with_hostile_names_stay_small(tmp_path: Path) -> None:
    log = {"audit": "all", "audit_arguments": "full", "audit_file": tmp_path / "audit.log"}
    async with shop(tmp_path, **log) as gateway:
        for number in range(120):
            await ask(gateway, legacy("tools/call", {"name": f"{number:03}" + '"' * 61, "arguments": {}}))
        await ask(gateway, legacy("tools/call", {"name": '"' * 5000, "arguments": {"a": '"' * 7000}}))
        first = await visit(gateway, LIST)
        match = re.search('rel="next" href="([^"]+)"', first.body.decode())
        assert match is not None
        older = await visit(gateway, f"{LIST}{unescape(match[1])}")
        detail = await visit(gateway, await newest(gateway))
        missing = await visit(gateway, f"{LIST}/other-1")

    assert [page.status for page in (first, older, detail, missing)] == [200, 200, 200, 404]
    assert max(len(page.body) for page in (first, older, detail)) <= 100_000
    assert "Newest" in older.body.decode()


async def test_a_person_sees_its_own_calls(tmp_path: Path) -> None:
    async with shop(tmp_path, trust=Trust((Names("npc", "king"),))) as gateway:
        for key, name in (("npc", "demo__add"), ("king", "demo__sub")):
            await ask(gateway, calling(name, {}).with_headers(authorization=f"Bearer {key}"))
        cookie = await sign_in(gateway, "npc")
        page = await visit(gateway, LIST, cookie=cookie)
        other = await visit(gateway, await newest(gateway, authorization="Bearer king"), cookie=cookie)

    assert "Your last calls" in page.body.decode()
    assert "demo__add" in page.body.decode()
    assert "demo__sub" not in page.body.decode()
    assert other.status == 404


async def test_a_gateway_that_keeps_no_calls_says_which_setting_keeps_them(tmp_path: Path) -> None:
    async with shop(tmp_path, recent_calls=0) as gateway:
        page = await visit(gateway, LIST)

    assert "FAIRLEAD_RECENT_CALLS" in page.body.decode()


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert('{trace_id}')",
        "https://x/",
        "ftp://x/{trace_id}",
        "https:///{trace_id}",
        "/t/{trace_id}",
        "https://x/ {trace_id}",
        "https://x/{trace_id}\n",
        "https://[x/{trace_id}",
    ],
)
async def test_an_address_of_traces_that_cannot_be_is_refused_at_the_start(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadSetting, match="FAIRLEAD_CONSOLE_TRACE_URL"):
        async with running(tmp_path, console_trace_url=url):
            pass


def test_addresses_of_traces_have_the_id_in_its_place() -> None:
    template = check_trace_url("http://localhost:16686/trace/{trace_id}")
    assert trace_link(template, TRACE) == f"http://localhost:16686/trace/{TRACE}"
    assert trace_link(template, "") == trace_link("", TRACE) == check_trace_url("") == ""


def test_a_picture_keeps_its_bars_inside_also_of_a_call_that_took_no_time() -> None:
    phases = [TimelinePhase("checks", "checks", 0.0, 0.0), TimelinePhase("attempt", "server", 1e9, 5.0, failed=True)]
    for whole in (0.0, 1.0):
        picture = timeline_picture(phases, whole)
        assert all(bar.x >= 0 and bar.x + bar.width <= 640.001 for bar in picture.bars)
        assert "failed" in picture.summary
