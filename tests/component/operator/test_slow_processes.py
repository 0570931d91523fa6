"""Servers on stdio in pods whose processes take their time to start and to end: what the operator makes of them, and
with how many processes. Over connections of this machine, in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.tcp import FULL
from fairlead_mcp.waiting import wait_until_set
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.connector import NetworkConnector
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.first_verdict import before_first_answer
from fairlead_operator.discovery.gated_tools import MAX_AGE_SECONDS
from fairlead_operator.discovery.state import STILL_SILENT, DiscoveryFailure, DiscoveryState, DiscoveryTarget
from operatorfakes import mcp_server
from rawserver import encode
from scriptedserver import ERAS, handshake, responder

pytestmark = pytest.mark.looptime(start=0)

KEY = ServerKey("team", "slow")
TEARDOWN_S = 0.5
"""Seconds from the end of a process's output to its own end."""


@dataclass
class SlowServer:
    """A listener whose processes answer from `start_s` seconds after their connection on, and end `end_s` seconds
    after their input. The gate refuses more than `most` of them at a time.
    """

    era: str
    start_s: float
    end_s: float = 0.0
    most: int = 1
    endpoint: TcpEndpoint = field(init=False)
    started: int = 0
    running: int = 0
    refused: int = 0
    tasks: set[asyncio.Future[None]] = field(default_factory=set)
    end: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the start of all processes."""

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.ensure_future(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.running >= self.most:
            self.refused += 1
            writer.write(FULL + b"%d\n" % self.most)
            await reader.read()
            writer.close()
            return
        self.started += 1
        self.running += 1
        respond = responder(handshake(self.era, capabilities={"tools": {"listChanged": True}}))
        try:
            with contextlib.suppress(ConnectionError):
                await reader.readline()  # the token
                await wait_until_set(self.end, self.start_s)
                async for line in reader:
                    subscribed = b"subscriptions/listen" in line  # a request without an end
                    if not subscribed and (response := respond(line)) is not None:
                        writer.write(encode(response) + b"\n")
            await wait_until_set(self.end, self.end_s)
        finally:
            writer.close()
            await wait_until_set(self.end, TEARDOWN_S)
            self.running -= 1


@contextlib.asynccontextmanager
async def slow_server(era: str, start_s: float, end_s: float = 0.0) -> AsyncIterator[SlowServer]:
    made = SlowServer(era, start_s, end_s)
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.endpoint = TcpEndpoint(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        server.close()
        made.end.set()
        await asyncio.gather(*made.tasks)


@contextlib.asynccontextmanager
async def first_discovery(server: SlowServer) -> AsyncIterator[tuple[DiscoveryState, asyncio.Event]]:
    """The first discovery of a server, with the event of its end."""
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    clocks = Clocks(monotonic=loop.time, rng=random.Random(1))
    discoverer = Discoverer(NetworkConnector(), lambda key: done.set(), clocks=clocks)
    try:
        yield discoverer.discover_if_due(KEY, DiscoveryTarget("uid", server.endpoint, "", ""), None, 600.0), done
    finally:
        await discoverer.aclose()


@pytest.mark.parametrize("era", ERAS)
async def test_a_process_that_takes_a_minute_to_start_is_waited_for_and_started_once_for_its_list(era: str) -> None:
    async with slow_server(era, 60.0) as server, first_discovery(server) as (state, done):
        await asyncio.sleep(30.0)
        assert server.started == 1
        verdict = before_first_answer(mcp_server().status, state, asyncio.get_running_loop().time())
        assert verdict is not None
        assert (verdict.ok, verdict.cause, verdict.message) == (None, Cause.SILENT, STILL_SILENT)
        await asyncio.wait_for(done.wait(), 60.0)
        assert state.failure is None
        assert state.listing is not None
        assert len(state.listing.unpack().tools) == 1


async def test_a_process_that_never_answers_has_its_120_seconds_and_the_verdict_says_so() -> None:
    async with slow_server("2025-11-25", 1e6) as server, first_discovery(server) as (state, done):
        await asyncio.sleep(START_SECONDS - 1.0)
        assert (server.started, state.failure, done.is_set()) == (1, None, False)
        await asyncio.wait_for(done.wait(), 20.0)
        assert state.failure is not None
        assert state.failure.reason == Cause.START_TIMEOUT
        assert "within 120 s of its start" in state.failure.message
        assert state.failure.wants_log_line, "the log of the process may say why"


@pytest.mark.parametrize("era", ERAS)
async def test_discovery_stream_and_comparison_of_a_slow_server_find_room_in_a_limit_of_one_process(era: str) -> None:
    """`discover_if_due` is called after each result and in between, as reconciles do."""
    loop = asyncio.get_running_loop()
    results: list[tuple[int, DiscoveryFailure | None]] = []
    due = asyncio.Event()
    clocks = Clocks(monotonic=loop.time, rng=random.Random(1))
    async with (
        slow_server(era, 8.0, end_s=3.0) as server,
        contextlib.aclosing(Discoverer(NetworkConnector(), lambda key: due.set(), clocks=clocks)) as discoverer,
    ):
        target = DiscoveryTarget("uid", server.endpoint, "", "")
        while loop.time() < 2 * MAX_AGE_SECONDS:
            state = discoverer.discover_if_due(KEY, target, None, 600.0)
            results.append((0 if state.listing is None else len(state.listing.unpack().tools), state.failure))
            due.clear()
            await wait_until_set(due, 30.0)
        assert (server.refused, server.running) == (0, 1), "the stream is open"
        assert results[-1] == (1, None)
        assert [failure for _, failure in results if failure is not None] == []
        assert server.started < 12, "no process for each of the discoveries"


async def test_a_server_whose_clients_have_all_its_processes_is_overloaded_and_stays_online() -> None:
    async with slow_server("2025-11-25", 0.0) as server:
        server.most = 0
        async with first_discovery(server) as (state, done):
            await asyncio.wait_for(done.wait(), 60.0)
            assert state.failure is not None
            assert state.failure.verdict().cause == Cause.TOO_MANY_PROCESSES
            assert not state.has_lost_server
