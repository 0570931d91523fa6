"""Servers that are slow or fail partially, in virtual time: how long discovery waits, and what it delays."""

from __future__ import annotations

import asyncio
import random

import pytest

from fairlead_api.documents.catalog import ChildEndpoint, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_mcp.child import SILENT_SECONDS
from fairlead_mcp.errors import BadListing, ConnectionLost, McpError, Timeout
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.first_verdict import before_first_answer
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryState, DiscoveryTarget
from operatorfakes import Script, ScriptedConnector, tool_named
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

KEY = ServerKey("team", "demo")
SUBJECT = DiscoveryTarget("uid", HttpEndpoint(url="http://demo.example/mcp"), "", "")
OFFERS: dict[str, object] = {"tools": {}, "prompts": {}}


async def discover(script: Script, timeout: float = 60.0) -> DiscoveryState:
    """Run one discovery of a server."""
    done = asyncio.Event()
    options = DiscoveryOptions(timeout=timeout)
    discoverer = Discoverer(
        ScriptedConnector({KEY: script}), lambda key: done.set(), options=options, clocks=Clocks(rng=random.Random(1))
    )
    round_ = discoverer.discover_if_due(KEY, SUBJECT, None, 600.0)
    await done.wait()
    await discoverer.aclose()
    return round_


async def test_a_listing_that_takes_two_minutes_is_given_up_by_default() -> None:
    round_ = await discover(Script(tools=[tool_named("a")], takes=120))
    assert round_.listing is None
    assert round_.failure is not None
    assert round_.failure.reason == "Timeout"
    assert asyncio.get_running_loop().time() == pytest.approx(60, abs=1)


async def test_a_listing_that_takes_two_minutes_is_waited_for_where_the_setting_says_so() -> None:
    round_ = await discover(Script(tools=[tool_named("a")], takes=120), timeout=180)
    assert round_.failure is None
    assert round_.listing is not None
    assert len(round_.listing.unpack().tools) == 1


@pytest.mark.parametrize(
    "error", [BadListing("too long", reason="TooManyPages"), Timeout("too slow", sent=True)], ids=["pages", "timeout"]
)
async def test_prompts_that_cannot_be_listed_cost_a_server_no_tool(error: McpError) -> None:
    round_ = await discover(Script(tools=[tool_named("a")], capabilities=OFFERS, failing={"prompts/list": error}))
    assert round_.failure is None
    assert round_.listing is not None
    assert len(round_.listing.unpack().tools) == 1
    assert round_.listing.unpack().notes == (f"prompts/list failed: {error}",)


async def test_a_connection_that_is_lost_under_the_prompts_is_a_failure_of_the_server() -> None:
    lost = ConnectionLost("gone", sent=True)
    round_ = await discover(Script(tools=[tool_named("a")], capabilities=OFFERS, failing={"prompts/list": lost}))
    assert round_.failure is not None
    assert round_.failure.reason == "ConnectionLost"


async def test_two_hundred_servers_that_hang_keep_a_good_one_waiting_for_seconds_only() -> None:
    good = ServerKey("team", "good")
    hanging = [ServerKey("team", f"hangs-{number}") for number in range(200)]
    scripts = {key: Script(hang=True) for key in hanging} | {good: Script(tools=[tool_named("a")])}
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()
    discoverer = Discoverer(
        ScriptedConnector(scripts),
        lambda key: answered.set() if key == good else None,
        max_concurrent=64,
        clocks=Clocks(rng=random.Random(1), monotonic=loop.time),
    )
    for key in hanging:
        discoverer.discover_if_due(key, SUBJECT, None, 600.0)
    discoverer.discover_if_due(good, SUBJECT, None, 600.0)
    await answered.wait()
    assert loop.time() <= 20
    await asyncio.sleep(100)
    for key in hanging:
        discoverer.discover_if_due(key, SUBJECT, None, 600.0)
    await asyncio.sleep(0)
    answered.clear()
    again = DiscoveryTarget("uid", HttpEndpoint(url="http://moved.example/mcp"), "", "")
    began = loop.time()
    discoverer.discover_if_due(good, again, None, 600.0)
    await answered.wait()
    assert loop.time() == began, "those that are known to hang have a queue of their own"
    await discoverer.aclose()


@pytest.mark.parametrize(
    ("endpoint", "advice"),
    [
        (ChildEndpoint(command="demo"), "run its command by hand"),
        (HttpEndpoint(url="http://demo.example/mcp"), "whether the URL is its MCP endpoint"),
    ],
)
async def test_a_server_that_does_not_answer_is_told_with_advice_for_its_transport(
    endpoint: Endpoint, advice: str
) -> None:
    clock = asyncio.get_running_loop().time
    connector = ScriptedConnector({KEY: Script(tools=[tool_named("a")], takes=120)})
    discoverer = Discoverer(connector, lambda key: None, clocks=Clocks(monotonic=clock, rng=random.Random(1)))
    state = discoverer.discover_if_due(KEY, DiscoveryTarget("uid", endpoint, "", ""), None, 600.0)
    verdict = before_first_answer(McpServerStatus(), state, clock() + SILENT_SECONDS)
    await discoverer.aclose()
    assert verdict is not None
    assert verdict.cause == Cause.SILENT
    assert advice in verdict.message
