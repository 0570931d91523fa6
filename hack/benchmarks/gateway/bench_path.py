"""The path of a call without sockets: Python's time between a request's bytes and the answer's, in microseconds.

The gateway of `hack/bench gateway` runs in this process, between transports that store written bytes: without kernel,
load generator and second core, so that a change of a few per cent is visible within a minute. 64 connections call in
turn, as they do when an event loop is busy. The figure is the minimum of many rounds, because disturbances can only add
time. `there` ends with the request to the server, `back` with the answer to the client; if the gateway handles a call
in a task, passes of the loop are part of both. With a kernel, the same work costs 1.5 to 2 times as much, because the
caches are cold.

--long adds the functions that take the time, according to the profiler, which favors few long functions over many short
ones. It also adds the bytecodes and calls of each case, which other work on the machine does not change.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, Runtime, compose
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings as GatewaySettings
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.endpoint.fallback import FallbackServer
from fairlead_gateway.heap import Heap
from gateway.bytecodes import count_work
from gateway.gateways import STRICT, TOOLS, VERSIONS, contents, world, write_documents
from gateway.workloads import CAPABLE, DECLARED, STREAMED, STREAMS_FIRST, STRICT_ARGUMENTS, TOKEN
from rig.harness import Report, Sample, Settings, Unmeasurable, in_rounds
from rig.processes import become_realtime

CONNECTIONS = 64
PASSES = 1_000
PORTS = {"plain": 1, "sse": 2, "chunked": 3}
"""Ports of the upstreams; no packet ever reaches them. `sse` answers with an event stream of known length. `chunked`
answers with chunks in one packet, as the SDKs of most languages do."""
_META = (
    ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":'
    '{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n%b\r\n"
_EVENT = b"event: message\ndata: %b\n\n"
_RESULT = b'{"content":[{"type":"text","text":"00000001xxxxxxxxxxxxxxxxxxxx"}],"isError":false%b}'
_INITIALIZED = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"}}'

Case = tuple[str, str]
"""(workload, era)"""
Cases = dict[Case, list[bytes]]
"""A request for each connection."""


class Transport:
    """One end of a connection without a peer. It passes written bytes to `written`."""

    def __init__(self, written: Callable[[Transport, bytes], None]) -> None:
        self.protocol: Any = None
        self.answer = b""
        """Bytes that were written to a client since its last request."""
        self._written = written

    def write(self, data: bytes) -> None:
        self._written(self, data)

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Loop(uvloop.Loop):
    """An event loop that connects every connection to a Transport."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[Transport, bytes]] = []
        """Requests of clients that are not answered yet."""

    async def create_connection(self, factory: Callable[[], Any], *_: object, **__: object) -> Any:  # type: ignore[override]  # less of it
        transport = Transport(lambda transport, data: self.requests.append((transport, data)))
        transport.protocol = factory()
        transport.protocol.connection_made(transport)
        return transport, transport.protocol


class World:
    """A gateway, its clients, and its servers."""

    def __init__(self, gateway: Gateway, loop: Loop) -> None:
        self.gateway = gateway
        self.loop = loop
        fallbacks = FallbackServer(_nowhere, Heap(owner=False))
        self.clients = [Transport(_keep) for _ in range(CONNECTIONS)]
        for client in self.clients:
            client.protocol = ClientConnection(gateway.endpoint, fallbacks, set(), loop)
            client.protocol.connection_made(client)

    def answers(self) -> list[tuple[Callable[[bytes], None], bytes]]:
        """Answers of the servers to their requests."""
        requests, self.loop.requests[:] = list(self.loop.requests), []
        return [(transport.protocol.data_received, answer_to(data)) for transport, data in requests]

    async def settle(self, requests: list[bytes]) -> None:
        """Make one call on each connection without a time limit. This opens the servers' sessions."""
        for client, data in zip(self.clients, requests, strict=True):
            client.answer = b""
            client.protocol.data_received(data)
        async with asyncio.timeout(20):
            while not all(is_over(client.answer) for client in self.clients):
                await asyncio.sleep(0)
                for receive, answer in self.answers():
                    receive(answer)
        self.check(requests)

    async def once(self, requests: list[bytes]) -> tuple[int, int]:
        """Make one call on each connection. Returns the nanoseconds there and back."""
        for client in self.clients:
            client.answer = b""
        pairs = [(client.protocol.data_received, data) for client, data in zip(self.clients, requests, strict=True)]
        begun = time.perf_counter_ns()
        for receive, data in pairs:
            receive(data)
        await in_passes(lambda: len(self.loop.requests) >= CONNECTIONS)
        there = time.perf_counter_ns() - begun
        answers = self.answers()
        begun = time.perf_counter_ns()
        for receive, data in answers:
            receive(data)
        await in_passes(lambda: all(is_over(client.answer) for client in self.clients))
        return there, time.perf_counter_ns() - begun

    def check(self, requests: list[bytes]) -> None:
        """Raise Unmeasurable unless each client received the answer to its own request."""
        for client, request in zip(self.clients, requests, strict=True):
            ident = request.partition(b'"id":')[2].partition(b",")[0]
            if b'"id":%b,' % ident not in client.answer or b'"isError":false' not in client.answer:
                raise Unmeasurable(f"a wrong answer: {client.answer[:600]!r}")


