"""When discovery of a server is repeated: by the interval, hints of the server, announcements, and a minimum
interval."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from fairlead_api.documents.catalog import HttpEndpoint, Refreshed
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import ConnectFailed
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryState, DiscoveryTarget
from operatorfakes import NOW, Script, ScriptedConnector, until

KEY = ServerKey("team", "demo")
SUBJECT = DiscoveryTarget("uid-1", HttpEndpoint(url="http://demo.example/mcp"), "", "")
STAMP = "2026-11-20T12:00:00.000+00:00"
ANNOUNCES = {"tools": {"listChanged": True}}


@dataclass
class Bench:
    """Discoveries of one scripted server, with a clock that the test sets."""

    script: Script
    now: float = 0.0
    changed_servers: list[ServerKey] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = DiscoveryOptions(floor=30.0, jitter=0.0)
        connector = ScriptedConnector({KEY: self.script})
        self.discoverer = Discoverer(
            connector,
            self.changed_servers.append,
            options=options,
            clocks=Clocks(monotonic=lambda: self.now, now=lambda: NOW, rng=random.Random(1)),
        )

    def look(self) -> DiscoveryState:
        return self.discoverer.discover_if_due(KEY, SUBJECT, None, 600.0)

    async def discover(self) -> DiscoveryState:
        """Start a discovery and wait for its end."""
        before = len(self.changed_servers)
        self.look()
        await until(lambda: len(self.changed_servers) > before)
        return self.look()


@pytest.mark.parametrize(
    ("ttl_ms", "seconds"),
    [(None, 600), (0, 600), (120_000, 120), (5_000, 30), (86_400_000, 600)],
    ids=["no hint", "0 is not a hint", "sooner", "not below the floor", "not beyond the interval"],
)
async def test_a_hint_of_the_server_shortens_the_interval_within_bounds(ttl_ms: int | None, seconds: float) -> None:
    bench = Bench(Script(ttl_ms=ttl_ms))
    state = await bench.discover()
    assert bench.discoverer.until_due(state) == seconds
    await bench.discoverer.aclose()


async def test_announcements_lead_to_one_discovery_a_moment_after_the_last() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    bench.now = 0.0625
    for _ in range(5):
        bench.discoverer.request_discovery(KEY)
    assert bench.discoverer.until_due(state) == 0.1875
    bench.look()
    assert bench.script.connections == 1
    bench.now = 0.25
    await bench.discover()
    assert bench.script.connections == 2
    assert bench.discoverer.until_due(state) == 600
    await bench.discoverer.aclose()


async def test_a_server_that_announces_all_the_time_is_asked_once_per_floor() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    waits = []
    for _ in range(12):
        bench.discoverer.request_discovery(KEY)
        waits.append(bench.discoverer.until_due(state))
        bench.now += waits[-1]
        await bench.discover()
    assert waits == [0.25] * 8 + [30.0] * 4, "eight at once, then the floor"
    bench.now += 10 * 30
    bench.discoverer.request_discovery(KEY)
    assert bench.discoverer.until_due(state) == 0, "a quiet time makes good"
    await bench.discoverer.aclose()


async def test_an_announcement_after_a_quiet_time_is_followed_at_once() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    bench.now = 100
    bench.discoverer.request_discovery(KEY)
    assert bench.discoverer.until_due(state) == 0
    await bench.discoverer.aclose()


async def test_an_announcement_during_a_discovery_makes_another_one_due() -> None:
    bench = Bench(Script())
    bench.look()
    bench.discoverer.request_discovery(KEY)
    await until(lambda: bench.changed_servers)
    assert bench.discoverer.until_due(bench.look()) == 0.25
    await bench.discoverer.aclose()


async def test_an_answer_says_which_lists_were_announced_before_it_was_asked_for() -> None:
    """Clients that are notified of a change read the list in this answer."""
    changed_servers = asyncio.Event()
    bench = Bench(Script(capabilities=ANNOUNCES, listened=changed_servers, says=("notifications/tools/list_changed",)))
    first = (await bench.discover()).listing
    assert first is not None
    assert first.unpack().announced == {}
    await until(lambda: bench.look().announced)
    bench.now = 1
    second = (await bench.discover()).listing
    assert second is not None
    assert second.unpack().announced == {"tools": STAMP}
    await bench.discoverer.aclose()


async def test_a_stream_that_ends_is_a_reason_to_ask() -> None:
    stream = asyncio.Event()
    bench = Bench(Script(capabilities=ANNOUNCES, listened=stream))
    state = await bench.discover()
    bench.now = 100
    assert bench.discoverer.until_due(state) == 500
    stream.set()
    await until(lambda: bench.discoverer.until_due(state) == 0)
    await bench.discoverer.aclose()


async def test_discovery_holds_no_line_for_servers_that_announce_nothing() -> None:
    bench = Bench(Script())
    await bench.discover()
    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.script.connections == 1, "one connection, for the discovery"
    await bench.discoverer.aclose()


async def test_a_server_that_comes_and_goes_every_second_is_left_alone_for_longer_and_longer() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    moves: list[float] = []
    for second in range(1, 1201):
        bench.now = float(second)
        if state.failure is None:
            moves.append(bench.now)
        bench.discoverer.take_loss(KEY, ConnectFailed("refused"))
        bench.now += 0.5
        bench.discoverer.take_recovery(KEY)
        if bench.discoverer.until_due(state) == 0:
            await bench.discover()
            moves.append(bench.now)
    assert moves[:4] == [1.0, 1.5, 2.0, 2.5], "the first two returns show at once"
    assert len([move for move in moves if move > 600]) <= 22, "then about one a minute"
    await bench.discoverer.aclose()


async def test_a_loss_is_the_result_of_a_discovery_that_hangs() -> None:
    bench = Bench(Script(hang=True))
    bench.look()
    await until(lambda: bench.script.connections)
    bench.discoverer.take_loss(KEY, ConnectFailed("refused", reason="ConnectionRefused"))
    failure = bench.look().failure
    assert failure is not None
    assert failure.reason == "ConnectionRefused"
    bench.script.hang = False
    bench.now = 1.0
    bench.discoverer.take_recovery(KEY)
    assert (await bench.discover()).failure is None
    await bench.discoverer.aclose()


async def test_a_requested_discovery_comes_at_once_and_says_what_it_brought() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    bench.now = 5
    bench.discoverer.refresh(KEY)
    assert bench.discoverer.until_due(state) == 0
    assert (await bench.discover()).refreshed == Refreshed(at=STAMP)
    bench.script.error = ConnectFailed("it is gone")
    bench.now = 10
    bench.discoverer.refresh(KEY)
    assert (await bench.discover()).refreshed == Refreshed(at=STAMP, failure="it is gone")
    await bench.discoverer.aclose()


async def test_a_request_during_a_discovery_is_answered_by_the_next_one() -> None:
    bench = Bench(Script())
    bench.look()
    bench.discoverer.refresh(KEY)
    await until(lambda: bench.changed_servers)
    state = bench.look()
    assert state.refreshed is None
    assert bench.discoverer.until_due(state) == 0.25
    bench.now = 1
    assert (await bench.discover()).refreshed == Refreshed(at=STAMP)
    await bench.discoverer.aclose()


async def test_a_request_for_a_server_that_cannot_be_asked_is_answered_with_the_reason() -> None:
    bench = Bench(Script())
    await bench.discover()
    bench.discoverer.refresh(KEY)
    state = bench.discoverer.pause(KEY, "no pod is ready")
    assert state is not None
    assert state.refreshed == Refreshed(at=STAMP, failure="no pod is ready")
    await bench.discoverer.aclose()


async def test_a_server_that_is_left_alone_is_asked_on_request_and_not_on_doubt() -> None:
    bench = Bench(Script())
    state = await bench.discover()
    for _ in range(4):
        bench.now += 1
        bench.discoverer.take_loss(KEY, ConnectFailed("refused"))
        bench.now += 100 if bench.discoverer.until_due(state) else 1
        await bench.discover()
    bench.now += 1
    bench.discoverer.take_loss(KEY, ConnectFailed("refused"))
    bench.discoverer.discover_promptly(KEY)
    held = bench.discoverer.until_due(state)
    bench.discoverer.refresh(KEY)
    assert bench.discoverer.until_due(state) == 0 < held
    await bench.discoverer.aclose()
