"""Probes of real tool servers by an operator on a real API server: which tools are called, and the resulting decisions,
documents and statuses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairlead_api.documents.codec import decode, state_name
from fairlead_api.documents.state import State, ToolState
from operatorworld import GROUP, World, running
from toolservers import Reply, Request, answer_modern, raw_server, tool

READ_ONLY = {"readOnlyHint": True}
PROBED: dict[str, Any] = {"trustAnnotations": True, "calibration": {"probe": "ReadOnly", "samples": 3}}
SLOW = 0.52
"""Duration of a slow call in seconds, little more than the limit of the tier `fast`, because the pause between probes
is twenty times as long."""
WANTS_ZONE = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}


@dataclass
class Tools:
    """A server whose tools take `seconds`, and which records all calls."""

    seconds: dict[str, float] = field(default_factory=dict)
    called: list[tuple[str, Any]] = field(default_factory=list)
    refusing: bool = False

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            answer_modern(request, reply, DEFINITIONS)
            return
        name = request.params["name"]
        self.called.append((name, request.params.get("arguments")))
        await asyncio.sleep(self.seconds.get(name, 0.0))  # the measured duration
        result = {"resultType": "complete", "content": [], "isError": self.refusing}
        reply.result(request, result)


DEFINITIONS = [
    tool("clock", annotations=READ_ONLY, inputSchema=WANTS_ZONE),
    tool("forecast", annotations=READ_ONLY),
    tool("pay"),
]


def states(world: World, environment: str = "cluster") -> dict[str, ToolState]:
    data = world.documents().get(state_name(0))
    document = decode(data) if data is not None else None
    assert document is None or isinstance(document, State)
    servers = document.servers if document is not None else ()
    return {each.name: each for server in servers for each in server.tools if each.environment == environment}


def tiers_are(world: World, name: str, *tiers: str) -> Callable[[], bool]:
    return lambda: (state := states(world).get(name)) is not None and state.tiers == tiers


def columns(world: World, name: str, slowest: str) -> tuple[dict[str, Any], list[str]] | None:
    """Wait until the status and kubectl's output have the same latencies of the tool. Returns both."""
    latency = world.server(name)["status"].get("latency") or {}
    wide = world.plane.kubectl("-n", world.namespace, "get", "mcps", "-o", "wide").stdout.splitlines()
    alike = latency.get("slowestTool") == slowest and str(latency["p95Ms"]) in wide[1].split()
    return (latency, wide) if alike else None


def tier(world: World, name: str) -> dict[str, Any]:
    manifest = world.get(f"{GROUP}/latencytiers/{name}")
    assert manifest is not None
    return manifest


async def test_a_trusted_servers_read_only_tools_are_measured_on_connect_and_a_slow_one_leaves_its_tier(
    world: World,
) -> None:
    tools = Tools({"forecast": SLOW})
    async with raw_server(tools) as server, running(world):
        world.create("weather", {"url": server.url, **PROBED})
        await world.until("Calibrated", lambda: world.is_("weather", "Calibrated", "True", "Calibrated"))
        await world.until("moved", tiers_are(world, "forecast", "standard", "deep"), seconds=60)
        published = states(world)
        shown = await world.until("shown", partial(columns, world, "weather", "forecast"))
        await world.until("fewer", lambda: tier(world, "fast").get("status", {}).get("tools") == 2)
        table = world.plane.kubectl("get", "lt").stdout.splitlines()

        def is_told() -> bool:
            _, listing = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
            return any(e["reason"] == "TierMoved" and "forecast left the fast" in e["note"] for e in listing["items"])

        await world.until("an event", is_told)
    assert {name for name, _ in tools.called} == {"clock", "forecast"}
    assert tools.called[0] == ("clock", {"zone": "test"})
    measured = re.match(r"over_budget p95=(\d+)ms tier=500ms ", published["forecast"].hidden["fast"])
    assert measured is not None
    assert int(measured[1]) >= SLOW * 1000, "the sleep, and what a busy machine adds to it"
    assert published["clock"].quantiles is not None
    assert published["clock"].quantiles.samples >= 2  # the number of samples when the document was written
    assert shown is not None
    latency, wide = shown
    assert 520 <= latency["p50Ms"] <= latency["p95Ms"]
    assert wide[0].split()[3:8] == ["READY", "REASON", "CONFLICTED", "P50", "P95"]
    assert "forecast" in wide[1].split()
    counts = {row.split()[0]: row.split() for row in table[1:]}
    assert "2" in counts["fast"]
    assert tier(world, "deep")["status"]["tools"] == 3


