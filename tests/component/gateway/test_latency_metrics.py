"""Metrics of a gateway about latencies: bounded in number, complete in their sums, and based on the time that agents
waited."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.servers import ServerEntry, Servers
from fairlead_api.documents.state import Health, Quantiles, ServerState, State, ToolState
from fairlead_app.metrics.exposition import expose_metrics
from fairlead_app.metrics.latencies import MAX_TOOLS, LatencyCollector
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.telemetry import MAX_TIERS, MetricsRegistry
from gatewayworld import LEGACY, ask, calling, catalog, running
from metricseries import label_set, metric_values
from prometheus import lint
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, post

TIERS = Rules(tiers=(Tier(name="fast", max_latency_ms=40, default=True), Tier(name="deep", max_latency_ms=4000)))


def state_of(number: int) -> ToolState:
    figures = Quantiles(p50_ms=number, p90_ms=number, p95_ms=number, p99_ms=number, samples=2)
    shown = number < 9000
    return ToolState(
        name=f"t{number:05}",
        quantiles=figures,
        tiers=("fast", "deep") if shown else ("deep",),
        hidden={} if shown else {"fast": "over_budget p95=1s tier=40ms"},
        health=Health(score=3) if number == 9999 else Health(),
    )


async def test_ten_thousand_tools_have_a_bounded_number_of_series_and_complete_sums(tmp_path: Path) -> None:
    names = [f"t{number:05}" for number in range(10_000)]
    states = ServerState(namespace="default", name="big", tools=tuple(map(state_of, range(10_000))))
    big = catalog("big", "http://127.0.0.1:9/mcp", names)
    async with running(tmp_path, big, TIERS, State(servers=(states,)), validate=False) as gateway:
        series = await metric_values(gateway)
    rest = label_set(gen_ai_tool_name="other", fairlead_server="other")
    assert series["fairlead_metric_tools_overflowed"][()] == 10_000 - MAX_TOOLS
    assert sum(map(len, series.values())) < 12 * MAX_TOOLS
    assert len(series["fairlead_tool_latency_seconds"]) == 4 * (MAX_TOOLS + 1)
    slowest = label_set(gen_ai_tool_name="other", fairlead_server="other", quantile="0.95")
    assert series["fairlead_tool_latency_seconds"][slowest] == 9.999
    assert series["fairlead_tool_window_samples"][rest] == 2 * (10_000 - MAX_TOOLS)
    assert series["fairlead_tool_health_score"][rest] == 3
    assert series["fairlead_tier_tools"] == {
        label_set(fairlead_tier="fast"): 9000,
        label_set(fairlead_tier="deep"): 10_000,
    }
    assert series["fairlead_tier_hidden_tools"] == {label_set(fairlead_tier="fast", reason="over_budget"): 1000}


async def test_breaches_count_what_agents_waited_in_the_tier_that_they_are_in(tmp_path: Path) -> None:
    async def slow(request: Request, reply: Reply) -> None:
        await asyncio.sleep(0.06)  # longer than the limit of the tier
        reply.result(request, {"resultType": "complete", "content": []})

    async with raw_server(slow) as server, running(tmp_path, catalog("shop", server.url, ["knot"]), TIERS) as gateway:
        await ask(gateway, calling("shop__knot"))
        await ask(gateway, calling("shop__knot", era=LEGACY, number=2))
        await ask(gateway, calling("shop__knot").to("/mcp/deep"))
        message = MESSAGES["anthropic"]([("a", "shop__knot", {})])
        await post(gateway, "/v1/tool-calls", {"format": "anthropic", "message": message})
        await ask(gateway, calling("shop__none"))
        series = await metric_values(gateway)
    fast = label_set(fairlead_tier="fast")
    deep = label_set(fairlead_tier="deep")
    assert series["fairlead_tier_budget_breaches_total"] == {fast: 3, deep: 0}
    assert series["fairlead_tier_call_duration_seconds_count"] == {fast: 3, deep: 1}
    assert series["fairlead_tier_limit_seconds"] == {fast: 0.04, deep: 4}


async def test_a_server_that_cannot_be_reached_is_down(tmp_path: Path) -> None:
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["knot"], online=False)
    other = catalog("other", "http://127.0.0.1:9/mcp", ["knot"])
    async with running(tmp_path, shop, other, TIERS) as gateway:
        series = await metric_values(gateway)
    up = {dict(labels)["fairlead_server"]: value for labels, value in series["fairlead_server_up"].items()}
    assert up == {"default/shop": 0, "default/other": 1}
    assert series["fairlead_catalog_servers_offline"][()] == 1


async def test_a_server_that_was_stopped_is_told_apart_from_one_that_is_down(tmp_path: Path) -> None:
    entries = Servers(
        servers=(
            ServerEntry(namespace="default", name="broken", state="offline", reason="ConnectionFailed"),
            ServerEntry(namespace="default", name="shop", state="offline", reason="Stopped", cause="Stopped"),
        )
    )
    broken = catalog("broken", "http://127.0.0.1:9/mcp", ["knot"], online=False)
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["knot"], online=False)
    async with running(tmp_path, broken, shop, TIERS, entries) as gateway:
        series = await metric_values(gateway)
    assert series["fairlead_server_stopped"] == {label_set(fairlead_server="default/shop"): 1}
    assert set(series["fairlead_server_up"].values()) == {0}


async def test_promtool_has_nothing_to_say_about_the_metrics_of_a_gateway_with_measured_tools(tmp_path: Path) -> None:
    states = ServerState(namespace="default", name="shop", tools=(state_of(1), state_of(9999)))
    shop = catalog("shop", "http://127.0.0.1:9/mcp", ["t00001", "t09999"])
    async with running(tmp_path, shop, TIERS, State(servers=(states,)), validate=False) as gateway:
        text, _ = await expose_metrics(gateway.metrics)
    assert b'quantile="0.95"' in text
    assert await asyncio.to_thread(lint, text) == ""


def test_the_silence_of_operators_counts_from_the_start_and_then_from_the_last_one_that_asked() -> None:
    now = 1000.0
    asked_at = None
    collector = LatencyCollector(Selection, MetricsRegistry(), lambda: asked_at, lambda: now)

    def silence() -> float:
        (family,) = (each for each in collector.collect() if each.name == "fairlead_pull_age_seconds")
        return float(family.samples[0].value)

    now = 1600.0
    assert silence() == 600
    asked_at = 1590.0
    assert silence() == 10


def test_tiers_beyond_the_bound_are_not_counted_and_known_ones_keep_their_figures() -> None:
    registry = MetricsRegistry()
    registry.set_tiers({"fast": 500})
    registry.count_wait("fast", 600_000_000)
    registry.set_tiers({"fast": 700} | {f"t{number:03}": None for number in range(2 * MAX_TIERS)})
    registry.count_wait("fast", 600_000_000)
    registry.count_wait("t099", 1)
    registry.count_wait(None, 1)
    assert len(registry.waits) == MAX_TIERS
    assert (registry.waits["fast"].breaches, registry.waits["fast"].series.count) == (1, 2)


def test_the_page_of_metrics_names_each_series_once() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text()
    names = re.findall(r"^\| `(\w+)`", page, re.MULTILINE)
    assert len(names) == len(set(names)) > 50
