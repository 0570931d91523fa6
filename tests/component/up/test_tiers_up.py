"""Latency tiers on a laptop: clients that choose no tier see all tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from commands import fairlead
from forkserver import program_words
from upprocess import DEMO, DEMO_TOOLS, Up, fairlead_up, manifest, started_up
from waiting import until_async

FOREVER = """
apiVersion: fairlead.dev/v1alpha1
kind: LatencyTier
metadata: {name: instant}
spec: {maxLatency: 1ms, unmeasured: Hide}
---
"""
"""A tier that no tool fits."""


async def list_names(up: Up, *words: str) -> tuple[list[str], str]:
    """Names that `fairlead tools` lists, and its standard error."""
    code, out, err = await fairlead("tools", "--output", "json", "--url", up.url, *words)
    assert code == 0, err
    return [tool["name"] for tool in json.loads(out)], err


async def test_a_tool_that_leaves_every_tier_is_still_listed_and_called(tmp_path: Path) -> None:
    servers = {"mcpServers": {"demo": {"command": sys.executable, "args": DEMO[1:]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    (tmp_path / "tier.yaml").write_text(FOREVER)
    files = (tmp_path / "mcp.json", tmp_path / "tier.yaml")
    async with fairlead_up(*files, cwd=tmp_path) as up:
        await up.ready("default/demo")

        async def all_hidden() -> bool:
            names, message = await list_names(up, "--tier", "instant")
            return not names and message.startswith("fairlead tools: 4 hidden in tier instant: ")

        await until_async("a tier without tools", all_hidden, seconds=20)
        assert await list_names(up) == ([f"demo__{name}" for name in DEMO_TOOLS], "")
        code, out, err = await fairlead("call", "demo__get_stock", "item=rope", "--url", up.url)
        refused = await fairlead("call", "demo__get_stock", "item=rope", "--tier", "instant", "--url", up.url)
    assert (code, "407" in out, err) == (0, True, "")
    assert refused[0] == 1
    assert "OVER_BUDGET: tier instant hides the tool demo__get_stock" in refused[2]
    assert refused[2].rstrip().endswith("no tier shows the tool now, but the endpoint without a tier shows it, at /mcp")


async def test_each_tool_that_was_just_called_is_among_the_scores(tmp_path: Path) -> None:
    servers = {"mcpServers": {"demo": {"command": sys.executable, "args": DEMO[1:]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        await up.ready("default/demo")
        for tool, argument in (("demo__get_stock", "item=rope"), ("demo__search_orders", "customer=Ada")):
            assert (await fairlead("call", tool, argument, "--url", up.url))[0] == 0

            async def is_measured(tool: str = tool) -> bool:
                scores = json.loads((await fairlead("scores", "--json", "--url", up.url))[1])
                return any(each["name"] == tool and each["samples"] for each in scores["tools"])

            await until_async(f"the latency of {tool}", is_measured, seconds=20)


async def test_a_plain_entry_of_rules_lookup_is_in_standard_by_what_it_declares(tmp_path: Path) -> None:
    command = [*program_words(), "serve", "rules-lookup", "--data", str(tmp_path / "data")]
    servers = {"mcpServers": {"rules-lookup": {"command": command[0], "args": command[1:]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        await up.ready("default/rules-lookup")
        rules = ["rules-lookup__get_rule", "rules-lookup__search_rules"]
        assert await list_names(up, "--tier", "standard") == (rules, "")
        names, message = await list_names(up, "--tier", "fast")
    assert (names, "2 hidden in tier fast" in message, "in standard" in message) == ([], True, True)


async def test_up_may_name_the_tier_of_clients_that_name_none(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(FOREVER.replace("1ms", "500ms") + manifest("demo", *DEMO))
    async with fairlead_up(tmp_path, "--tier", "instant", cwd=tmp_path) as up:
        await up.ready("default/demo")

        async def says_so() -> bool:
            return " hidden in tier instant: " in (await list_names(up))[1]

        await until_async("a list that hides something", says_so, seconds=20)
        _, table, _ = await fairlead("tiers", "--url", up.url)
    assert "instant (default)" in table


@pytest.mark.parametrize(("tiers", "tiers_listed"), [("", "fast, standard, deep"), (FOREVER, "instant")])
async def test_a_tier_that_there_is_not_is_refused_at_the_start_with_those_there_are(
    tmp_path: Path, tiers: str, tiers_listed: str
) -> None:
    (tmp_path / "demo.yaml").write_text(tiers + manifest("demo", *DEMO))
    words = (tmp_path, "--tier", "quick", "--port", "0", "--metrics-port", "0", "--plain")
    async with started_up(*words, cwd=tmp_path) as up:
        assert await up.wait_for_end() == 2
        assert f"--tier: there is no latency tier 'quick'; tiers: {tiers_listed}" in await up.errors()
