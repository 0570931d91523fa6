"""Connections, streams, tasks, files and processes leave nothing behind after their end.

These tests count objects. `hack/bench soak` measures memory, with 10,000 clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from client_churn import REFUSED, WAYS, connect_guest, crowd
from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.fallback import FallbackRequest
from fairlead_gateway.endpoint.notification_streams import NotificationStream
from fairlead_gateway.upstream.http_call import HttpCall
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.connection import Connection
from gatewayworld import LEGACY, ask, calling, catalog, publish, running, wait_for_snapshots
from toolservers import LEGACY_STDIO, RawServer, Reply, Request, answer_modern, raw_server, tool
from unplugged_machine import elsewhere, possible
from upprocess import children_of
from waiting import eventually, until_async

pytestmark = pytest.mark.timeout(180)
"""Each test has many rounds with time limits of their own, which together exceed the usual time-out."""
FEW = 6
"""Number of objects that the last request may leave until the next one, such as an exception's frames or a finished
task."""
TOOLS = [tool("add"), tool("slow")]


async def handle(request: Request, reply: Reply) -> None:
    if request.params.get("name") == "slow":
        await asyncio.Event().wait()
    answer_modern(request, reply, TOOLS, call=lambda _: {"content": [], "isError": False})


@dataclass(frozen=True)
class Count:
    """Counts of everything that could be left behind."""

    connections: int
    streams: int
    flights: int
    tasks: int
    files: int
    processes: int

    @classmethod
    def of(cls, gateway: Gateway) -> Count:
        return cls(
            connections=len(gateway._listener.connections),
            streams=len(gateway.endpoint.streams),
            flights=len(gateway.endpoint.context.calls),
            tasks=len(asyncio.all_tasks()),
            files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            processes=len(children_of(os.getpid())),
        )


def remains() -> Counter[str]:
    """Numbers of existing objects that belong to a connection, by class."""
    gc.collect()
    kinds = (ClientConnection, HttpExchange, FallbackRequest, NotificationStream)
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, kinds))


async def quiet(gateway: Gateway, upstream: RawServer, before: Counter[str]) -> Count:
    """The counts after all clients have disconnected and all upstream connections are closed.

    Objects in `before` are ignored: they belong to other tests, for example to the traceback of a failed test.
    """

    def count_remains() -> int:
        return (remains() - before).total()

    await eventually(lambda: not gateway._listener.connections)
    upstream.cut()
    await eventually(lambda: not upstream.open)
    with contextlib.suppress(TimeoutError):  # the assertion reports the objects that are left
        await eventually(lambda: count_remains() <= FEW)
    assert count_remains() <= FEW
    return Count.of(gateway)


async def test_clients_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    before = remains()
    counts = []
    async with raw_server(handle) as upstream, running(tmp_path, catalog("demo", upstream.url, TOOLS)) as gateway:
        for _ in range(4):
            polite = await crowd("127.0.0.1", gateway.port, 30)
            rude = await crowd("127.0.0.1", gateway.port, 30)
            assert len(gateway._listener.connections) == 60
            for guest in polite:
                guest.leave()
            for guest in rude:
                guest.slam()
            counts.append(await quiet(gateway, upstream, before))
    assert counts[-1] == counts[0]
    assert counts[-1].connections == counts[-1].streams == counts[-1].flights == 0


async def test_calls_and_connections_that_are_over_are_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """Thousands of such objects are megabytes. If the heap is frozen meanwhile (`heap`), they stay for long."""

    def alive() -> int:
        return sum(isinstance(thing, ClientConnection | Connection | HttpCall) for thing in gc.get_objects())

    async with raw_server(handle) as upstream:
        demo = catalog("demo", upstream.url, TOOLS)
        own = catalog("own", upstream.url, TOOLS, session="PerClient")
        async with running(tmp_path, demo, own) as gateway:
            gc.collect()
            before = alive()
            gc.disable()
            try:
                guests = [
                    await connect_guest("127.0.0.1", gateway.port, way)
                    for way in ("asks", "calls", "says half of it", REFUSED)
                ]
                assert (await ask(gateway, calling("own__add"))).status == 200
                assert alive() >= before + 4
                for guest in guests:
                    guest.leave()
                upstream.cut()
                await eventually(lambda: not gateway._listener.connections and not upstream.open)
                await eventually(lambda: alive() <= before)
            finally:
                gc.enable()


async def test_snapshots_that_are_replaced_leave_nothing_behind(tmp_path: Path) -> None:
    nudge = asyncio.Event()
    async with raw_server(handle) as upstream:
        demo = catalog("demo", upstream.url, TOOLS)
        documents = tmp_path / "documents"
        async with running(tmp_path, demo, nudge=nudge) as gateway:
            counts = []
            listening = await connect_guest("127.0.0.1", gateway.port, "listens")
            for number in range(60):
                other = catalog("other", upstream.url, [tool(f"tool-{number}")])
                swaps = gateway.snapshots.swaps
                publish(documents, other)
                nudge.set()
                await wait_for_snapshots(gateway, swaps + 1)
                await ask(gateway, calling(f"other__tool-{number}"))
                if number % 20 == 19:
                    gc.collect()
                    kinds = Counter(type(thing).__name__ for thing in gc.get_objects())
                    counts.append(
                        {name: kinds[name] for name in ("Selection", "View", "Snapshot", "Server", "Catalog")}
                    )
            listening.leave()
    assert counts[1] == counts[2]


async def test_servers_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    before = remains()
    children = ChildHost()
    others = set(children_of(os.getpid()))  # for example the API server of other tests
    try:
        async with raw_server(handle) as upstream:
            child = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
            documents = [catalog("demo", upstream.url, TOOLS), catalog("child", child, ["echo"], version=LEGACY)]
            async with running(tmp_path, *documents, children=children, shared_children=False) as gateway:
                counts = []
                for _ in range(4):
                    for _ in range(5):
                        await ask(gateway, calling("demo__add"))
                        upstream.cut()
                    for pid in set(children_of(os.getpid())) - others:
                        os.kill(pid, signal.SIGKILL)
                    await until_async("the child's answer", lambda: _echoes(gateway))
                    counts.append(await quiet(gateway, upstream, before))
    finally:
        await children.aclose()
    assert counts[-1] == counts[1]


async def _echoes(gateway: Gateway) -> bool:
    """Whether the child process answers. After a kill, it is started again with growing pauses."""
    answer = await ask(gateway, calling("child__echo", {"text": "a"}))
    return not answer.message["result"].get("isError")


async def test_the_kernel_is_told_to_notice_clients_that_have_vanished(tmp_path: Path) -> None:
    async with running(tmp_path, client_silence=12) as gateway:
        guest = await connect_guest("127.0.0.1", gateway.port, "asks")
        (connection,) = gateway._listener.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_000
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 6
        guest.leave()


async def test_an_idle_client_is_let_go_after_client_idle(tmp_path: Path) -> None:
    async with running(tmp_path, client_idle=0.5) as gateway:
        guest = await connect_guest("127.0.0.1", gateway.port, "asks")
        async with asyncio.timeout(20):
            await guest.reader.read()
        guest.leave()


@pytest.mark.skipif(not possible(), reason="needs root, ip and iptables: makes a network namespace")
async def test_clients_that_vanish_without_a_word_are_let_go_whatever_they_were_doing(tmp_path: Path) -> None:
    before = remains()
    async with raw_server(handle) as upstream:
        settings: dict[str, Any] = {"host": "0.0.0.0", "client_idle": 600.0, "client_silence": 2.0}
        settings["call_timeout"] = 600.0
        async with running(tmp_path, catalog("demo", upstream.url, TOOLS), **settings) as gateway:
            with elsewhere() as machine:
                machine.start(gateway.port)
                counts = []
                for _ in range(2):
                    await asyncio.to_thread(machine.come, len(WAYS) * 3)
                    await asyncio.to_thread(machine.vanish)
                    assert len(gateway._listener.connections) == len(WAYS) * 3
                    await eventually(lambda: not gateway._listener.connections, seconds=40)
                    counts.append(await quiet(gateway, upstream, before))
    assert counts[1] == counts[0]
    assert counts[1].flights == counts[1].streams == 0
