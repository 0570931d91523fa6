"""Moves of tools between tiers, on the console's page and over REST, and the reasons that are shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

from consoleworld import beside_the_browser, complaints, emptied, open_page, sign_in, too_wide, violations, visit
from fairlead_api.documents.rules import Policy, Rule, Rules, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fixed_authenticator import Names
from gatewayworld import catalog, publish, running
from restworld import get
from waiting import until_async

PAGE = "/console/tiers"
MOST_BYTES = 100_000
SLOW = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"
TIERS = (Tier(name="fast", max_latency_ms=500), Tier(name="standard", max_latency_ms=1500), Tier(name="deep"))
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


def state_with_decision(*shown: str, why: str = SLOW, names: tuple[str, ...] = ("look",)) -> State:
    """State with a decision about tools of the shop: the tiers that show them, and why other tiers do not."""
    hidden = {tier.name: why for tier in TIERS if tier.name not in shown}
    tools = tuple(ToolState(name=name, tiers=shown, hidden=hidden, fits=dict.fromkeys(shown, why)) for name in names)
    return State(servers=(ServerState(namespace="default", name="shop", tools=tools),))


def shop(*tools: str) -> Any:
    return catalog("shop", "http://127.0.0.1:9/mcp", tools or ("buy", "look"))


async def moves(gateway: Gateway, query: str = "", **headers: str) -> Any:
    return json.loads((await get(gateway, f"/v1/tier-moves{query}", **headers)).body)


async def publish_decision(gateway: Gateway, folder: Path, state: State, total: int) -> None:
    """Publish a decision, and wait until the gateway has seen `moves` moves."""

    async def is_seen() -> bool:
        return len(gateway.rest.administration.moves.all) >= total

    publish(folder / "documents", state)
    await until_async("the move", is_seen)


@beside_the_browser
async def test_a_tool_that_became_slow_and_fast_again_is_told_and_drawn(tmp_path: Path, chromium: Browser) -> None:
    everywhere = state_with_decision("fast", "standard", "deep", why="fits p95=212ms tier=500ms late=0/5")
    async with running(tmp_path, shop(), Rules(tiers=TIERS), everywhere) as gateway, emptied(chromium):
        before = (await visit(gateway, PAGE)).body.decode()
        await publish_decision(gateway, tmp_path, state_with_decision("standard", "deep"), 1)
        await publish_decision(gateway, tmp_path, everywhere, 2)
        document = await moves(gateway)
        page = await open_page(chromium, gateway, PAGE, width=375, dark=True)
        problems = complaints(page)
        text = await page.locator("section", has=page.get_by_role("heading", name="Moves between tiers")).inner_text()
        picture = await page.locator("svg.moves").get_attribute("aria-label")

        assert "No tool has moved since" in before
        assert [(move["before"], move["after"]) for move in document["moves"]] == [
            ("standard", "fast"),
            ("fast", "standard"),
        ]
        assert [(move["tool"], move["left"], move["entered"]) for move in document["moves"]] == [
            ("shop__look", [], ["fast"]),
            ("shop__look", ["fast"], []),
        ]
        assert document["since"] <= document["moves"][1]["at"] <= document["until"]
        assert "shop__look left fast. Too slow: its p95 is 812 ms, and the tier allows 500 ms" in text
        assert "shop__look entered fast. In time: its p95 is 212 ms" in text
        assert picture is not None
        assert picture.endswith("1 moves to slower tiers, 1 to faster tiers")
        assert not await too_wide(page)
        assert await violations(page) == []
        assert problems == []


@beside_the_browser
async def test_texts_of_decisions_and_names_are_text(tmp_path: Path, chromium: Browser) -> None:
    rules = Rules(tiers=TIERS)
    names = (HOSTILE,)
    async with (
        running(
            tmp_path, shop(HOSTILE), rules, state_with_decision("fast", "standard", "deep", names=names)
        ) as gateway,
        emptied(chromium),
    ):
        await publish_decision(gateway, tmp_path, state_with_decision("deep", why=HOSTILE, names=names), 1)
        page = await open_page(chromium, gateway, PAGE)

        assert (await page.title()).startswith("Tiers")
        assert HOSTILE in await page.locator("ol.log").inner_text()
        assert await page.locator("main img").count() == 0


async def test_moves_of_tools_that_somebody_may_not_see_are_not_told_to_them(tmp_path: Path) -> None:
    deny = Rule(action="Deny", tools=("look",))
    policy = Policy(
        namespace="default", name="no-looking", every=True, rules=(deny, Rule(action="Allow", tools=("*",)))
    )
    rules = Rules(tiers=TIERS, policies=(policy,))
    both = ("buy", "look")
    async with running(
        tmp_path,
        shop(),
        rules,
        state_with_decision("fast", "standard", "deep", names=both),
        trust=Trust((Names("npc"),)),
    ) as gateway:
        await publish_decision(gateway, tmp_path, state_with_decision("deep", names=both), 2)
        document = await moves(gateway, authorization="Bearer npc")
        page = await visit(gateway, PAGE, cookie=await sign_in(gateway, "npc"))

    assert [move["tool"] for move in document["moves"]] == ["shop__buy"]
    assert document["total"] == 1
    assert "shop__look" not in page.body.decode()


async def test_the_last_moves_are_kept_within_a_bound_and_the_page_stays_small(tmp_path: Path) -> None:
    names = tuple(f"{'x' * 100}{number:03}" for number in range(600))
    rules = Rules(tiers=TIERS)
    nudge = asyncio.Event()
    everywhere = state_with_decision("fast", "standard", "deep", names=names)
    async with running(tmp_path, shop(*names), rules, everywhere, nudge=nudge) as gateway:
        started = (await moves(gateway))["since"]
        await publish_decision(gateway, tmp_path, state_with_decision("deep", names=names), 500)
        document = await moves(gateway, "?limit=500")
        page = await visit(gateway, PAGE)

    assert (document["total"], len(document["moves"])) == (500, 500)
    assert document["since"] == document["moves"][-1]["at"] > started
    assert len(page.body) <= MOST_BYTES
