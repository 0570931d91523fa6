"""A user who has only the printed URL of the console reaches everything by links, forms and buttons: the walk that
docs/operate/console.md shows with pictures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from consoleworld import WAIT_MS, browser, complaints
from fairlead_api.meta import API_VERSION
from upprocess import DEMO, fairlead_up, until_listed

pytestmark = pytest.mark.timeout(180)

BROKEN = ["sh", "-c", "echo MAIL_TOKEN is not set >&2; exit 1"]
SLOW = [{"name": "forecast_demand", "latency": {"estimated": "3s"}}]
NO_FORECASTS = {"rules": [{"action": "Deny", "tools": ["forecast_*"]}, {"action": "Allow", "tools": ["*"]}]}


def resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.heavy
async def test_the_printed_address_alone_answers_the_four_questions(tmp_path: Path) -> None:
    (tmp_path / "resources").mkdir()
    subjects = [{"kind": "Agent", "name": "shop-assistant"}]
    for name, made in {
        "demo": resource("McpServer", "demo", {"command": DEMO, "tools": SLOW}),
        "mail": resource("McpServer", "mail", {"command": BROKEN}),
        "all": resource("ToolPolicy", "all", {"rules": [{"action": "Allow", "tools": ["*"]}]}),
        "forecasts": resource("ToolPolicy", "no-forecasts", {**NO_FORECASTS, "subjects": subjects}),
    }.items():
        (tmp_path / "resources" / f"{name}.yaml").write_text(json.dumps(made))

    async with fairlead_up("resources", cwd=tmp_path) as up, browser() as chromium:
        await up.states(2)
        await until_listed(up.url, "demo")
        page = await (await chromium.new_context()).new_page()
        page.set_default_timeout(WAIT_MS)
        problems = complaints(page)
        (printed,) = [event["console"] for event in up.events if event["event"] == "listening"]
        await page.goto(printed)

        # why does a server fail?
        first = page.url
        shown = await page.locator("section.problem").inner_text()
        await page.get_by_role("link", name="default/mail").first.click()
        printed_lines = await page.get_by_label("Last lines of output").inner_text()

        # why is a tool hidden?
        await page.get_by_role("link", name="Tools", exact=True).click()
        await page.get_by_role("searchbox").fill("forecast")
        await page.get_by_role("link", name="demo__search_orders").wait_for(state="detached")
        await page.get_by_role("link", name="demo__forecast_demand").click()
        tiers = await page.get_by_role("region", name="Tiers that show or hide this tool").inner_text()

        # who may call it?
        await page.get_by_role("link", name="Access", exact=True).click()
        await page.get_by_label("Tool", exact=True).fill("demo__forecast_demand")
        await page.get_by_label("Agent", exact=True).fill("shop-assistant")
        await page.get_by_role("button", name="Decide").click()
        decision = await page.get_by_role("status").filter(has_text="Denied").inner_text()

        # how is a client connected?
        await page.get_by_role("link", name="Connect").click()
        text = await page.get_by_label("Configuration of Claude Code").inner_text()
        (address,) = set(re.findall(r"http://[^\"]+/mcp", text))
        async with Client(address) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}

    assert first.endswith("/console/servers"), "the token leaves the address bar"
    assert shown.count("MAIL_TOKEN is not set") == 1, "the reason quotes the last words"
    assert "MAIL_TOKEN is not set" in printed_lines
    assert re.search(r"fast\s+hidden\s+Too slow", tiers), tiers
    assert "default/no-forecasts" in decision
    assert "demo__get_stock" in tools
    assert problems == []
