"""Predicted and measured durations of a batch of calls, by `POST /v1/tool-calls` and by the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.gateway import Gateway
from fairlead_cli.app import app
from fairlead_tools.batch import makespan
from gatewayworld import catalog, entry, running
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, Calls, post
from toolservers import modern_server

TIERS = Rules(tiers=(Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000)))
TOOLS = [
    entry("dice"),
    entry("entities", latency=DeclaredLatency(estimated_duration_ms=80, max_duration_ms=300)),
    entry("facts"),
    entry("mystery"),
]


def figures(p50: float, p95: float) -> Quantiles:
    return Quantiles(p50_ms=p50, p90_ms=p95, p95_ms=p95, p99_ms=p95, samples=100)


def state_with(**tools: Quantiles) -> State:
    states = tuple(
        ToolState(name=name, quantiles=quantiles, tiers=("fast", "deep")) for name, quantiles in sorted(tools.items())
    )
    return State(servers=(ServerState(namespace="default", name="demo", tools=states),))


STATE = state_with(dice=figures(15.0, 20.0), facts=figures(200.0, 450.0))


def message(*tools: str) -> dict[str, Any]:
    calls: Calls = tuple((f"c{n}", f"demo__{tool}", {}) for n, tool in enumerate(tools))
    return {"format": "openai-chat", "message": MESSAGES["openai-chat"](calls)}


async def predict(gateway: Gateway, *tools: str, **more: Any) -> Any:
    answer = await post(gateway, "/v1/tool-calls/predict", {**message(*tools), **more})
    assert answer.status == 200, answer.body
    return answer.message


@pytest.mark.parametrize(
    ("durations", "at_once", "expected"),
    [
        ((), 3, 0.0),
        ((15, 80, 200), 128, 200.0),
        ((15, 80, 200), 1, 295.0),
        ((100, 10, 10, 10), 2, 100.0),
        ((10, 10, 10, 100), 2, 110.0),
        ((50, 40, 30, 20), 2, 70.0),
    ],
)
def test_parallel_calls_cost_the_maximum_sequential_ones_the_sum_and_limited_ones_what_lies_between(
    durations: tuple[float, ...], at_once: int, expected: float
) -> None:
    assert makespan(durations, at_once) == expected


@pytest.mark.parametrize(
    ("how", "usual", "slow", "fits"),
    [
        ({}, 200.0, 450.0, True),
        ({"strategy": "sequential"}, 295.0, 770.0, False),
        ({"limit": 2}, 215.0, 470.0, True),
        ({"tier": "deep", "strategy": "sequential"}, 295.0, 770.0, True),
        ({"timeoutMs": 100}, 100.0, 100.0, True),
    ],
)
async def test_the_cost_of_a_batch_is_predicted_from_what_was_measured_else_declared(
    tmp_path: Path, how: dict[str, Any], usual: float, slow: float, fits: bool
) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", TOOLS), TIERS, STATE) as gateway:
        answer = await predict(gateway, "dice", "entities", "facts", **how)
    cost = answer["cost"]
    assert (cost["usualMs"], cost["slowMs"], cost["fits"]) == (usual, slow, fits)
    assert (cost["unknown"], cost["actualMs"], cost["tier"]) == ([], None, how.get("tier", "fast"))
    assert [call["basis"] for call in answer["calls"]] == ["measured", "declared", "measured"]


async def test_tools_of_a_tier_called_in_parallel_fit_it_by_the_figure_that_decides_about_them(tmp_path: Path) -> None:
    tiers = Rules(
        tiers=(Tier(name="usually", max_latency_ms=500, quantile="p50"), Tier(name="fast", max_latency_ms=500))
    )
    slow = entry("slow", latency=DeclaredLatency(estimated_duration_ms=400, max_duration_ms=30_000))
    state = State(
        servers=(
            ServerState(
                namespace="default",
                name="demo",
                tools=(
                    ToolState(name="now_and_then", quantiles=figures(300, 900), tiers=("usually",)),
                    ToolState(name="on_the_edge", quantiles=figures(450, 510), tiers=("usually", "fast")),
                ),
            ),
        )
    )
    tools = [entry("now_and_then"), entry("on_the_edge"), slow]
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", tools), tiers, state) as gateway:
        every = ("now_and_then", "on_the_edge", "slow")
        usually = (await predict(gateway, *every, tier="usually"))["cost"]
        fast = (await predict(gateway, "on_the_edge", "slow", tier="fast"))["cost"]
        in_turn = (await predict(gateway, "on_the_edge", "slow", tier="fast", strategy="sequential"))["cost"]
    assert [cost["fits"] for cost in (usually, fast, in_turn)] == [True, True, False]
    assert usually["slowMs"] == 30_000, "what it may take is told all the same"


async def test_tools_without_figures_are_named_and_the_batch_makes_no_promise(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", TOOLS), TIERS, STATE) as gateway:
        some = (await predict(gateway, "dice", "mystery", "mystery"))["cost"]
        none = (await predict(gateway, "mystery", "elsewhere"))["cost"]
        late = (await predict(gateway, "facts", "facts", "mystery", strategy="sequential"))["cost"]
    assert (some["usualMs"], some["unknown"], some["fits"]) == (15.0, ["demo__mystery"], None)
    assert (none["usualMs"], none["slowMs"], none["fits"]) == (None, None, None)
    assert late["fits"] is False, "more than the limit already without it"


async def test_a_prediction_calls_nothing_and_a_batch_says_what_it_took(tmp_path: Path) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        await asyncio.sleep(0.05)  # the duration that is reported
        reply.result(request, {"resultType": "complete", "content": []})

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, TOOLS), TIERS, STATE) as gateway,
    ):
        await predict(gateway, "dice", "facts")
        assert server.seen == []
        together = (await post(gateway, "/v1/tool-calls", message("dice", "facts", "dice"))).message
        body = {**message("dice", "facts", "dice"), "strategy": "sequential"}
        in_turn = (await post(gateway, "/v1/tool-calls", body)).message
    assert [call["tool"] for call in together["calls"]] == ["demo__dice", "demo__facts", "demo__dice"]
    assert together["cost"]["usualMs"] == 200.0
    assert together["cost"]["actualMs"] >= 50
    assert in_turn["cost"]["actualMs"] >= 150
    assert in_turn["cost"]["actualMs"] >= sum(call["durationMs"] for call in in_turn["calls"])


async def test_the_command_predicts_a_batch(tmp_path: Path) -> None:
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, TOOLS), TIERS, STATE) as gateway,
    ):
        words = ["predict", "demo__dice", "demo__facts", "--url", f"http://127.0.0.1:{gateway.port}/mcp"]
        table = await asyncio.to_thread(CliRunner().invoke, app, words)
        told = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--strategy", "sequential", "-o", "json"])
    assert table.exit_code == 0, table.output
    assert "450 ms" in table.stdout
    assert json.loads(told.stdout)["cost"]["slowMs"] == 470.0
