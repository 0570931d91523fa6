"""Badges, tags, ranks and honesty of tools, over REST and from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairlead_api.documents.catalog import DeclaredLatency, ToolEntry
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_cli.app import app
from fairlead_rest.resources.scores import badge, verdict
from gatewayworld import catalog, entry, running
from restworld import get, problem

TIERS = Rules(
    tiers=(
        Tier(name="fast", max_latency_ms=500, default=True),
        Tier(name="standard", max_latency_ms=1500),
        Tier(name="deep", max_latency_ms=4000),
    )
)
EVERY = ("fast", "standard", "deep")


def tool_entry(name: str, estimated: int | None = None, most: int | None = None, *categories: str) -> ToolEntry:
    latency = DeclaredLatency(estimated_duration_ms=estimated, max_duration_ms=most)
    return entry(name, latency=latency, categories=categories)


def tool_state(name: str, p50: float, p99: float, tiers: tuple[str, ...] = EVERY, samples: int = 100) -> ToolState:
    figures = Quantiles(p50_ms=p50, p90_ms=p99, p95_ms=p99, p99_ms=p99, samples=samples)
    hidden = {tier: f"over_budget p95={p99:.0f}ms" for tier in EVERY if tier not in tiers}
    return ToolState(name=name, quantiles=figures, tiers=tiers, hidden=hidden)


SHOP = catalog(
    "shop",
    "http://127.0.0.1:9/mcp",
    [
        tool_entry("dice", 10, 50, "dice rollers"),
        tool_entry("coin", 100, None, "dice rollers", "luck"),
        tool_entry("die", None, None, "dice rollers"),
        tool_entry("new", 30, None, "dice rollers"),
        tool_entry("paint", 900, 1000, "images"),
        tool_entry("rules", 900),
    ],
)
STATE = State(
    servers=(
        ServerState(
            namespace="default",
            name="shop",
            tools=(
                tool_state("coin", 12.0, 30.0),
                tool_state("dice", 15.0, 44.0),
                tool_state("die", 12.0, 20.0, samples=2),
                tool_state("paint", 3200.0, 3900.0, ("deep",)),
                tool_state("rules", 950.0, 1200.0, ("standard", "deep")),
            ),
        ),
    )
)


@pytest.mark.parametrize(
    ("median", "name"),
    [
        (0.0, "Lightning"),
        (49.9, "Lightning"),
        (50, "Fast"),
        (199, "Fast"),
        (200, "Standard"),
        (999, "Standard"),
        (1000, "Slow"),
    ],
)
def test_a_badge_goes_by_the_median(median: float, name: str) -> None:
    assert badge(median) == name


@pytest.mark.parametrize(
    ("declared", "median", "samples", "word"),
    [
        (50, 800, 100, "misleading"),
        (50, 800, 4, "unproven"),
        (400, 490, 100, "honest"),
        (400, 600, 100, "optimistic"),
        (400, 801, 100, "misleading"),
        (400, 150, 100, "cautious"),
        (1, 20, 100, "honest"),
        (20, 1, 100, "honest"),
        (0, 30, 100, "misleading"),
    ],
)
def test_a_declaration_is_held_against_what_was_measured(
    declared: float, median: float, samples: int, word: str
) -> None:
    assert verdict(declared, median, samples) == word


async def scores(tmp_path: Path) -> dict[str, Any]:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        rows = (await get(gateway, "/v1/scores")).message["tools"]
    return {row["name"]: row for row in rows}


async def test_each_tool_has_its_badge_its_tag_and_where_that_is_from(tmp_path: Path) -> None:
    by_name = await scores(tmp_path)
    shown = {name: (row["badge"], row["basis"], row["tags"]) for name, row in by_name.items()}
    assert shown == {
        "shop__coin": ("Lightning", "measured", ["FAST compatible"]),
        "shop__dice": ("Lightning", "measured", ["FAST compatible"]),
        "shop__die": ("Lightning", "measured", ["FAST compatible"]),
        "shop__new": (None, "declared", []),
        "shop__paint": ("Slow", "measured", ["DEEP only"]),
        "shop__rules": ("Standard", "measured", ["STANDARD compatible"]),
    }
    assert by_name["shop__paint"]["honesty"] == {
        "declaredMs": 900,
        "measuredMs": 3200.0,
        "ratio": 3.56,
        "pastMaximum": True,
        "verdict": "misleading",
    }
    assert by_name["shop__dice"]["honesty"]["pastMaximum"] is False
    assert by_name["shop__new"]["honesty"] is None


async def test_within_a_category_tools_are_ranked_by_their_measured_medians_alone(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        (board,) = (await get(gateway, "/v1/leaderboard?category=dice%20rollers")).message["boards"]
        every = (await get(gateway, "/v1/leaderboard")).message["boards"]
        nobody = await get(gateway, "/v1/leaderboard?category=chess")
    ranks = [(rank["rank"], rank["score"]["name"]) for rank in board["ranks"]]
    assert ranks == [(1, "shop__coin"), (1, "shop__die"), (3, "shop__dice")]
    assert [row["name"] for row in board["unranked"]] == ["shop__new"]
    assert [each["category"] for each in every] == ["dice rollers", "images", "luck"]
    assert problem(nobody) == (400, "INVALID_ARGUMENTS")
    assert nobody.message["known"] == ["dice rollers", "images", "luck"]


async def test_the_commands_print_what_rest_says(tmp_path: Path) -> None:
    async with running(tmp_path, SHOP, TIERS, STATE) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"

        async def run(*words: str) -> str:
            done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", url])
            assert done.exit_code == 0, done.output
            return done.stdout

        table = await run("scores")
        told = json.loads(await run("scores", "-o", "json"))
        board = await run("leaderboard", "--category", "dice rollers")
    line = next(line for line in table.splitlines() if line.startswith("shop__paint"))
    assert line.split()[1:9] == ["Slow", "3200", "ms", "DEEP", "only", "900", "ms", "misleading,"]
    assert not any(line.startswith("shop__new") for line in table.splitlines())
    assert "Never measured: shop__new. " in table
    assert len(told["tools"]) == 6
    assert [line.split()[:2] for line in board.splitlines() if "shop__" in line] == [
        ["1", "shop__coin"],
        ["1", "shop__die"],
        ["3", "shop__dice"],
        ["-", "shop__new"],
    ]
