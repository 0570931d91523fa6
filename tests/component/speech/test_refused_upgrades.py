"""The gateway closes a connection on which it refused a session, because a proxy must not send other requests over it.

The proxies are haproxy and nginx, on sockets in a folder. They keep connections to the gateway open.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from fairlead_app.authentication import Trust
from fairlead_gateway.endpoint.upgrades import UPGRADE_SECONDS
from neededprograms import require_program
from policyworld import Vouching, anybody
from speechworld import SpeechWorld, speech_world
from waiting import eventually

_HAPROXY: Final = """
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout tunnel 30s
  http-reuse {reuse}
listen front
  bind unix@{socket}
  server gateway 127.0.0.1:{port} pool-max-conn 4
"""
_NGINX: Final = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream gateway {{ server 127.0.0.1:{port}; keepalive 4; }}
  server {{
    listen unix:{socket};
    location / {{
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }}
  }}
}}
"""


def _listens(path: Path) -> bool:
    """Whether a server accepts connections on a socket, whose file exists earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        return client.connect_ex(str(path)) == 0


@contextlib.asynccontextmanager
async def _run_proxy(folder: Path, *command: str) -> AsyncIterator[Path]:
    """Run the proxy. Yields its socket."""
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(lambda: _listens(folder / "front") or process.returncode is not None)
        assert process.returncode is None, f"{command[0]} ended with {process.returncode}"
        yield folder / "front"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _haproxy(reuse: str) -> Callable[[Path, int], contextlib.AbstractAsyncContextManager[Path]]:
    def run(folder: Path, port: int) -> contextlib.AbstractAsyncContextManager[Path]:
        program = require_program("haproxy")
        configuration = folder / "haproxy.cfg"
        configuration.write_text(_HAPROXY.format(reuse=reuse, socket=folder / "front", port=port))
        return _run_proxy(folder, program, "-db", "-q", "-f", str(configuration))

    return run


def _nginx(folder: Path, port: int) -> contextlib.AbstractAsyncContextManager[Path]:
    program = require_program("nginx")
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, socket=folder / "front", port=port))
    return _run_proxy(folder, program, "-p", str(folder), "-c", str(configuration))


PROXIES: Final = {"haproxy always": _haproxy("always"), "haproxy safe": _haproxy("safe"), "nginx": _nginx}
"""By name: function that runs the proxy in a folder, in front of a local port."""


MODEL = "model=gpt-realtime"
ASKS = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
REFUSALS: dict[str, tuple[int, str, dict[str, str], dict[str, Any]]] = {
    "a model that nobody has": (404, "model=other", {}, {}),
    "a tier that nobody has": (404, f"{MODEL}&x-fairlead-tier=none", {}, {}),
    "a wish that cannot be read": (400, f"{MODEL}&x-fairlead-max-tools=many", {}, {}),
    "a page from elsewhere": (403, MODEL, {"origin": "https://evil.example"}, {}),
    "no credential": (401, MODEL, {}, {"trust": Trust((Vouching(anybody("ada")),))}),
    "no room": (503, MODEL, {}, {"speech_sessions": 1}),
    "a provider that refuses": (401, MODEL, {}, {"key": "sk-provider"}),
    "no WebSocket after all": (400, MODEL, {"sec-websocket-version": "99"}, {}),
}
"""By case: status, query, further header fields, and the gateway's settings."""


@contextlib.asynccontextmanager
async def refusing_world(folder: Path, name: str) -> AsyncIterator[SpeechWorld]:
    """A gateway that refuses a session for this reason."""
    async with speech_world(folder, **REFUSALS[name][3]) as world, contextlib.AsyncExitStack() as stack:
        if name == "no room":
            await stack.enter_async_context(world.client())
        yield world


