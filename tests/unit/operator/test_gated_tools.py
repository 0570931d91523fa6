"""Tools that a server lists only to clients with a capability, found by a discovery that declares every one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from msgspec import structs

from fairlead_api.documents.catalog import Catalog, ChildEndpoint, Endpoint, HttpEndpoint, ToolEntry
from fairlead_api.meta import ServerKey
from fairlead_mcp import capabilities
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.server_listing import RawListing, read_everything
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.gated_tools import (
    GRACE_SECONDS,
    MAX_AGE_SECONDS,
    PAUSES,
    CapabilityComparisons,
    complete_from_catalog,
)
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryTarget
from operatorfakes import Script, ScriptedConnector, tool_named
from virtualtime import in_virtual_time

KEY = ServerKey("team", "demo")
HTTP = HttpEndpoint(url="http://demo.example/mcp")
CHILD = ChildEndpoint(command="demo")
GATED = {"sampling": [tool_named("ask_model")], "elicitation.url": [tool_named("open_page")]}


@dataclass
class Bench:
    script: Script
    endpoint: Endpoint = HTTP
    now: float = 0.0
    version: str = "2026-07-28"
    """Protocol version of the server."""

    def __post_init__(self) -> None:
        self.connector = ScriptedConnector({KEY: self.script})
        self.changed_servers: list[ServerKey] = []
        self.capability_comparisons = CapabilityComparisons(
            self.connector, self.changed_servers.append, lambda: self.now
        )

    async def listing(self, *, again: bool = False) -> RawListing:
        async with self.connector.session(KEY, self.endpoint, None) as session:
            listing = structs.replace(await read_everything(session), protocol_version=self.version)
        await self.capability_comparisons.compare(KEY, self.endpoint, None, listing, is_refresh=again, required=True)
        return self.capability_comparisons.complete(KEY, listing)

    def comparisons(self) -> int:
        """Number of sessions with capabilities since the last call."""
        count = len(self.script.compared)
        self.script.compared.clear()
        return count


async def test_a_gated_tool_is_found_with_the_capability_that_it_requires() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED))
    listing = await bench.listing()
    assert len(listing.tools) == 3
    assert listing.requires == {"ask_model": ("sampling",), "open_page": ("elicitation.url",)}
    assert bench.script.compared[0] == capabilities.ALL


async def test_a_tool_that_no_single_capability_brings_forth_requires_them_together() -> None:
    script = Script(gated={"sampling.context": [tool_named("ask")]})
    assert (await Bench(script).listing()).requires == {"ask": ("roots", "sampling", "elicitation")}


async def test_a_server_without_gated_tools_is_compared_once() -> None:
    bench = Bench(Script([tool_named("plain")]))
    for _ in range(3):
        assert (await bench.listing()).requires == {}
    assert bench.comparisons() == 1


async def test_a_server_is_compared_again_when_it_changes_or_is_asked_to_or_after_an_hour() -> None:
    bench = Bench(Script([tool_named("plain")]))
    await bench.listing()
    bench.comparisons()
    bench.script.tools.append(tool_named("more"))
    await bench.listing()
    assert bench.comparisons() == 1, "it lists other tools"
    await bench.listing(again=True)
    assert bench.comparisons() == 1, "somebody asked for it"
    bench.now += MAX_AGE_SECONDS + 1
    await bench.listing()
    assert bench.comparisons() == 1, "the last one is old"


async def test_a_process_of_ours_is_not_started_again_because_time_has_passed() -> None:
    bench = Bench(Script([tool_named("plain")]), CHILD)
    await bench.listing()
    bench.now += MAX_AGE_SECONDS + 1
    await bench.listing()
    assert bench.comparisons() == 1


async def test_a_legacy_process_that_is_unchanged_is_not_started_again_though_somebody_asks() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED), CHILD, version="2025-11-25")
    before = await bench.listing()
    assert bench.comparisons() > 0
    assert (await bench.listing(again=True)).requires == before.requires
    assert bench.comparisons() == 0
    bench.script.tools.append(tool_named("more"))
    await bench.listing(again=True)
    assert bench.comparisons() > 0


@in_virtual_time
async def test_a_legacy_process_whose_comparison_failed_is_compared_when_somebody_asks() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED), CHILD, version="2025-11-25")
    bench.script.incomparable = ConnectFailed("one at a time", reason="Refused")
    assert not (await bench.listing()).compared
    await asyncio.sleep(sum(PAUSES) + 1)
    bench.script.incomparable = None
    assert (await bench.listing(again=True)).requires


@pytest.mark.parametrize(("version", "sessions"), [("2025-11-25", 0), ("2026-07-28", 1)])
async def test_no_second_container_is_started_to_compare(version: str, sessions: int) -> None:
    endpoint = ChildEndpoint(command="/usr/bin/docker", args=("run", "-i", "--rm", "image"))
    bench = Bench(Script([tool_named("plain")]), endpoint, version=version)
    listing = await bench.listing(again=True)
    assert (bench.comparisons(), listing.compared, len(listing.tools)) == (sessions, True, 1)


async def test_a_comparison_that_fails_takes_no_tool_off_the_list() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED))
    before = await bench.listing()
    bench.script.incomparable = ConnectFailed("one at a time", reason="Refused")
    bench.script.tools.append(tool_named("more"))
    after = await bench.listing()
    assert after.requires == before.requires
    assert len(after.tools) == 4


async def test_a_gated_tool_that_is_listed_to_everybody_now_requires_nothing() -> None:
    bench = Bench(Script([tool_named("plain")], gated={"sampling": [tool_named("ask_model")]}))
    await bench.listing()
    bench.script.tools.append(tool_named("ask_model"))
    listing = await bench.listing()
    assert (len(listing.tools), listing.requires) == (2, {})


@in_virtual_time
async def test_a_slow_comparison_holds_no_discovery_up_and_is_told_of_when_it_is_over() -> None:
    may_compare = asyncio.Event()
    bench = Bench(Script([tool_named("plain")], gated=GATED, comparable=may_compare))
    discoverer = Discoverer(
        bench.connector,
        bench.changed_servers.append,
        options=DiscoveryOptions(jitter=0.0),
        clocks=Clocks(monotonic=lambda: 0.0),
    )
    subject = DiscoveryTarget("uid", HTTP, "", "")
    discoverer.discover_if_due(KEY, subject, None, 600.0)
    await asyncio.sleep(GRACE_SECONDS + 1)
    first = discoverer.discover_if_due(KEY, subject, None, 600.0).listing
    assert first is not None
    assert (len(first.unpack().tools), first.unpack().compared) == (1, False)
    may_compare.set()
    await asyncio.sleep(1)
    assert len(bench.changed_servers) == 2
    second = discoverer.discover_if_due(KEY, subject, None, 600.0).listing
    assert second is not None
    assert (len(second.unpack().tools), second.unpack().compared) == (3, True)
    assert bench.script.connections == 1, "the server itself is not asked again for it"
    await discoverer.aclose()


@in_virtual_time
async def test_a_comparison_that_fails_is_tried_again() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED, incomparable=ConnectFailed("busy", reason="Refused")))
    assert not (await bench.listing()).compared
    bench.script.incomparable = None
    await asyncio.sleep(sum(PAUSES))
    assert bench.changed_servers
    assert len((await bench.listing()).tools) == 3


async def test_published_requirements_count_while_a_new_operator_cannot_compare() -> None:
    bench = Bench(Script([tool_named("plain")], gated=GATED))
    raw = (await bench.listing()).tools[1]
    entry = ToolEntry(name="ask_model", definition=raw, hash="h", search_hash="s", requires=("sampling",))
    published = Catalog(
        namespace="team",
        name="demo",
        uid="u",
        generation=1,
        endpoint=HTTP,
        protocol_version="2026-07-28",
        tools=(entry,),
    )
    later = Bench(Script([tool_named("plain")], incomparable=ConnectFailed("busy", reason="Refused")))
    listing = await later.listing()
    assert not listing.compared
    completed = complete_from_catalog(listing, published)
    assert (len(completed.tools), completed.requires) == (2, {"ask_model": ("sampling",)})
    assert complete_from_catalog(await bench.listing(), published).requires == (await bench.listing()).requires


def test_announcements_to_an_earlier_operator_stay_announced() -> None:
    published = Catalog(
        namespace="team",
        name="demo",
        uid="u",
        generation=1,
        endpoint=HTTP,
        protocol_version="2026-07-28",
        announced={"tools": "1", "prompts": "1"},
    )
    listing = RawListing("2026-07-28", announced={"tools": "2"})
    assert complete_from_catalog(listing, published).announced == {"tools": "2", "prompts": "1"}
