"""Whether a list, a tier or search is cheapest, at a real gateway, by REST and by a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from commands import wide_fairlead
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.configuration import Models
from fairlead_formats.tokens.counting import best_counter
from fairlead_formats.tokens.prices import ModelPrice
from fairlead_gateway.core.meta_tools import INSTRUCTIONS
from fairlead_offers.plan.exposed_tools import INSTRUCTIONS_TOKENS
from fairlead_operator.publish.compile import compile_rules
from gatewayworld import ask, calling, catalog, entry, modern, running
from restworld import get, post, problem
from routercalls import ROUTER

NOWHERE = "http://127.0.0.1:9/mcp"
RULES = compile_rules([], [], {})
MODEL = "gpt-5-mini"


def tool(number: int) -> dict[str, Any]:
    """A tool of about 60 tokens."""
    words = f"Look up record {number} of the warehouse by its number, and answer with place, weight and owner of it."
    schema = {"type": "string", "description": "Number as it stands on the label."}
    return {
        "name": f"look_up_{number}",
        "description": words,
        "inputSchema": {"type": "object", "properties": {"n": schema}},
    }


def shop(count: int) -> Any:
    return catalog("shop", NOWHERE, [entry(tool(number)) for number in range(count)])


def measured_state(slow: int, count: int) -> State:
    """State of `count` tools. The first `slow` of them are not in tiers faster than `standard`."""
    tools = [
        ToolState(
            name=f"look_up_{number}",
            quantiles=Quantiles(p50_ms=ms, p90_ms=ms, p95_ms=ms, p99_ms=ms, samples=50),
            tiers=("standard", "deep") if number < slow else ("fast", "standard", "deep"),
            hidden={"fast": "over_budget"} if number < slow else {},
        )
        for number in range(count)
        for ms in (812 if number < slow else 40,)
    ]
    return State(
        servers=(ServerState(namespace="default", name="shop", tools=tuple(tools)),), decided_at="2026-01-31T09:00:00Z"
    )


def by_way(answer: Any) -> dict[str, dict[str, Any]]:
    options = answer["exposure"]["options"]
    return {f"{option['way']} {option.get('tier', '')}".strip(): option for option in options}


async def test_a_plan_says_nothing_about_a_task_that_it_was_not_asked_about(tmp_path: Path) -> None:
    async with running(tmp_path, shop(2)) as gateway:
        answer = (await post(gateway, "/v1/plan", {"models": [MODEL]})).message
    assert "exposure" not in answer


async def test_a_list_is_cheapest_for_few_tools(tmp_path: Path) -> None:
    async with running(tmp_path, shop(5)) as gateway:
        exposure = (await post(gateway, "/v1/plan", {"models": [MODEL], "task": {}})).message["exposure"]
    assert exposure["cheapest"]["way"] == "list"
    assert exposure["advice"].startswith("a list of all 5 tools is cheapest")


async def test_search_is_cheapest_for_many_tools(tmp_path: Path) -> None:
    async with running(tmp_path, shop(400)) as gateway:
        answer = (await post(gateway, "/v1/plan", {"models": ["claude-sonnet-5"], "task": {}})).message
    assert answer["exposure"]["cheapest"]["way"] == "search"
    assert "search at /router/mcp is cheapest" in answer["exposure"]["advice"]
    ways = by_way(answer)
    assert (ways["list"]["listed"], ways["list"]["turns"]) == (400, 2)
    assert (ways["search"]["listed"], ways["search"]["reachable"], ways["search"]["turns"]) == (3, 400, 3)
    assert ways["list"]["tokens"] == 2 * ways["list"]["toolTokens"] == 2 * answer["numbers"]["toolTokens"]
    assert ways["list"]["tokens"] == ways["list"]["pricedTokens"]


async def test_a_search_costs_what_its_endpoint_lists_and_answers(tmp_path: Path) -> None:
    """The costs are compared with the tokens of real lists and answers of `/router/mcp`."""
    search_tools = calling("search_tools", {"query": "look up a record in the warehouse"}).to(ROUTER)
    async with running(tmp_path, shop(50)) as gateway:
        plan = (await post(gateway, "/v1/plan", {"models": [MODEL], "task": {"calls": 0, "searches": 1}})).message
        listed = (await ask(gateway, modern("tools/list").to(ROUTER))).message["result"]["tools"]
        answer = await ask(gateway, search_tools)
    text = answer.message["result"]["content"][0]["text"]
    assert len(json.loads(text)["tools"]) == 8
    search = by_way(plan)["search"]
    assert search["listed"] == len(listed)
    tokens = search["largestPrompt"] - search["toolTokens"] - INSTRUCTIONS_TOKENS
    assert tokens == pytest.approx(best_counter().count(text), rel=0.15)
    assert best_counter().count(INSTRUCTIONS) == INSTRUCTIONS_TOKENS


async def test_a_tier_is_compared_by_the_tools_that_it_shows(tmp_path: Path) -> None:
    body = {"models": [MODEL], "tier": "deep", "task": {"calls": 2}}
    async with running(tmp_path, shop(20), RULES, measured_state(18, 20)) as gateway:
        answer = (await post(gateway, "/v1/plan", body)).message
        shown = (await get(gateway, "/v1/tools?format=openai&tier=fast")).message["names"]
    ways = by_way(answer)
    assert list(ways) == ["list deep", "tier fast", "tier standard", "search"]
    assert ways["tier fast"]["listed"] == ways["tier fast"]["reachable"] == len(shown) == 2
    assert answer["exposure"]["cheapest"] == ways["tier fast"]
    assert "tier fast is cheapest" in answer["exposure"]["advice"]
    assert "It hides 18 tools; with all of them" in answer["exposure"]["advice"]


async def test_a_caller_in_a_default_tier_has_the_list_of_that_tier_once(tmp_path: Path) -> None:
    rules = replace(RULES, tiers=tuple(replace(tier, default=tier.name == "fast") for tier in RULES.tiers))
    async with running(tmp_path, shop(20), rules, measured_state(10, 20)) as gateway:
        answer = (await post(gateway, "/v1/plan", {"models": [MODEL], "task": {}})).message
    assert list(by_way(answer)) == ["list fast", "tier deep", "tier standard", "search"]
    assert answer["exposure"]["advice"].startswith("a list of all 10 tools of tier fast is cheapest")


async def test_an_exposure_that_no_request_can_hold_is_not_the_cheapest(tmp_path: Path) -> None:
    body = {"models": ["gpt-4o"], "task": {"calls": 0, "turns": 1, "searches": 60}}
    async with running(tmp_path, shop(150)) as gateway:
        wide = (await post(gateway, "/v1/plan", body)).message
        narrow = (await post(gateway, "/v1/plan", {**body, "toolTokens": 600})).message
    assert wide["exposure"]["advice"].endswith("which does not fit")
    wide = by_way(wide)
    assert wide["list"]["fits"] is False, "OpenAI takes 128 tools"
    assert wide["search"]["fits"] is True
    ways = by_way(narrow)
    assert {way: option["fits"] for way, option in ways.items()} == {"list": False, "search": True}
    assert narrow["exposure"]["cheapest"]["way"] == "search"
    assert ways["search"]["pricedTokens"] > ways["list"]["pricedTokens"]


async def test_pinned_tools_and_those_of_the_caller_are_in_every_way(tmp_path: Path) -> None:
    own = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}
    body = {"models": [MODEL], "task": {}, "tools": [own], "toolsFormat": "openai"}
    async with running(tmp_path, shop(4)) as gateway:
        ways = by_way((await post(gateway, "/v1/plan", body)).message)
    assert {way: (option["listed"], option["reachable"]) for way, option in ways.items()} == {
        "list": (5, 5),
        "search": (4, 5),
    }


async def test_caching_makes_a_list_cheaper_and_a_warm_cache_most(tmp_path: Path) -> None:
    task = {"calls": 3, "conversationTokens": 2000}
    async with running(tmp_path, shop(100)) as gateway:

        async def ways(**more: Any) -> dict[str, dict[str, Any]]:
            body = {"models": ["claude-sonnet-5"], "task": {**task, **more}}
            return by_way((await post(gateway, "/v1/plan", body)).message)

        plain = await ways()
        cold = await ways(caching=True)
        warm = await ways(caching=True, warm=True)
        dear = await ways(caching=True, cacheReadFactor=1, cacheWriteFactor=1)
    prices = [each["list"]["pricedTokens"] for each in (warm, cold, plain)]
    assert prices == sorted(prices)
    assert len(set(prices)) == 3
    assert len({each["list"]["tokens"] for each in (plain, cold, warm)}) == 1
    assert dear["list"]["pricedTokens"] == plain["list"]["pricedTokens"]


async def test_prices_that_the_installation_states_count_before_the_published_ones(tmp_path: Path) -> None:
    body = {"models": ["claude-sonnet-5"], "task": {"calls": 3, "conversationTokens": 2000, "caching": True}}
    priced = []
    for number, prices in enumerate(({}, {"claude-sonnet-5": ModelPrice(input=3, output=15, cached_input=3)})):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder, shop(100), models=Models(prices=prices)) as gateway:
            priced.append(by_way((await post(gateway, "/v1/plan", body)).message)["list"]["pricedTokens"])
    assert priced[0] < priced[1]


@pytest.mark.parametrize("task", [{"turn": 3}, {"turns": 0}, {"calls": -1}, {"searches": 1001}, {"caching": 1}, 7])
async def test_a_task_that_cannot_be_read_is_refused(tmp_path: Path, task: object) -> None:
    async with running(tmp_path, shop(1)) as gateway:
        answer = await post(gateway, "/v1/plan", {"models": [MODEL], "task": task})
    assert problem(answer) == (400, "INVALID_ARGUMENTS")
    assert answer.message["detail"].startswith("task")


async def test_the_command_prints_the_ways_and_the_cheapest(tmp_path: Path) -> None:
    async with running(tmp_path, shop(200)) as gateway:
        words = ("plan", "--model", MODEL, "--turns", "4", "--calls", "3", "--searches", "1")
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        table = await stdout_of(*words, *url)
        cached = json.loads(await stdout_of(*words, "--caching", "--warm", "--json", *url))
    ways = by_way(cached)
    assert (ways["list"]["turns"], ways["search"]["turns"]) == (4, 5)
    assert ways["list"]["pricedTokens"] < ways["list"]["tokens"]
    assert "WAY" in table
    assert "search at /router/mcp is cheapest" in table
    assert f"{ways['list']['tokens']:,}" in table


async def test_the_page_shows_what_the_command_and_the_request_answer(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connect" / "plans.md").read_text()
    command, request = page.split("```sh\n")[1].split("```")[0].splitlines()
    *table, first, second = page.split("```text\n")[1].split("```")[0].splitlines()
    async with running(tmp_path, shop(60), RULES, measured_state(50, 60)) as gateway:
        printed = await stdout_of(*command.split()[1:], "--url", f"http://127.0.0.1:{gateway.port}/mcp")
        answer = (await post(gateway, "/v1/plan", json.loads(request.split("-d ")[1].strip("'")))).message
    lines = [line.split() for line in printed.splitlines()]
    assert all(line.split() in lines for line in table)
    assert answer["exposure"]["advice"] == f"{first} {second}"
    assert answer["exposure"]["advice"] in printed


async def stdout_of(*words: str) -> str:
    """Standard output of a command, which has to succeed."""
    code, out, _ = await wide_fairlead(*words)
    assert code == 0
    return out
