"""The console's pages about access, tiers, budgets, scores and clients."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from playwright.async_api import Browser

from consoleworld import (
    beside_the_browser,
    complaints,
    cookie_of,
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
from fairlead_api.client_files.known_clients import CLIENTS
from fairlead_api.client_files.own_program import own_program
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_console.pages.budget.page import BudgetForm
from fixed_authenticator import Names
from gatewayworld import catalog, entry, running
from toolservers import tool

URL = "http://127.0.0.1:9/mcp"
SLOW = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"
TIERS = Rules(
    tiers=(Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000)),
    policies=(
        Policy(
            namespace="default",
            name="no-buying",
            every=True,
            rules=(Rule(action="Deny", tools=("buy",)), Rule(action="Allow", tools=("*",))),
        ),
    ),
)
DECLARED = DeclaredLatency(estimated_duration_ms=50)
SHOP = catalog(
    "shop",
    URL,
    [entry("buy"), entry("look", categories=("windows",)), entry("paint", categories=("windows",), latency=DECLARED)],
)


def tool_state(name: str, p50: float, p95: float, **hidden: str) -> ToolState:
    quantiles = Quantiles(p50_ms=p50, p90_ms=p95, p95_ms=p95, p99_ms=p95, samples=100)
    return ToolState(name=name, quantiles=quantiles, hidden=hidden, tiers=tuple({"fast", "deep"} - {*hidden}))


STATE = State(
    servers=(
        ServerState(
            namespace="default",
            name="shop",
            tools=(tool_state("look", 40, 450), tool_state("paint", 700, 812, fast=SLOW)),
        ),
    )
)
PAGES = (
    "/console/access?tool=shop__look",
    "/console/tiers",
    "/console/scores",
    "/console/budget",
    "/console/connect",
)


@beside_the_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (375, True)])
async def test_the_pages_are_accessible_and_fit(tmp_path: Path, width: int, dark: bool, chromium: Browser) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/", width=width, dark=dark)
        problems = complaints(page)
        broken = []
        wide = []
        for path in PAGES:
            await page.goto(f"http://127.0.0.1:{gateway.port}{path}")
            broken += [f"{path}: {violation}" for violation in await violations(page)]
            wide += [path] if await too_wide(page) else []

        assert broken == []
        assert wide == []
        assert problems == []


async def test_each_page_is_small_with_1300_tools_and_without_any(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    (tmp_path / "none").mkdir()
    async with running(tmp_path / "many", *shops(14), TIERS) as many, running(tmp_path / "none", TIERS) as none:
        answers = [await visit(gateway, path) for gateway in (many, none) for path in PAGES]

    assert [answer.status for answer in answers] == [200] * 10
    assert max(len(answer.body) for answer in answers) <= 100_000


async def test_access_names_the_rule_that_decides(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS) as gateway:
        denied = (await visit(gateway, "/console/access?tool=shop__buy&agent=npc")).body.decode()
        unknown = (await visit(gateway, "/console/access?tool=shop__lookk")).body.decode()
        wrong = (await visit(gateway, "/console/access?tool=shop__look&agent=npc&claims=nonsense")).body.decode()

    assert "<strong>Denied</strong>" in denied
    assert "<strong>default/no-buying</strong>, rule 0" in denied
    assert "Ask about shop__" in unknown
    assert "NAME=VALUE" in wrong


async def test_access_names_the_policy_that_allows_no_calls_a_minute(tmp_path: Path) -> None:
    closed = Policy(
        namespace="default",
        name="closed",
        every=True,
        rules=(Rule(action="Allow", tools=("*",)),),
        limits=PolicyLimits(calls_per_minute=0),
    )
    async with running(tmp_path, SHOP, Rules(policies=(closed,))) as gateway:
        question = (await visit(gateway, "/console/access?tool=shop__buy")).body.decode()
        page = (await visit(gateway, "/console/tools/shop__buy")).body.decode()

    assert "<strong>Denied</strong>: limits.callsPerMinute of default/closed is 0" in question
    assert "<strong>default/closed</strong>, its limits" in question
    assert "<strong>No</strong>: limits.callsPerMinute of default/closed is 0" in page
    assert "default/closed, its limits" in page


async def test_about_others_only_administrators_are_told(tmp_path: Path) -> None:
    trust = Trust((Names("npc"),))
    async with running(tmp_path, SHOP, TIERS, trust=trust, admin_groups=("admins",)) as gateway:
        cookie = await sign_in(gateway, "npc")
        form = (await visit(gateway, "/console/access", cookie=cookie)).body.decode()
        other = (await visit(gateway, "/console/access?tool=shop__look&agent=king", cookie=cookie)).body.decode()

    assert 'name="agent"' not in form
    assert "administrators" in other
    assert "<strong>Allowed" not in other


async def test_tiers_show_what_is_hidden_and_what_nearly_is(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        text = (await visit(gateway, "/console/tiers")).body.decode()

    assert "Too slow: its p95 is 812 ms" in text
    assert "p95 450 ms, 90 % of the limit" in text


async def test_tiers_say_that_a_tool_over_the_limit_was_not_late_often_enough(tmp_path: Path) -> None:
    late = State(servers=(ServerState(namespace="default", name="shop", tools=(tool_state("look", 40, 18_213),)),))
    async with running(tmp_path, SHOP, TIERS, late) as gateway:
        text = (await visit(gateway, "/console/tiers")).body.decode()

    assert "p95 18.2 s, over the limit, but not late often enough to be hidden" in text


async def test_scores_rank_tools_and_hold_declared_against_measured(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        text = (await visit(gateway, "/console/scores?category=windows")).body.decode()

    assert re.findall(r'<li value="(\d)"><a href="/console/tools/(\w+)"', text) == [
        ("1", "shop__look"),
        ("2", "shop__paint"),
    ]
    assert ">misleading<" in text
    assert "Lightning" in text


@beside_the_browser
async def test_scores_without_a_measurement_say_how_to_measure_and_show_no_dash(
    tmp_path: Path, chromium: Browser
) -> None:
    async with running(tmp_path, SHOP, TIERS) as gateway, emptied(chromium):
        page = await open_page(chromium, gateway, "/console/scores", width=390)
        text = await page.locator("main").inner_text()
        entry = await page.locator("nav a[aria-current]").inner_text()
        links = await page.locator("details a").all_text_contents()
        broken = await violations(page)

    assert entry == "Scores"
    assert "fairlead up --probe" in text
    assert "Open a tool" in text
    assert "–" not in text
    assert "Lightning" not in text
    assert links == ["shop__look"]
    assert broken == []


async def test_scores_leave_cells_empty_that_have_no_figure(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        text = (await visit(gateway, "/console/scores")).body.decode()

    assert "Nothing is measured" not in text
    assert "–" not in text.partition("<main")[2]


async def test_a_budget_says_what_fits_and_which_way_is_cheapest(tmp_path: Path) -> None:
    async with running(tmp_path, *shops(2, 40)) as gateway:
        empty = await visit(gateway, "/console/budget")
        cookie = empty.headers["set-cookie"].partition(";")[0]
        csrf = csrf_of(empty)

        async def post_budget(**fields: str) -> str:
            return (await post_form(gateway, "/console/budget", cookie, csrf=csrf, **fields)).body.decode()

        some = await post_budget(model="gpt-4o", messages="Hello", max_tools="3", calls="2")
        wrong = await post_budget(model="gpt-4o", messages="[1", calls="2")
        full = await post_budget(model="gpt-4o", messages=json.dumps([{"role": "user", "content": "word " * 190_000}]))

    assert "gpt-4o takes 3 tools; 77 tools do not fit" in some
    assert ">cheapest<" in some
    assert "begin like JSON but are not valid JSON" in wrong
    assert 'role="status"' in full
    assert 'class="alert"' in full


def test_a_budget_form_with_words_for_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="the limit of tools must be a whole number"):
        BudgetForm(max_tools="many").body()


@pytest.mark.parametrize("keyed", [False, True])
async def test_every_known_client_gets_a_text_that_it_can_read(tmp_path: Path, keyed: bool) -> None:
    trust = Trust((Names("npc"),)) if keyed else Trust()
    async with running(tmp_path, SHOP, TIERS, trust=trust) as gateway:
        cookie = await sign_in(gateway, "npc") if keyed else ""
        page = await visit(gateway, "/console/connect?endpoint=/mcp/deep", **({"cookie": cookie} if keyed else {}))
    text = page.body.decode()
    texts = {key: unescape(shown) for key, shown in re.findall(r'<pre id="text-([\w-]+)"[^>]*>(.*?)</pre>', text, re.S)}

    assert texts.keys() == CLIENTS.keys()
    for name, client in CLIENTS.items():
        assert f"http://127.0.0.1:{gateway.port}/mcp/deep" in texts[name]
        assert any(key in texts[name] for key in ("FAIRLEAD_TOKEN", "fairlead.key")) is keyed
        if client.form == "json":
            assert "fairlead" in json.loads(texts[name])[client.member]
    assert ("export FAIRLEAD_TOKEN" in text) is keyed


@pytest.mark.parametrize("laptop", [True, False])
async def test_programs_that_clients_start_are_named_with_their_path_on_a_laptop(tmp_path: Path, laptop: bool) -> None:
    """An application of the desktop does not have the PATH of the terminal in which Fairlead was installed."""
    async with running(tmp_path, SHOP, console_token="s3cret" if laptop else "") as gateway:
        entered = await visit(gateway, "/console/?token=s3cret")
        page = await visit(gateway, "/console/connect", **({"cookie": cookie_of(entered)} if laptop else {}))
    shown = re.search(r'<pre id="text-claude-desktop"[^>]*>(.*?)</pre>', page.body.decode(), re.S)

    assert shown is not None
    entry = json.loads(unescape(shown[1]))["mcpServers"]["fairlead"]
    program = own_program() if laptop else ("fairlead",)
    assert (entry["command"], *entry["args"]) == (*program, "bridge", f"http://127.0.0.1:{gateway.port}/mcp")


async def test_names_of_tools_and_categories_are_text_on_every_page(tmp_path: Path) -> None:
    hostile = '"><img src=x onerror=alert(1)>'
    shop = catalog("shop", URL, [entry(tool("look", title=hostile), categories=(hostile,), tags=(hostile,))])
    async with running(tmp_path, shop, TIERS, STATE) as gateway:
        paths = (
            "/console/scores",
            f"/console/access?tool={hostile}",
            "/console/tools",
            f"/console/tools?q={hostile}",
        )
        pages = [(await visit(gateway, path.replace(" ", "%20"))).body.decode() for path in paths]

    assert not [page for page in pages if "<img src=x" in page]
    assert all("&lt;img src=x" in page for page in pages)