def _keep(transport: Transport, data: bytes) -> None:
    transport.answer += data


def is_over(answer: bytes) -> bool:
    """Whether an answer is complete: a JSON object, a stream of one event, or the last chunk of a stream."""
    return answer.endswith((b"}", b"}\n\n", b"\r\n0\r\n\r\n"))


async def in_passes(done: Callable[[], bool]) -> None:
    """Run passes of the loop until a condition holds; none if it already holds. Raises Unmeasurable."""
    for _ in range(PASSES):
        if done():
            return
        await asyncio.sleep(0)
    raise Unmeasurable(f"the gateway is not done after {PASSES} passes of the loop")


async def _nowhere(scope: object, receive: object, send: object) -> None:
    """ASGI application that gets no requests in this benchmark."""


def answer_to(data: bytes) -> bytes:
    """A server's answer in the era of its request."""
    body = data[data.index(b"\r\n\r\n") + 4 :]
    if b'"id":' not in body:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    ident = body[body.index(b'"id":') + 5 :].partition(b",")[0]
    extra, result = b"", _RESULT % (b',"resultType":"complete"' if b"Mcp-Name: " in data else b"")
    if b'"initialize"' in body:
        extra, result = b"Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\n", _INITIALIZED
    # independent of the gateway's functions, whose use here would count as the gateway's work
    answer = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (ident, result)
    host = data.partition(b"\r\nHost: ")[2].partition(b"\r\n")[0]
    if extra or host.endswith(b":%d" % PORTS["plain"]):
        return _HEAD % (len(answer), extra) + answer
    event = _EVENT % answer
    if host.endswith(b":%d" % PORTS["sse"]):
        return _STREAM_HEAD % (b"Content-Length: %d\r\n" % len(event)) + event
    return _STREAM_HEAD % b"Transfer-Encoding: chunked\r\n" + b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)


class CallForm(NamedTuple):
    """Properties that distinguish the calls of one case."""

    server: str = ""
    """Suffix of the server's name after the era."""
    token: bool = False
    """Whether a call has a progress token."""
    accept: str = "application/json, text/event-stream"


PLAIN_CALL: Final = CallForm()


