"""The console's pages about tools: search, the reason why a tool is hidden, its cost, and the form that calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from consoleworld import (
    beside_the_browser,
    complaints,
    csrf_of,
    emptied,
    open_page,
    post_form,
    shops,
    sign_in,
    too_wide,
    violations,
    visit,
)
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_console.histogram import histogram
from fairlead_console.pages.tools.form_fields import UnreadableArgument, arguments_of, fields_of
from fairlead_console.tier_reasons import reason_in_words
from fixed_authenticator import Names
from gatewayworld import catalog, running
from rawserver import Request
from toolservers import modern_server, tool

MOST_BYTES = 100_000
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
SCHEMA = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "description": "Which one"},
        "many": {"type": "integer"},
        "loud": {"type": "boolean"},
        "size": {"enum": ["small", "large"]},
        "more": {"type": "object"},
    },
    "required": ["item"],
}
TIERS = Rules(tiers=(Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000)))
SLOW = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"
STATE = State(
    servers=(
        ServerState(
            namespace="default",
            name="shop",
            tools=(
                ToolState(
                    name="buy",
                    quantiles=Quantiles(p50_ms=700, p90_ms=800, p95_ms=812, p99_ms=812, samples=5),
                    tiers=("deep",),
                    hidden={"fast": SLOW},
                ),
            ),
        ),
    ),
)


def sales_handler(seen: list[Any], text: str = "sold") -> Any:
    def call(request: Request) -> dict[str, Any]:
        seen.append(request.message["params"])
        return {"content": [{"type": "text", "text": text}]}

    return call


@beside_the_browser
async def test_tools_are_found_while_one_types(tmp_path: Path, chromium: Browser) -> None:
    async with running(tmp_path, *shops(14)) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/tools")
        problems = complaints(page)
        broken = await violations(page)
        await page.keyboard.press("/")
        await page.keyboard.type("shop07 item_01")
        await page.get_by_text("10 tools of 1,302").wait_for()
        names = await page.locator("tbody th").all_inner_texts()
        await page.get_by_label("Server").select_option("default/shop03")
        await page.get_by_text("Nothing found").wait_for()

        assert broken == []
        assert names == [f"shop07__item_01{number}" for number in range(10)]
        assert "q=shop07" in page.url
        assert problems == []


@beside_the_browser
async def test_a_tools_page_says_why_it_is_hidden_and_what_it_costs(tmp_path: Path, chromium: Browser) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", [tool("buy", description="Buy it", inputSchema=SCHEMA)])
    async with running(tmp_path, shop, TIERS, STATE) as gateway, emptied(chromium):
        listed = await visit(gateway, "/console/tools")
        page = await open_page(chromium, gateway, "/console/tools/shop__buy", width=375, dark=True)
        text = await page.locator("main").inner_text()

        assert '<span class="tag warn">hidden</span>' in listed.body.decode()
        assert "Too slow: its p95 is 812 ms, and the tier allows 500 ms" in text
        assert "no policy selects the server" in text
        assert "Anthropic" in text
        assert await violations(page) == []
        assert not await too_wide(page)


@beside_the_browser
async def test_a_tool_is_tried_as_oneself(tmp_path: Path, chromium: Browser) -> None:
    called: list[Any] = []
    async with modern_server(call=sales_handler(called)) as server:
        shop = catalog("shop", server.url, [tool("buy", inputSchema=SCHEMA)])
        async with running(tmp_path, shop) as gateway, emptied(chromium):
            page = await open_page(chromium, gateway, "/console/tools/shop__buy")
            await page.get_by_label("item").fill("rope")
            await page.get_by_label("many").fill("3")
            await page.get_by_label("loud").select_option("true")
            await page.get_by_label("size").select_option('"large"')
            await page.get_by_role("button", name="Call the tool").click()
            result = await page.locator("#result").inner_text()
            picture = await page.get_by_role("img", name="Calls by duration").count()
            copied = await page.locator("#snippet1").inner_text()

            assert [call["arguments"] for call in called] == [
                {"item": "rope", "many": 3, "loud": True, "size": "large"}
            ]
            assert "done" in result
            assert "sold" in result
            assert picture == 1
            assert '"many": 3' in copied
            assert await violations(page) == []


@beside_the_browser
async def test_a_page_does_not_wait_for_the_process_that_counts_tokens(tmp_path: Path, chromium: Browser) -> None:
    async with running(tmp_path, *shops(1, 2), rest_processes=1) as gateway, emptied(chromium):
        first = (await visit(gateway, "/console/tools/shop00__item_000")).body.decode()
        page = await open_page(chromium, gateway, "/console/tools/shop00__item_000")
        problems = complaints(page)
        await page.get_by_text("being counted").first.wait_for(state="detached")
        tokens = await page.locator("#costs td.n").all_inner_texts()

        assert "being counted" in first
        assert all(int(count) > 0 for count in tokens)
        assert len(tokens) >= 3
        assert problems == []


@beside_the_browser
async def test_hostile_names_descriptions_and_results_are_text(tmp_path: Path, chromium: Browser) -> None:
    async with modern_server(call=sales_handler([], HOSTILE)) as server:
        schema = {
            "type": "object",
            "properties": {HOSTILE: {"type": "string", "description": HOSTILE, "enum": [HOSTILE]}},
        }
        definition = tool("buy", description=HOSTILE, title=HOSTILE, inputSchema=schema)
        shop = catalog("shop", server.url, [definition])
        async with running(tmp_path, shop) as gateway, emptied(chromium):
            page = await open_page(chromium, gateway, "/console/tools")
            problems = complaints(page)
            assert HOSTILE in await page.locator("main").inner_text()
            await page.get_by_role("link", name="shop__buy").click()
            await page.get_by_role("button", name="Call the tool").click()
            result = await page.locator("#result").inner_text()

            assert HOSTILE in json.loads(result.partition("\n")[2].strip())["content"][0]["text"]
            assert await page.locator("main img").count() == 0
            assert (await page.title()).startswith("shop__buy")
            assert problems == []


async def test_pages_of_ten_thousand_tools_stay_small_and_a_large_one_is_cut(tmp_path: Path) -> None:
    huge = tool("huge", description="x" * 200_000)
    async with running(tmp_path, *shops(10, 1000), catalog("shop", "http://127.0.0.1:9/mcp", [huge])) as gateway:
        pages = [
            await visit(gateway, target)
            for target in (
                "/console/tools",
                "/console/tools?page=200",
                "/console/tools?q=item",
                "/console/tools?q=huge",
            )
        ]
        detail = await visit(gateway, "/console/tools/shop__huge")

    assert max(len(page.body) for page in [*pages, detail]) <= MOST_BYTES
    assert "10,001" in pages[0].body.decode()
    assert detail.status == 200


async def test_hidden_tools_are_not_found_and_a_form_of_another_session_calls_nothing(tmp_path: Path) -> None:
    called: list[Any] = []
    async with modern_server(call=sales_handler(called)) as server:
        shop = catalog("shop", server.url, ["buy"])
        async with running(tmp_path, shop, trust=Trust((Names("npc", "bard"),))) as gateway:
            npc = await sign_in(gateway, "npc")
            bard = await sign_in(gateway, "bard")
            token = csrf_of(await visit(gateway, "/console/tools/shop__buy", cookie=bard))
            stolen = await post_form(gateway, "/console/tools/shop__buy", npc, csrf=token)
            missing = await visit(gateway, "/console/tools/shop__steal", cookie=npc)

    assert (stolen.status, missing.status) == (403, 404)
    assert called == []


async def test_a_call_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", [tool("buy", inputSchema=SCHEMA)])
    async with running(tmp_path, shop) as gateway:
        first = await visit(gateway, "/console/tools/shop__buy")
        cookie = first.headers["set-cookie"].partition(";")[0]
        fields = {"csrf": csrf_of(first), "argument.item": "rope", "argument.many": "few"}
        wrong = await post_form(gateway, "/console/tools/shop__buy", cookie, **fields)
        away = await post_form(gateway, "/console/tools/shop__buy", cookie, **{**fields, "argument.many": ""})

    assert "No call was made: many is not valid JSON" in wrong.body.decode()
    assert 'value="few"' in wrong.body.decode(), "what was typed stays"
    assert "CONNECTION_LOST" in away.body.decode()


def test_fields_are_as_the_schema_asks() -> None:
    fields = fields_of(SCHEMA)

    assert fields is not None
    assert [(field.name, field.kind, field.required) for field in fields] == [
        ("item", "text", True),
        ("many", "number", False),
        ("loud", "yes-no", False),
        ("size", "choice", False),
        ("more", "json", False),
    ]
    typed = {"argument.item": "", "argument.more": '{"a": [1]}', "argument.size": '"small"'}
    assert arguments_of(fields, typed) == {"item": "", "more": {"a": [1]}, "size": "small"}


@pytest.mark.parametrize("schema", [None, True, {"properties": 3}, {"properties": {str(n): {} for n in range(41)}}])
def test_schemas_without_plain_fields_get_one_for_the_whole(schema: Any) -> None:
    fields = fields_of(schema)

    assert fields is None
    assert arguments_of(fields, {"arguments": '{"a": 1}'}) == {"a": 1}
    with pytest.raises(UnreadableArgument):
        arguments_of(fields, {"arguments": "[1]"})
    with pytest.raises(UnreadableArgument):
        arguments_of(fields, {"arguments": "{" * 100_000})


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (SLOW, "Too slow: its p95 is 812 ms, and the tier allows 500 ms (by its last calls). 5 of its last 5 calls"),
        (SLOW, "It returns after 5 calls in time."),
        ("over_budget estimated=800ms tier=500ms by=declared back=trial-in-30s", "It is tried again in 30 s."),
        ("degraded score=0 failures=4/4 tier=standard back=5-good", "It returns after 5 calls without a failure."),
        ("fits p95=540ms tier=500ms late=8/100 hides-at=15 points=6/30", "It will be hidden after 15 late calls."),
        (
            "fits p95=18213ms tier=500ms late=1/1 hides-at=5 points=18/30",
            "Late, but not often enough to be hidden: its p95 is 18.2 s, and the tier allows 500 ms. 1 of its last 1",
        ),
        ("fits p95=90ms tier=500ms late=0/1 hides-at=5 points=0/30", "In time: its p95 is 90 ms"),
        (
            "over_budget tier=500ms late=4/4 by=recent back=5-in-time",
            "Too slow: none of its calls succeeded in time, and the tier allows 500 ms (by its last calls). 4 of its",
        ),
        ("fits no-limit", "The tier has no limit."),
        (
            "fits unmeasured tier=500ms",
            "Its duration is not known yet: the tier, which allows 500 ms, shows such tools.",
        ),
        ("below_min_tier min_tier=standard tier=500ms by=mcpserver", "No tier faster than standard may show the tool"),
        ("a reason of a later release", "a reason of a later release"),
    ],
)
def test_reasons_of_tiers_are_sentences(reason: str, words: str) -> None:
    assert words in reason_in_words(reason)


def test_a_histogram_shows_what_was_hit_with_a_bucket_on_either_side() -> None:
    picture = histogram((10, 20, 50, 100), (0, 3, 6, 0, 0), [("p95", 44.0)])

    assert picture is not None
    assert [(bar.label, bar.count) for bar in picture.bars] == [
        ("≤ 10 ms", 0),
        ("≤ 20 ms", 3),
        ("≤ 50 ms", 6),
        ("≤ 100 ms", 0),
    ]
    assert max(bar.height for bar in picture.bars) == 2 * picture.bars[1].height
    assert picture.marks[0].x == pytest.approx(2.8 * 160)
    assert "3 ≤ 20 ms; 6 ≤ 50 ms" in picture.summary
    assert histogram((10,), (0, 0), []) is None
