"""Probes of `fairlead up`: only of tools whose configuration requests them, and often enough that tiers work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fairlead_cli.up.quickstart import quick_start
from toolservers import Reply, Request, answer_modern, raw_server, tool
from upprocess import Event, fairlead_up
from waiting import until_async

REMEMBERING = str(Path(__file__).parents[2] / "support/stdio_servers/remembering_stdio.py")
ROUND = 5
"""Number of probes of a tool after its server has connected."""


class Shop:
    """A server with two tools, which records calls."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.definitions = [
            tool("browse", annotations={"readOnlyHint": True}),
            tool("pay", annotations={"readOnlyHint": False}),
        ]

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            self.called.append(request.params["name"])
        answer_modern(request, reply, self.definitions)

    async def until_called(self, name: str, times: int) -> None:
        async def enough() -> bool:
            return self.called.count(name) >= times

        await until_async(f"{times} calls of {name}", enough, seconds=30)


def manifest(name: str, spec: Any) -> str:
    metadata = {"name": name}
    return json.dumps({"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": metadata, "spec": spec})


def shop_at(url: str, **spec: Any) -> str:
    return manifest("shop", {"url": url, "trustAnnotations": True, **spec})


def client_configuration(history: Path) -> str:
    entry = {"command": sys.executable, "args": [REMEMBERING, str(history)]}
    return json.dumps({"mcpServers": {"remembering": entry}})


async def test_no_tool_of_a_clients_configuration_is_called_by_anybody_but_agents(tmp_path: Path) -> None:
    shop = Shop()
    history = tmp_path / "history"
    (tmp_path / "mcp.json").write_text(client_configuration(history))
    async with raw_server(shop) as server, fairlead_up(tmp_path, cwd=tmp_path) as up:
        await up.ready("default/remembering")
        tools = [{"name": "pay", "probe": {"arguments": {}}}]
        # this tool would be probed after the other
        (tmp_path / "shop.yaml").write_text(shop_at(server.url, tools=tools))
        await shop.until_called("pay", ROUND)
        assert not history.exists()
        assert set(shop.called) == {"pay"}
        async with Client(up.url) as client:
            await client.call_tool("remembering__think", {"thought": "mine"})
    assert history.read_text() == "mine\n"


async def test_probe_has_read_only_tools_called_except_where_a_manifest_says_otherwise(tmp_path: Path) -> None:
    shop = Shop()
    history = tmp_path / "history"
    (tmp_path / "mcp.json").write_text(client_configuration(history))
    tools = [{"name": "pay", "probe": {"arguments": {}}}]
    (tmp_path / "shop.yaml").write_text(shop_at("http://127.0.0.1:9/mcp", calibration={"probe": "Declared"}))
    async with raw_server(shop) as server, fairlead_up(tmp_path, "--probe", cwd=tmp_path) as up:
        await up.ready("default/remembering")

        async def has_thought() -> bool:
            return history.exists() and len(history.read_text().split()) >= ROUND

        await until_async("a round of thoughts", has_thought, seconds=30)
        declared = shop_at(server.url, calibration={"probe": "Declared"}, tools=tools)
        (tmp_path / "shop.yaml").write_text(declared)
        await shop.until_called("pay", ROUND)
        assert set(shop.called) == {"pay"}
        (tmp_path / "shop.yaml").write_text(shop_at(server.url))
        await shop.until_called("browse", ROUND)
        assert set(shop.called) == {"pay", "browse"}
    assert set(history.read_text().split()) == {"test"}


@pytest.mark.timeout(180)
async def test_the_quick_start_declares_probes_of_its_demo_server_so_that_tiers_are_at_work(tmp_path: Path) -> None:
    """The quick start is given as a manifest, without the servers from PyPI."""
    declared = next(spec for key, spec in quick_start(tmp_path)[0].servers.items() if key.name == "demo")
    spec = declared.server.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    (tmp_path / "demo.json").write_text(manifest("demo", spec))
    async with fairlead_up(tmp_path / "demo.json", cwd=tmp_path) as up:
        await up.ready("default/demo")

        async def wait_until_listed(tier: str, *names: str) -> None:
            async def is_listed() -> bool:
                async with Client(up.url.replace("/mcp", f"/mcp/{tier}")) as client:
                    return {tool.name.removeprefix("demo__") for tool in (await client.list_tools()).tools} == set(
                        names
                    )

            await until_async(f"{tier} to show {names}", is_listed, seconds=40)

        def supplier_left(event: Event) -> bool:
            return event["event"] == "moved" and str(event["message"]).startswith("ask_supplier left the fast tier: ")

        await wait_until_listed("fast", "get_stock", "search_orders", "ask_supplier")  # tools that take 3 s declare it
        await up.event(supplier_left, within=120)  # three probes, of one second every twenty seconds
        await wait_until_listed("fast", "get_stock", "search_orders")
        await wait_until_listed("standard", "get_stock", "search_orders", "ask_supplier")
        await wait_until_listed("deep", "get_stock", "search_orders", "ask_supplier", "forecast_demand")
