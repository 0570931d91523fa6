"""`fairlead up` tells of tools that leave a tier and come back, as a cluster has events for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from toolservers import Reply, Request, answer_modern, raw_server, tool
from upprocess import Event, fairlead_up


class Tide:
    """A server of one tool, which takes `seconds`; a little more than `fast` allows, so that probes are frequent."""

    seconds = 0.52
    definition = tool("tide")

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            await asyncio.sleep(self.seconds)
        answer_modern(request, reply, [self.definition])


def told(start: str) -> Callable[[Event], bool]:
    def wanted(event: Event) -> bool:
        return event["event"] == "moved" and str(event["message"]).startswith(start)

    return wanted


async def test_a_tool_that_leaves_a_tier_and_comes_back_is_told_of(tmp_path: Path) -> None:
    here = Tide()
    async with raw_server(here) as harbor:
        manifest = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": "harbor"},
            "spec": {"url": harbor.url, "tools": [{"name": "tide", "probe": {"arguments": {}}}]},
        }
        (tmp_path / "harbor.yaml").write_text(json.dumps(manifest))
        async with fairlead_up(tmp_path, cwd=tmp_path) as up:
            left = await up.event(told("tide has left fast (fast: over_budget p95="), within=60)
            assert left["server"] == "default/harbor"
            assert left["message"].endswith("by=recent back=5-in-time)")
            here.seconds = 0.0
            await up.event(told("tide is in fast, standard, deep again"), within=60)
