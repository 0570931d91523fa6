"""The list of a tier, and calls of tools that have left the tier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_app.gateway import Gateway
from gatewayworld import (
    LEGACY,
    MODERN,
    Clock,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, get, post
from toolservers import tool

TIERS = Rules(
    tiers=(
        Tier(name="deep", max_latency_ms=4000),
        Tier(name="fast", max_latency_ms=500, default=True),
        Tier(name="standard", max_latency_ms=1500),
    )
)
WHY = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"


async def handle(request: Request, reply: Reply) -> None:
    reply.result(request, {"resultType": "complete", "content": []})


def state(hidden: Mapping[str, str], *, environment: str = "cluster") -> State:
    """State that the operator publishes about the tool `slow` of the server `shop`."""
    fits = tuple(tier for tier in ("fast", "standard", "deep") if tier not in hidden)
    tool = ToolState(name="slow", environment=environment, tiers=fits, hidden=dict(hidden))
    return State(
        servers=(ServerState(namespace="default", name="shop", tools=(tool,)),), decided_at="2026-01-01T00:00Z"
    )


async def list_tools(gateway: Gateway, target: str) -> list[str]:
    answer = await ask(gateway, modern("tools/list").to(target))
    return [tool["name"] for tool in answer.message["result"]["tools"]]


async def test_a_tool_over_budget_is_in_the_lists_of_the_tiers_that_hold_it_and_in_no_other(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["quick", "slow"])
    async with running(tmp_path, shop, TIERS, state({"fast": WHY})) as gateway:
        assert await list_tools(gateway, "/mcp") == ["shop__quick"]
        assert await list_tools(gateway, "/mcp/fast") == ["shop__quick"]
        assert await list_tools(gateway, "/mcp/standard") == ["shop__quick", "shop__slow"]
        assert await list_tools(gateway, "/mcp/deep") == ["shop__quick", "shop__slow"]


async def test_a_header_names_the_tier_and_an_unknown_one_is_refused_with_those_there_are(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["quick", "slow"])
    async with running(tmp_path, shop, TIERS, state({"fast": WHY})) as gateway, await Wire.connect(gateway) as wire:
        for _ in range(2):  # the second request has a cached head
            for tier, names in (("standard", ["shop__quick", "shop__slow"]), ("fast", ["shop__quick"])):
                answer = await wire.ask(modern("tools/list").with_headers(fairlead_tier=tier))
                assert [tool["name"] for tool in answer.message["result"]["tools"]] == names
        refused = await wire.ask(modern("tools/list").with_headers(fairlead_tier="no/such"))
    assert refused.status == 404
    assert refused.message["error"]["message"].endswith("tiers: deep, fast, standard")


async def test_the_endpoint_of_one_server_goes_by_the_same_decision(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["quick", "slow"])
    own = "/servers/default/shop/mcp"
    async with running(tmp_path, shop, TIERS, state({"fast": WHY})) as gateway:
        assert await list_tools(gateway, own) == ["quick"]
        assert await list_tools(gateway, f"{own}/standard") == ["quick", "slow"]
        answer = await ask(gateway, modern("tools/list").to(own).with_headers(fairlead_tier="deep"))
    assert [tool["name"] for tool in answer.message["result"]["tools"]] == ["quick", "slow"]


async def test_figures_of_another_environment_decide_nothing_here(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["slow"])
    async with running(tmp_path, shop, TIERS, state({"fast": WHY}, environment="local")) as gateway:
        assert await list_tools(gateway, "/mcp/fast") == ["shop__slow"]
    async with running(tmp_path, environment="local") as gateway:
        assert await list_tools(gateway, "/mcp/fast") == []


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_tool_that_has_left_a_tier_stays_callable_for_a_minute_and_then_names_the_tier_that_has_it(
    tmp_path: Path, era: str
) -> None:
    clock = Clock()
    async with raw_server(handle) as server:
        shop = catalog("shop", server.url, ["slow"])
        async with running(tmp_path, shop, TIERS, clock=clock) as gateway:
            publish(tmp_path / "documents", state({"fast": WHY}))
            await wait_for_snapshots(gateway, gateway.snapshots.swaps + 1)
            clock.forward(58.0)
            in_time = await ask(gateway, calling("shop__slow", era=era))
            clock.forward(3.0)
            refused = await ask(gateway, calling("shop__slow", era=era))
            elsewhere = await ask(gateway, calling("shop__slow", era=era).to("/mcp/standard"))
    assert "isError" not in in_time.message["result"]
    assert refused.refusal == "OVER_BUDGET"
    assert refused.message["result"]["content"][0]["text"] == (
        f"tier fast hides the tool shop__slow: {WHY}; tier standard shows the tool, at /mcp/standard"
    )
    assert "isError" not in elsewhere.message["result"]


async def test_a_models_call_of_a_tool_that_has_left_the_tier_goes_the_same_way(tmp_path: Path) -> None:
    clock = Clock()
    message = MESSAGES["openai-chat"]([("c1", "shop__slow", {})])
    async with raw_server(handle) as server:
        shop = catalog("shop", server.url, ["slow"])
        async with running(tmp_path, shop, TIERS, clock=clock) as gateway:
            publish(tmp_path / "documents", state({"fast": WHY}))
            await wait_for_snapshots(gateway, gateway.snapshots.swaps + 1)
            in_time = await post(gateway, "/v1/tool-calls", {"format": "openai", "message": message})
            clock.forward(61.0)
            refused = await post(gateway, "/v1/tool-calls", {"format": "openai", "message": message})
    assert [call["state"] for call in in_time.message["calls"]] == ["done"]
    (call,) = refused.message["calls"]
    assert (call["state"], call["code"]) == ("refused", "OVER_BUDGET")


async def test_a_tool_is_back_in_the_list_when_the_decision_says_so(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["slow"])
    async with running(tmp_path, shop, TIERS, state({"fast": WHY})) as gateway:
        publish(tmp_path / "documents", state({}))
        await wait_for_snapshots(gateway, gateway.snapshots.swaps + 1)
        assert await list_tools(gateway, "/mcp") == ["shop__slow"]


async def test_a_tool_goes_by_its_declared_latency_before_a_decision(tmp_path: Path) -> None:
    tools = [entry(name, latency=DeclaredLatency(estimated_duration_ms=ms)) for name, ms in (("a", 50), ("b", 2000))]
    shop = catalog("shop", "http://127.0.0.1:9/mcp", [*tools, "c"])
    async with running(tmp_path, shop, TIERS) as gateway:
        assert await list_tools(gateway, "/mcp") == ["shop__a", "shop__c"]
        assert await list_tools(gateway, "/mcp/deep") == ["shop__a", "shop__b", "shop__c"]


async def test_a_floor_is_told_in_lists_in_meta_in_explanations_and_in_the_refusal_of_a_call(tmp_path: Path) -> None:
    clock = Clock()
    async with raw_server(handle) as server:
        raw = {**tool("slow"), "_meta": {"fairlead.dev/min_tier": "fast"}}  # the higher of both floors applies
        shop = catalog("shop", server.url, [entry(raw, min_tier="standard", authored_min_tier="fast"), "quick"])
        async with running(tmp_path, shop, TIERS, clock=clock, meta_latency=True) as gateway:
            answer = (await ask(gateway, modern("tools/list").to("/mcp/fast"))).message["result"]
            assert [each["name"] for each in answer["tools"]] == ["shop__quick"]
            (hidden,) = answer["_meta"]["fairlead.dev/hidden"]["tools"]
            standard = (await ask(gateway, modern("tools/list").to("/mcp/standard"))).message["result"]["tools"]
            assert [each["name"] for each in standard] == ["shop__quick", "shop__slow"]
            assert standard[1]["_meta"]["fairlead.dev/min_tier"] == "standard"
            explanation = (await get(gateway, "/v1/tools/shop__slow/explain")).message
            clock.forward(61.0)
            refused = await ask(gateway, calling("shop__slow").to("/mcp/fast"))
            called = await ask(gateway, calling("shop__slow").to("/mcp/standard"))
    why = "below_min_tier min_tier=standard tier=500ms by=mcpserver"
    assert (hidden["reason"], hidden["shownIn"]) == (why, "standard")
    assert explanation["minTier"] == "standard"
    assert [(each["tier"], each["shown"]) for each in explanation["tiers"]] == [
        ("fast", False),
        ("standard", True),
        ("deep", True),
    ]
    assert explanation["tiers"][0]["reason"] == why
    assert refused.refusal == "OVER_BUDGET"
    assert "isError" not in called.message["result"]
