"""`fairlead up` prints a line for each tool that leaves a tier or returns; in a cluster, there are Events for this."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from toolservers import Reply, Request, answer_modern, raw_server, tool
from upprocess import Event, fairlead_up

LEFT = "tide left the fast tier: 3 of its last 3 calls took over 500 ms (p95 5"
RETURNED = "tide returned to the fast tier: its last 5 calls took at most 500 ms (p95 "


class Tide:
    """A server with one tool that takes `seconds`, slightly more than `fast` allows, so that probes are frequent."""

    seconds = 0.52
    definition = tool("tide")

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            await asyncio.sleep(self.seconds)
        answer_modern(request, reply, [self.definition])


def move_starting_with(start: str) -> Callable[[Event], bool]:
    def is_wanted(event: Event) -> bool:
        return event["event"] == "moved" and str(event["message"]).startswith(start)

    return is_wanted


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
            left = await up.event(move_starting_with(LEFT), within=60)
            assert left["server"] == "default/harbor"
            assert left["message"].endswith(" ms)")
            here.seconds = 0.0
            await up.event(move_starting_with(RETURNED), within=60)
