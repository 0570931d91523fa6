"""Real servers behind a gated listener and behind an event stream, and the effects of lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_mcp.eras import Era
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HttpRefused, McpError, NotMcp, Timeout
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.events import EventsOpener
from fairlead_mcp.session import McpSession
from fairlead_mcp.stream_client import StreamClient
from fairlead_mcp.streams import NEVER, ClientSide, StreamConnection, StreamPolicy
from fairlead_mcp.tcp import TcpOpener
from gated_stdio_server import TOKEN, Gated, children, gated
from ports import free_port
from rawserver import Reply, Request, raw_server
from serverprocesses import sse_server
from toolservers import LEGACY_STDIO, SDK_STDIO, SDK_TOOLS
from waiting import soon, until_async

LEGACY = StreamPolicy(modern=False)


def link_to(server: Gated, token: str = TOKEN, *, host: str = "127.0.0.1", idle: float = NEVER) -> StreamClient:
    return StreamClient("gated", TcpOpener(host, server.port, token), StreamPolicy(idle=idle))


async def becomes(what: str, condition: Callable[[], bool]) -> None:
    async def look() -> bool:
        return condition()

    await until_async(what, look)


async def names_of(session: McpSession) -> list[str]:
    return sorted(json.loads(bytes(item))["name"] for item in await session.list_all("tools/list"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_stdio_server_behind_the_gate_lists_and_answers(host: str) -> None:
    async with gated(SDK_STDIO) as server, McpSession.over_link(link_to(server, host=host)) as session:
        assert session.era is Era.MODERN
        assert await names_of(session) == list(SDK_TOOLS)
        result = json.loads(bytes(await session.call_tool("add", {"a": 2, "b": 3})))
        assert result["content"][0]["text"] == "5"
        assert len(server.servers) == 1


async def test_a_wrong_token_starts_no_server() -> None:
    async with gated(SDK_STDIO) as server:
        link = link_to(server, "another")
        with pytest.raises(ConnectFailed) as refused:
            await link.wait_until_ready(soon())
        assert refused.value.reason == "StartFailed"
        with pytest.raises(ConnectFailed):
            await link.wait_until_ready(soon())
        assert link.starts == 1, "the second request came a moment later and had to wait"
        await link.aclose()
        await becomes("no process is left", lambda: server.servers == [])


@pytest.mark.parametrize("program", ["nosuchprogram", "/etc/passwd", "/no/such/program"])
async def test_a_program_that_the_image_lacks_is_named_and_not_sought_in_a_log(program: str) -> None:
    """If the gate did not check for the program, the reason would be StartFailed."""
    async with gated(program) as server:
        link = link_to(server)
        with pytest.raises(ConnectFailed, match=f"no executable program {program}") as refused:
            await link.wait_until_ready(soon())
        assert refused.value.reason == "CommandNotFound"
        await link.aclose()


async def test_many_requests_share_one_connection_and_one_process() -> None:
    async with gated(LEGACY_STDIO) as server:
        link = link_to(server)

        async def ask(n: int) -> None:
            line = await link.request("tools/call", b'{"name":"echo","arguments":{"n":%d}}' % n, deadline=soon())
            assert json.loads(json.loads(line)["result"]["content"][0]["text"]) == {"n": n}

        await asyncio.gather(*(ask(n) for n in range(200)))
        assert (link.starts, len(server.servers)) == (1, 1)
        await link.aclose()
        await becomes("the process ends with the connection", lambda: server.servers == [])


async def test_an_idle_connection_is_closed_and_the_next_request_opens_another() -> None:
    async with gated(LEGACY_STDIO) as server:
        link = link_to(server, idle=0.1)
        await link.request("tools/list", None, deadline=soon())
        await becomes("the process ends", lambda: server.servers == [])
        assert link.negotiated is None
        await link.request("tools/list", None, deadline=soon())
        assert link.starts == 2
        await link.aclose()


async def test_a_killed_process_fails_what_is_in_flight_and_the_next_request_gets_a_new_one() -> None:
    async with gated(LEGACY_STDIO) as server:
        link = link_to(server)
        await link.wait_until_ready(soon())
        call = asyncio.ensure_future(
            link.request("tools/call", b'{"name":"later","arguments":{"n":9}}', deadline=soon())
        )
        await asyncio.sleep(0)
        os.kill(server.servers[0], signal.SIGKILL)
        with pytest.raises(ConnectionLost) as lost:
            await call
        assert lost.value.reason == "ProcessExited"

        async def answers() -> bool:
            try:
                return bool(await link.request("tools/list", None, deadline=soon()))
            except McpError:
                return False

        await until_async("a new process answers", answers)
        await link.aclose()


async def test_the_listener_waits_at_sigterm_for_its_clients_and_takes_no_new_one() -> None:
    async with gated(LEGACY_STDIO) as server:
        link = link_to(server)
        await link.request("tools/list", None, deadline=soon())
        server.process.send_signal(signal.SIGTERM)

        def is_refused() -> bool:
            with socket.socket() as attempt:
                return attempt.connect_ex(("127.0.0.1", server.port)) == errno.ECONNREFUSED

        await becomes("nobody listens any more", is_refused)
        await link.request("tools/list", None, deadline=soon())
        assert link.starts == 1
        assert server.process.returncode is None, "the client may have more"
        await link.aclose()
        assert await asyncio.wait_for(server.process.wait(), 20) == 0


async def test_only_a_listener_that_is_ending_refuses_connections() -> None:
    async with gated(LEGACY_STDIO) as server:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", server.port)]

        opener = TcpOpener("demo.team.svc", 8080, TOKEN, resolve=resolve, check_seconds=NEVER)
        link = StreamClient("gated", opener)
        await link.request("tools/list", None, deadline=soon())
        stream = await opener.open(StreamConnection(link))
        assert not await opener.is_ending(stream)
        server.process.send_signal(signal.SIGTERM)

        async def is_ending() -> bool:
            return await opener.is_ending(stream)

        await until_async("nobody listens any more", is_ending)
        await stream.aclose()
        await link.aclose()


async def test_new_requests_go_to_the_pod_that_the_name_has_by_now() -> None:
    async with gated(LEGACY_STDIO) as old, gated(LEGACY_STDIO) as new:
        pods = [("127.0.0.1", old.port)]

        lookups: list[str] = []

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            lookups.append(host)
            return [*pods]

        link = StreamClient("gated", TcpOpener("demo.team.svc", 8080, TOKEN, resolve=resolve, check_seconds=0.05))
        await link.request("tools/list", None, deadline=soon())
        pods[:] = [("127.0.0.1", new.port)]
        await becomes("the process in the old pod has ended", lambda: old.servers == [])
        await link.request("tools/list", None, deadline=soon())
        assert len(new.servers) == 1
        lookups.clear()
        pods.clear()
        await becomes("looked up again", lambda: len(lookups) > 1)
        await link.request("tools/list", None, deadline=soon())
        assert link.starts == 2, "a pod is kept while the name has no address"
        await link.aclose()


def sleeping_children(program: int) -> list[int]:
    """Children that run `sleep`; the gate has others for a moment, while it looks the program up."""
    sleeping = []
    for child in children(program):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep\0"):
                sleeping.append(child)
    return sleeping


@pytest.mark.parametrize("unread", [b"", b"x" * 4096], ids=["closed", "reset"])
async def test_a_program_that_never_reads_is_ended_after_its_client_has_gone(unread: bytes) -> None:
    """With unread data at the client's side, the kernel resets the connection and forgets the socket."""
    words = f"trap '' TERM; printf %s '{unread.decode()}'; sleep 900; sleep 900"
    async with (
        gated("sh", "-c", words, watch_seconds=1) as server,
        gated(SDK_STDIO, watch_seconds=1) as other,
        McpSession.over_link(link_to(other)) as session,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{TOKEN}\n".encode())
        await becomes("the program runs", lambda: len(server.servers) == 1)
        (program,) = server.servers
        await becomes("its child runs", lambda: len(sleeping_children(program)) == 1)
        (sleeping,) = sleeping_children(program)
        writer.close()
        await becomes("the program has ended", lambda: server.servers == [])
        await becomes("its child too", lambda: not Path(f"/proc/{sleeping}").exists())
        assert await names_of(session) == list(SDK_TOOLS), "a client that stays keeps its process"
        assert len(other.servers) == 1


async def first_line(server: Gated) -> bytes:
    """The first line that a new process of a server writes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"{TOKEN}\n".encode())
    try:
        return await asyncio.wait_for(reader.readline(), 20)
    finally:
        writer.close()


async def test_a_program_that_a_shell_runs_counts_against_the_limit_of_processes() -> None:
    async with gated("sh", "-c", "echo started; sleep 60; true", most=1) as server:
        assert await first_line(server) == b"started\n"
        assert await first_line(server) == b"fairlead-gate: full 1\n"


async def test_a_program_of_the_image_runs_where_busybox_has_one_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "cat"
    own.write_text("#!/bin/sh\necho own $0 $1\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with gated("cat", "a b") as server:
        assert await first_line(server) == f"own {own} a b\n".encode()


async def test_no_listener_is_a_refused_connection() -> None:
    link = StreamClient("nobody", TcpOpener("127.0.0.1", free_port(), TOKEN))
    with pytest.raises(ConnectFailed) as refused:
        await link.wait_until_ready(soon())
    assert refused.value.reason == "ConnectionRefused"
    await link.aclose()


async def test_a_program_that_says_nothing_is_silent_and_not_busy() -> None:
    async with gated("sleep", "60") as server:
        link = link_to(server)
        with pytest.raises(Timeout, match="is still starting") as late:
            await link.wait_until_ready(soon(0.1))
        assert (late.value.reason, late.value.sent) == ("Silent", False)
        await link.aclose()


async def test_a_program_that_ends_without_a_word_has_its_reason_in_its_log() -> None:
    async with gated("false") as server:
        link = link_to(server)
        with pytest.raises(ConnectFailed, match="before it answered") as failed:
            await link.wait_until_ready(soon())
        assert failed.value.reason == "StartFailed"
        await link.aclose()


async def test_no_more_servers_start_than_may_and_who_is_refused_is_told() -> None:
    async with gated(LEGACY_STDIO, most=2) as server:
        links = [link_to(server) for _ in range(3)]
        for link in links[:2]:
            await link.request("tools/list", None, deadline=soon())
        with pytest.raises(ConnectFailed, match=r"2 processes .* spec\.limits\.processes") as refused:
            await links[2].request("tools/list", None, deadline=soon())
        assert refused.value.reason == "TooManyProcesses"
        await becomes("the refused gate ends, the servers live", lambda: len(server.servers) == 2)
        await links[0].aclose()

        async def answers() -> bool:
            try:
                return bool(await links[2].request("tools/list", None, deadline=soon()))
            except McpError:
                return False

        await until_async("there is room again", answers)
        await links[1].request("tools/list", None, deadline=soon())
        assert links[1].starts == 1, "who had a process kept it"
        await asyncio.gather(*(link.aclose() for link in links[1:]))


async def test_connections_without_the_token_of_a_gate_take_no_room() -> None:
    async with gated(LEGACY_STDIO, most=1) as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
        await becomes("four gates wait for a token", lambda: len(server.servers) == 4)
        link = link_to(server)
        await link.request("tools/list", None, deadline=soon())
        await link.aclose()
        for _, writer in silent:
            writer.close()


async def test_listener_and_gate_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("B", "C", "D", "ENDED", "KILLED", "MOST", "N", "NC", "NEXT", "NOW", "P", "S", "SEEN", "STOPPED", "line")
    for name in names:
        monkeypatch.setenv(name, f"{name}-of-the-pod")
    async with gated("/usr/bin/env") as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(TOKEN.encode() + b"\n")
        printed = (await asyncio.wait_for(reader.read(), 20)).decode().splitlines()
        writer.close()
    assert {f"{name}={name}-of-the-pod" for name in names} <= set(printed)


# HTTP+SSE


def over_events(url: str, **headers: str) -> McpSession:
    return McpSession.over_link(StreamClient("events", EventsOpener(url, headers=headers), LEGACY))


async def test_the_sdk_server_over_an_event_stream_lists_and_answers() -> None:
    async with sse_server() as url, over_events(url) as session:
        assert session.era is Era.LEGACY
        assert await names_of(session) == list(SDK_TOOLS)
        results = await asyncio.gather(*(session.call_tool("add", {"a": n, "b": 1}) for n in range(20)))
        assert [json.loads(bytes(r))["content"][0]["text"] for r in results] == [str(n + 1) for n in range(20)]


async def test_an_event_stream_that_ends_is_opened_again_by_the_next_request() -> None:
    streams: list[Reply] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            streams.append(reply)
            begin(reply, f"/post/{len(streams)}")
            return
        assert request.headers["authorization"] == "Bearer x"
        reply.send(202)
        if "id" in request.message:
            member = {"tools": []} if request.method == "tools/list" else INITIALIZED
            streams[-1].event({"jsonrpc": "2.0", "id": request.message["id"], "result": member})

    async with raw_server(handle) as server:
        link = StreamClient("raw", EventsOpener(server.url, headers={"Authorization": "Bearer x"}), LEGACY)
        await link.request("tools/list", None, deadline=soon())
        streams[0].writer.close()
        await becomes("the link has noticed", lambda: link.negotiated is None)

        async def answers() -> bool:
            try:
                return bool(await link.request("tools/list", None, deadline=soon()))
            except McpError:
                return False

        await until_async("it is opened again", answers)
        assert link.starts == 2
        await link.aclose()


class EventsPod:
    """Pod of a server over HTTP+SSE, which refuses messages for a stream that it does not have."""

    def __init__(self) -> None:
        self.streams: list[Reply] = []
        self.methods: list[str] = []

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            self.streams.append(reply)
            begin(reply, "/post")
            return
        self.methods.append(request.method)
        reply.send(202 if self.streams else 404)
        if self.streams and "id" in request.message:
            member = {"tools": []} if request.method == "tools/list" else INITIALIZED
            self.streams[-1].event({"jsonrpc": "2.0", "id": request.message["id"], "result": member})


def events_link(resolve: Resolve) -> StreamClient:
    return StreamClient("pods", EventsOpener("http://demo.team.svc/sse", resolve=resolve, check_seconds=0.05), LEGACY)


async def test_requests_of_an_event_stream_are_posted_to_the_pod_that_it_comes_from() -> None:
    both = (EventsPod(), EventsPod())
    async with raw_server(both[0].handle) as first, raw_server(both[1].handle) as second:
        pods = [("127.0.0.1", first.port), ("127.0.0.1", second.port)]

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            pods.reverse()
            return [*pods]

        link = events_link(resolve)
        await asyncio.gather(*(link.request("tools/list", None, deadline=soon()) for _ in range(20)))
        assert sorted(len(pod.methods) for pod in both) == [0, 22]
        assert link.starts == 1
        await link.aclose()


async def test_an_event_stream_leaves_a_pod_that_the_name_has_no_more() -> None:
    old, new = EventsPod(), EventsPod()
    async with raw_server(old.handle) as first, raw_server(new.handle) as second:
        pods = [("127.0.0.1", first.port)]

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [*pods]

        link = events_link(resolve)
        await link.request("tools/list", None, deadline=soon())
        pods[:] = [("127.0.0.1", second.port)]
        await becomes("the stream of the old pod has ended", lambda: not first.open)
        await link.request("tools/list", None, deadline=soon())
        assert new.methods[-1] == "tools/list"
        await link.aclose()


@pytest.mark.parametrize(("host", "seconds"), [("demo.team.svc", 5.0), ("api.example.com", NEVER), ("10.0.0.1", NEVER)])
def test_only_the_names_of_pods_are_looked_up_while_an_event_stream_is_open(host: str, seconds: float) -> None:
    """The name of a host outside of the cluster may have other addresses each time."""
    assert EventsOpener(f"http://{host}/sse").check_seconds == seconds


def begin(reply: Reply, endpoint: str) -> None:
    """Open the stream, and send the URL for messages."""
    reply.open_stream()
    reply.chunk(b"event: endpoint\r\ndata: " + endpoint.encode() + b"\r\n\r\n")


INITIALIZED = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}


async def test_a_credential_is_not_posted_to_another_origin() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        begin(reply, "http://elsewhere.example/post")

    async with raw_server(handle) as server:
        with pytest.raises(NotMcp, match="another origin"):
            await over_events(server.url, Authorization="Bearer x").connect()


@pytest.mark.parametrize(
    ("status", "kind", "reason"), [(401, HttpRefused, "Unauthorized"), (404, HttpRefused, "NotFound")]
)
async def test_a_refused_stream_says_why(status: int, kind: type[McpError], reason: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(status)

    async with raw_server(handle) as server:
        session = over_events(server.url)
        with pytest.raises(kind) as refused:
            await session.connect()
        assert refused.value.reason == reason
        await session.aclose()


async def test_a_page_instead_of_a_stream_is_recognized() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(200, b"<html>hello</html>", kind="text/html")

    async with raw_server(handle) as server:
        session = over_events(server.url)
        with pytest.raises(NotMcp) as refused:
            await session.connect()
        assert refused.value.reason == "HTMLInsteadOfMCP"
        await session.aclose()


async def test_changes_are_announced_over_the_held_event_stream() -> None:
    heard: list[str] = []
    async with gated(LEGACY_STDIO) as server:
        opener = TcpOpener("127.0.0.1", server.port, TOKEN)
        side = ClientSide(on_notification=lambda method, line: heard.append(method))
        link = StreamClient("gated", opener, StreamPolicy(idle=0.1), side=side)
        listening = asyncio.create_task(link.listen(soon()))
        await link.request("tools/call", b'{"name":"changed","arguments":{}}', deadline=soon())
        await becomes("the announcement", lambda: heard == ["notifications/tools/list_changed"])
        os.kill(server.servers[0], signal.SIGKILL)
        with pytest.raises(ConnectionLost):
            await listening
        await link.aclose()