async def test_a_slow_tool_comes_back_by_probes_alone(world: World) -> None:
    tools = Tools({"forecast": SLOW})
    async with raw_server(tools) as server, running(world):
        world.create("weather", {"url": server.url, **PROBED})
        await world.until("moved", tiers_are(world, "forecast", "standard", "deep"), seconds=60)
        tools.seconds.clear()
        await world.until("back", tiers_are(world, "forecast", "fast", "standard", "deep"), seconds=50)


async def test_tools_are_not_probed_unasked(world: World) -> None:
    tools = Tools()
    given = {"name": "pay", "probe": {"arguments": {"amount": 0}}}
    async with raw_server(tools) as server, running(world):
        world.create("shop", {"url": server.url, "trustAnnotations": True})
        await world.until("said", lambda: world.is_("shop", "Calibrated", "False", "NothingToProbe"))
        words = "NothingToProbe: no tool is probed, because none has probe.arguments in spec.tools. "
        assert world.condition("shop", "Calibrated")["message"].startswith(words)
        assert world.is_("shop", "Ready", "True")
        assert tools.called == []
        world.patch_server("shop", {"spec": {"tools": [given]}})
        await world.until("Calibrated", lambda: world.is_("shop", "Calibrated", "True", "Calibrated"))
        await world.until("a whole round", lambda: len(tools.called) >= 5)
    assert all(call == ("pay", {"amount": 0}) for call in tools.called)


async def test_read_only_tools_are_called_where_the_server_says_so_and_is_trusted_and_no_others(world: World) -> None:
    trusted = Tools()
    untrusted = Tools()
    allowed = {"calibration": {"probe": "ReadOnly"}}
    async with raw_server(trusted) as server_a, raw_server(untrusted) as server_b, running(world):
        world.create("one", {"url": server_a.url, "trustAnnotations": True, **allowed})
        world.create("two", {"url": server_b.url, **allowed})
        await world.until("Calibrated", lambda: world.is_("one", "Calibrated", "True", "Calibrated"))
        await world.until("said", lambda: world.is_("two", "Calibrated", "False", "NothingToProbe"))
        assert "none is trusted as read-only" in world.condition("two", "Calibrated")["message"]
    assert {name for name, _ in trusted.called} == {"clock", "forecast"}
    assert untrusted.called == []


async def test_errors_do_not_measure_speed_and_the_condition_says_so(world: World) -> None:
    tools = Tools(refusing=True)
    async with raw_server(tools) as server, running(world):
        world.create("weather", {"url": server.url, **PROBED})
        await world.until("failed", lambda: world.is_("weather", "Calibrated", "False", "ProbesFailed"))
        message = world.condition("weather", "Calibrated")["message"]
        assert world.is_("weather", "Ready", "True")
    assert message.startswith("ProbesFailed: no result from clock, forecast: isError")
    assert states(world) == {}


async def test_probes_can_be_turned_off(world: World) -> None:
    tools = Tools()
    declared = {"tools": [{"name": "pay", "probe": {"arguments": {}}}], "trustAnnotations": True}
    async with raw_server(tools) as server, running(world):
        world.create("new", {"url": server.url, "calibration": {"probe": "Never"}, **declared})
        await world.until("said", partial(world.is_, "new", "Calibrated", "False", "CalibrationDisabled"))
        assert world.is_("new", "Ready", "True")
    assert tools.called == []


async def test_figures_are_kept_under_the_name_of_the_environment_with_the_round_trip_beside_them(
    world: World,
) -> None:
    async with raw_server(Tools()) as server, running(world, environment="edge"):
        world.create("weather", {"url": server.url, **PROBED})
        # only the tool that was probed first is certain: mere figures of others may be written much later
        published = await world.until("published", lambda: states(world, "edge"))
        assert published.keys() <= {"clock", "forecast"}
        assert states(world) == {}
        document = decode(world.documents()[state_name(0)])
    assert isinstance(document, State)
    assert 0 < document.servers[0].round_trip_ms["edge"] < 5000


async def test_a_tool_that_hangs_delays_no_discovery(world: World) -> None:
    tools = Tools({"clock": 60.0})
    async with raw_server(tools) as server, running(world):
        world.create("weather", {"url": server.url, **PROBED})
        await world.until("probed", lambda: tools.called)
        world.create("other", {"url": server.url})
        await world.until("Ready", lambda: world.is_("other", "Ready", "True"))
        assert world.is_("weather", "Ready", "True")
        world.patch_server("weather", {"spec": {"tools": [{"name": "pay", "enabled": False}]}})
        await world.until("renewed", lambda: world.server("weather")["status"]["tools"] == 2)