def upgrade(world: SpeechWorld, query: str, fields: dict[str, str]) -> bytes:
    lines = [f"GET /v1/realtime?{query} HTTP/1.1", f"host: 127.0.0.1:{world.gateway.port}"]
    lines += [f"{name}: {value}" for name, value in {**ASKS, **fields}.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def health(world: SpeechWorld) -> bytes:
    return f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{world.gateway.port}\r\n\r\n".encode()


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_refused_upgrade_ends_its_connection_and_nothing_behind_it_is_answered(
    tmp_path: Path, name: str, pipelined: bool
) -> None:
    status, query, fields, _ = REFUSALS[name]
    async with refusing_world(tmp_path, name) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port)
        request = upgrade(world, query, fields)
        writer.write(request + health(world) if pipelined else request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not pipelined:
            with contextlib.suppress(ConnectionError):
                writer.write(health(world))
        with contextlib.suppress(ConnectionError):
            rest = await asyncio.wait_for(reader.read(), 20)
            assert b"HTTP/1.1" not in rest, "a second answer"
        writer.close()
    assert int(head.split()[1]) == status
    assert head.lower().count(b"connection: close") == 1
    assert b"keep-alive" not in head.lower()


async def test_frames_that_came_with_the_request_reach_a_session_that_was_opened(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port)
        ping = b"\x89\x80\x00\x00\x00\x00"  # a masked frame with a key of zeros and without payload
        writer.write(upgrade(world, MODEL, {}) + ping)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        received = b""
        while b"\x8a\x00" not in received:  # the pong
            received += await asyncio.wait_for(reader.read(65536), 20)
        writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_an_upgrade_that_is_not_answered_in_time_ends_and_a_session_stays(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        silent = await asyncio.start_server(_read, "127.0.0.1", 0)
        stack.callback(silent.close)
        slow = {"baseUrl": f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"}
        waiting = await stack.enter_async_context(speech_world(tmp_path, provider=slow))
        running = await stack.enter_async_context(speech_world(tmp_path))
        client = await stack.enter_async_context(running.client())
        reader, writer = await asyncio.open_connection("127.0.0.1", waiting.gateway.port)
        writer.write(upgrade(waiting, MODEL, {}))
        await eventually(lambda: any(each._pending_upgrade for each in waiting.gateway._listener.connections))
        for world in (waiting, running):
            world.gateway._listener._check(asyncio.get_running_loop().time() + UPGRADE_SECONDS + 1)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        await client.send("response.create")
        await client.until("response.done")


async def test_bytes_without_end_behind_a_request_that_waits_end_the_connection(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port)
        writer.write(upgrade(world, MODEL, {}) + b"x" * (1 << 20))
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(reader.read(65536), 20):
                pass
        writer.close()


@contextlib.asynccontextmanager
async def clients(socket: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(path=str(socket))
    async with aiohttp.ClientSession("http://127.0.0.1", connector=connector) as http:
        yield http


async def statuses(http: aiohttp.ClientSession, path: str, times: int, **options: Any) -> set[int]:
    statuses_seen = set()
    for _ in range(times):
        async with http.get(path, **options) as answer:
            await answer.read()
            statuses_seen.add(answer.status)
    return statuses_seen


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_session_leaves_the_connections_of_a_proxy_to_its_other_clients(
    tmp_path: Path, proxy: str, name: str
) -> None:
    status, query, fields, _ = REFUSALS[name]
    with tempfile.TemporaryDirectory() as folder:  # the length of a socket's path is limited
        async with (
            refusing_world(tmp_path, name) as world,
            PROXIES[proxy](Path(folder), world.gateway.port) as socket,
            clients(socket) as victim,
            clients(socket) as attacker,
        ):
            host = {"host": f"127.0.0.1:{world.gateway.port}"}
            assert await statuses(victim, "/healthz", 6, headers=host) == {200}
            headers = {**ASKS, **fields, **host}
            assert await statuses(attacker, f"/v1/realtime?{query}", 4, headers=headers) == {status}
            assert await statuses(victim, "/healthz", 12, headers=host) == {200}
            assert await statuses(attacker, "/healthz", 4, headers=host) == {200}
