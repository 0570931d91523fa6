"""The first request for the ASGI application, whose server is then imported, and requests that arrive meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.endpoint.fallback import FallbackRequest, FallbackServer
from fairlead_gateway.heap import Heap
from gatewayworld import Ask, Wire, legacy, running
from waiting import eventually

if TYPE_CHECKING:
    from fairlead_gateway.endpoint.uvicorn_protocols import UvicornProtocols

pytestmark = pytest.mark.both_loops

LARGE = b"x" * (4 << 20)
SENT = Ask(body=b"12345", target="/sent")
BARE = Ask(body=b"", verb="GET", target="/sent")


async def lengths(scope: Scope, receive: Receive, send: Send) -> None:
    """Application that responds with the number of bytes in the body."""
    try:
        response = PlainTextResponse(str(len(await Request(scope, receive).body())))
    except ClientDisconnect:
        return
    await response(scope, receive, send)


class SlowImport(FallbackServer):
    """Fallback server whose import waits for the test, and fails `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(lengths, Heap(owner=False))
        self.imports = 0
        self.may_end = threading.Event()
        self._failures = failures

    def _import(self) -> UvicornProtocols:
        self.imports += 1
        assert self.may_end.wait(20)
        if self.imports <= self._failures:
            raise ImportError("no memory")
        return super()._import()


@dataclass
class Listening:
    """Gateway with the application `lengths`, and its connections."""

    server: SlowImport
    connections: set[ClientConnection]
    port: int

    @property
    def only(self) -> ClientConnection:
        (connection,) = self.connections
        return connection


@asynccontextmanager
async def listening(folder: Path, server: SlowImport) -> AsyncIterator[Listening]:
    connections: set[ClientConnection] = set()
    loop = asyncio.get_running_loop()

    def accept(gateway: Gateway) -> ClientConnection:
        return ClientConnection(gateway.endpoint, server, connections, loop)

    async with running(folder) as gateway:
        # it accepts any object with a protocol's methods
        socket = await loop.create_server(lambda: accept(gateway), "127.0.0.1", 0)  # type: ignore[arg-type,return-value]
        try:
            yield Listening(server, connections, socket.sockets[0].getsockname()[1])
        finally:
            server.may_end.set()
            socket.close()
            for task in server.tasks:
                task.cancel()
            await asyncio.gather(*server.tasks, return_exceptions=True)


async def test_requests_that_come_during_the_import_are_answered_in_turn(tmp_path: Path) -> None:
    async with listening(tmp_path, SlowImport()) as world, await Wire.connect(world) as wire:
        wire.send(SENT, legacy("ping"), SENT.to("/again"))
        async with await Wire.connect(world) as other:
            assert (await other.ask(legacy("ping"))).status == 200  # MCP requests do not wait for the import
            other.send(SENT)
            await eventually(lambda: world.server.imports == 1)
            world.server.may_end.set()
            assert (await other.answer()).body == b"5"
        answers = [await wire.answer() for _ in range(3)]
        assert [answer.body for answer in answers[::2]] == [b"5", b"5"]
        assert answers[1].message["result"] == {}
        assert world.server.imports == 1


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_body_is_not_read_before_there_is_a_server_for_it(tmp_path: Path, chunked: bool) -> None:
    async with listening(tmp_path, SlowImport()) as world, await Wire.connect(world) as wire:
        if chunked:
            wire.write(SENT.chunked_head(wire.host) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE), LARGE))
        else:
            wire.send(Ask(body=LARGE, target="/sent"))
        await eventually(lambda: world.server.imports == 1)
        assert world.only._buffer.paused
        world.server.may_end.set()
        assert (await wire.answer()).body == str(len(LARGE)).encode()
        assert (await wire.ask(SENT)).body == b"5"


async def test_a_client_that_goes_during_the_import_leaves_nothing_behind(tmp_path: Path) -> None:
    def requests() -> int:
        return sum(isinstance(thing, FallbackRequest) for thing in gc.get_objects())

    async with listening(tmp_path, SlowImport()) as world:
        gc.collect()
        before = requests()
        async with await Wire.connect(world) as wire:
            wire.send(BARE)
            await eventually(lambda: world.server.imports == 1)
        await eventually(lambda: not world.connections)
        assert world.server.tasks
        gc.disable()
        try:
            world.server.may_end.set()
            await eventually(lambda: not world.server.tasks)
            await eventually(lambda: requests() == before)
        finally:
            gc.enable()
        async with await Wire.connect(world) as wire:
            assert (await wire.ask(SENT)).body == b"5"


async def test_a_connection_that_is_retired_during_the_import_is_answered_and_closed(tmp_path: Path) -> None:
    async with listening(tmp_path, SlowImport()) as world, await Wire.connect(world) as wire:
        wire.send(SENT)
        await eventually(lambda: world.server.imports == 1)
        world.only.shutdown()
        world.server.may_end.set()
        answer = await wire.answer()
        assert (answer.body, answer.headers["connection"]) == (b"5", "close")
        assert await wire.read_to_end() == b""


async def test_a_request_that_is_cancelled_during_the_import_is_not_left_open(tmp_path: Path) -> None:
    async with listening(tmp_path, SlowImport()) as world, await Wire.connect(world) as wire:
        wire.send(SENT)
        await eventually(lambda: world.server.imports == 1)
        for task in world.server.tasks:
            task.cancel()
        assert await wire.read_to_end() == b""


async def test_an_import_that_fails_is_told_in_the_log_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = SlowImport(failures=1)
    server.may_end.set()
    async with listening(tmp_path, server) as world:
        async with await Wire.connect(world) as wire:
            answer = await wire.ask(SENT)
            assert (answer.status, answer.headers["connection"]) == (500, "close")
            assert await wire.read_to_end() == b""
        assert "The HTTP server of REST and probes cannot be started" in caplog.text
        async with await Wire.connect(world) as wire:
            assert (await wire.ask(SENT)).body == b"5"