def requests_of(era: str, tool: str, members: str, sessions: list[bytes], form: CallForm = PLAIN_CALL) -> list[bytes]:
    """A call for each connection with a separate session, in the form that the load generator writes."""
    token, accept = form.token, form.accept
    server = f"{era}-{form.server}" if form.server else era
    requests = []
    for number, session in enumerate(sessions):
        progress = f'"progressToken":{1000 + number}' if token else ""
        meta = _META if era == "modern" else f',"_meta":{{{progress}}}' if token else ""
        if era == "modern" and token:
            meta = meta.replace("{", f"{{{progress},", 1)
        body = (
            f'{{"jsonrpc":"2.0","id":{1000 + number},"method":"tools/call","params":{{"name":"{server}__{tool}",'
            f'"arguments":{{"text":"{number:08}xxxxxxxxxxxxxxxxxxxx"{members}}}{meta}}}}}'
        )
        lines = f"MCP-Protocol-Version: {VERSIONS[era]}\r\n"
        if era == "modern":
            lines += f"Mcp-Method: tools/call\r\nMcp-Name: {server}__{tool}\r\n"
        else:
            lines = f"Mcp-Session-Id: {session.decode()}\r\n{lines}"
        head = (
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\n"
            f"Accept: {accept}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        )
        requests.append((head + body).encode())
    return requests


def cases(sessions: list[bytes], capable: list[bytes]) -> Cases:
    """Requests by workload and era. Clients of the sessions in `capable` have declared capabilities."""
    cases_by_name = {}
    for era in VERSIONS:
        cases_by_name["small JSON", era] = requests_of(era, "echo", "", sessions)
        cases_by_name["2 kB arguments", era] = requests_of(era, STRICT, f",{STRICT_ARGUMENTS}", sessions)
        cases_by_name[TOKEN.name, era] = requests_of(era, "echo", "", sessions, CallForm(token=True))
        cases_by_name["small SSE", era] = requests_of(era, "echo", "", sessions, CallForm("sse"))
        cases_by_name["small SSE in chunks", era] = requests_of(era, "echo", "", sessions, CallForm("chunked"))
    cases_by_name[STREAMED.name, "legacy"] = requests_of(
        "legacy", "echo", "", sessions, CallForm("sse", accept=STREAMS_FIRST)
    )
    cases_by_name[CAPABLE.name, "legacy"] = requests_of("legacy", "echo", "", capable)
    return cases_by_name


@asynccontextmanager
async def running(folder: Path, loop: Loop, tools: int = TOOLS) -> AsyncIterator[tuple[World, Cases]]:
    """A gateway with `tools` tools of each server, its clients, and their requests."""
    write_documents(folder, contents(list(world(PORTS, tools))))
    gateway = compose(
        GatewaySettings.of(port=0, metrics_port=0),
        CatalogFeed(source=DirectorySource(folder)),
        ServerAccess(credentials=DirectoryCredentials(folder / "credentials")),
        runtime=Runtime(heap=Heap()),
    )
    await gateway.start()
    try:
        await asyncio.wait_for(gateway.snapshots.first_snapshot.wait(), 60)
        issue = gateway.endpoint.server_requests.sessions.issue
        bare, capable = (
            [issue(VERSIONS["legacy"], capabilities) for _ in range(CONNECTIONS)]
            for capabilities in (b"{}", DECLARED.encode())
        )
        yield World(gateway, loop), cases(bare, capable)
    finally:
        await gateway.stop(0)


async def measured(folder: Path, settings: Settings, loop: Loop) -> Report:
    """Measure all cases in turns, so that a disturbance affects all alike."""
    async with running(folder, loop) as (world, all_cases):
        times: dict[Case, list[tuple[int, int]]] = {case: [] for case in all_cases}
        for _ in in_rounds((2 if settings.quick else 10) * settings.rounds):
            for case, requests in all_cases.items():
                await world.settle(requests)
                times[case] += [await world.once(requests) for _ in range(50)]
                world.check(requests)
        report = Report("path", [_row(*case, each) for case, each in times.items()])
        report.notes.append("µs a call; `median` and its neighbors include the garbage collector and other work")
        if settings.long:
            report.notes += [await _profile(world, case, requests) for case, requests in all_cases.items()]
            report.notes += [await _bytecodes(world, case, requests) for case, requests in all_cases.items()]
    return report


def _row(workload: str, era: str, times: list[tuple[int, int]]) -> dict[str, Any]:
    def best(each: list[int]) -> float:
        return min(each) / CONNECTIONS / 1000

    whole = sorted(there + back for there, back in times)
    return {
        "workload": workload,
        "era": era,
        "µs": best(whole),
        "there": best([there for there, _ in times]),
        "back": best([back for _, back in times]),
        "median": Sample.of(time / CONNECTIONS / 1000 for time in whole[len(whole) // 4 : len(whole) * 3 // 4 + 1]),
    }


async def _profile(world: World, case: tuple[str, str], requests: list[bytes]) -> str:
    """Functions that take most of the time, as a table in a note."""
    await world.settle(requests)
    profile = cProfile.Profile()
    for _ in range(200):
        profile.enable()
        await world.once(requests)
        profile.disable()
    profiles = []
    for (file, _, name), (_, calls, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]  # not in the stubs
        where = "/".join(Path(file).parts[-2:])
        profiles.append((own * 1e6 / 200 / CONNECTIONS, calls / 200 / CONNECTIONS, f"{where} {name}"))
    lines = [f"    {own:6.2f} µs {calls:5.1f} × {name}" for own, calls, name in sorted(profiles, reverse=True)[:40]]
    return "\n".join([f"{', '.join(case)}, by function, under the profiler:", "", *lines, ""])


async def _bytecodes(world: World, case: tuple[str, str], requests: list[bytes]) -> str:
    """Work of the interpreter for one call, as a table in a note, without that of the simulated clients and servers."""
    await world.settle(requests)
    work = await count_work(lambda: world.once(requests), __file__)
    world.check(requests)
    each = {name: number / CONNECTIONS for name, number in work.bytecodes.items()}
    lines = [f"    {each[name]:6.1f}  {name}" for name in sorted(each, key=lambda name: -each[name])[:40]]
    head = (
        f"{', '.join(case)}: {sum(each.values()):,.0f} bytecodes, {work.calls / CONNECTIONS:.0f} calls of functions in "
        f"Python, {work.c_calls / CONNECTIONS:.0f} in C; bytecodes by function:"
    )
    return "\n".join([head, "", *lines, ""])


def run(settings: Settings) -> Report:
    """Measure. Raises Unmeasurable if an answer is wrong."""
    if settings.realtime:
        become_realtime()
    loop = Loop()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(measured(Path(folder), settings, loop))
