"""Short requests that the ASGI application answers without uvicorn, in turns with other requests of the connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.asgi_exchange import MAX_BODY_BYTES, AsgiExchange, DirectServer, is_short
from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.heap import Heap
from fairlead_web.bodies import while_connected
from gatewayworld import Ask, Wire, legacy, running
from waiting import eventually

pytestmark = pytest.mark.both_loops

CALL = Ask(body=b"12345", target="/calls")
LARGE = 16 << 20
PIECE = 1 << 20


class Application:
    """An application whose answer a test decides."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer
        self.scopes: list[Scope] = []
        self.cancelled = 0
        self.connections: set[ClientConnection] = set()
        self.server = DirectServer(self, Heap(owner=False), targets=(b"/calls",))
        self.port = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append({**scope})
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await response(scope, receive, send)

    def has_uvicorn(self) -> bool:
        return self.server._protocols.part is not None

    @property
    def only(self) -> ClientConnection:
        (connection,) = self.connections
        return connection


@asynccontextmanager
async def serving(folder: Path, answer: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[Application]:
    application, loop = Application(answer), asyncio.get_running_loop()

    def accept(gateway: Gateway) -> ClientConnection:
        return ClientConnection(gateway.endpoint, application.server, application.connections, loop)

    async with running(folder) as gateway:
        # it takes what has a protocol's methods
        socket = await loop.create_server(lambda: accept(gateway), "127.0.0.1", 0)  # type: ignore[arg-type,return-value]
        application.port = socket.sockets[0].getsockname()[1]
        try:
            yield application
        finally:
            socket.close()
            for task in application.server.tasks:
                task.cancel()
            await asyncio.gather(*application.server.tasks, return_exceptions=True)


async def lengths(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def test_a_short_body_is_answered_without_uvicorn_and_a_long_one_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path, lengths) as application, await Wire.connect(application) as wire:
        assert (await wire.ask(CALL)).message == {"bytes": 5}
        assert (await wire.ask(Ask(body=b"", target="/calls"))).message == {"bytes": 0}
        assert not application.has_uvicorn()
        assert (await wire.ask(Ask(body=b"x" * (MAX_BODY_BYTES + 1), target="/calls"))).message[
            "bytes"
        ] > MAX_BODY_BYTES
        assert application.has_uvicorn()
        assert (await wire.ask(CALL)).message == {"bytes": 5}


async def test_requests_of_either_kind_and_of_mcp_are_answered_in_their_order(tmp_path: Path) -> None:
    async with serving(tmp_path, lengths) as application, await Wire.connect(application) as wire:
        wire.send(CALL, legacy("ping"), CALL.to("/other"), Ask(body=b"1", target="/calls"))
        answers = [await wire.answer() for _ in range(4)]
    assert [answer.message.get("bytes") for answer in answers] == [5, None, 5, 1]
    assert answers[1].message["result"] == {}


async def test_a_body_may_come_in_pieces(tmp_path: Path) -> None:
    async with serving(tmp_path, lengths) as application, await Wire.connect(application) as wire:
        data = CALL.data(wire.host)
        for byte in data[:-1]:
            wire.write(bytes((byte,)))
        await eventually(lambda: isinstance(application.only.current, AsgiExchange))
        assert not application.scopes
        wire.write(data[-1:])
        assert (await wire.answer()).message == {"bytes": 5}


async def test_the_application_is_told_the_same_as_by_uvicorn(tmp_path: Path) -> None:
    async with serving(tmp_path, lengths) as application, await Wire.connect(application) as wire:
        assert (await wire.ask(CALL)).status == 200
        wire.write(CALL.chunked_head(wire.host) + b"5\r\n12345\r\n0\r\n\r\n")
        assert (await wire.answer()).status == 200
        direct, by_uvicorn = application.scopes
    for member in ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path"):
        assert direct[member] == by_uvicorn[member], member
    assert (direct["client"], direct["server"]) == (by_uvicorn["client"], by_uvicorn["server"])
    framing = {b"content-length", b"transfer-encoding"}
    assert {name: value for name, value in direct["headers"] if name not in framing} == {
        name: value for name, value in by_uvicorn["headers"] if name not in framing
    }


async def test_a_client_that_goes_ends_the_work_and_leaves_nothing_behind(tmp_path: Path) -> None:
    results: list[bool | None] = []

    async def answer(request: Request) -> Response:
        await request.body()
        results.append(await while_connected(request, asyncio.Event().wait()))
        return Response(status_code=499)

    def exchanges() -> int:
        return sum(isinstance(thing, AsgiExchange) for thing in gc.get_objects())

    async with serving(tmp_path, answer) as application:
        gc.collect()
        before = exchanges()
        gc.disable()
        try:
            async with await Wire.connect(application) as wire:
                wire.send(CALL)
                await eventually(lambda: len(application.scopes) == 1)
            await eventually(lambda: results == [None])
            application.scopes.clear()
            await eventually(lambda: not application.server.tasks)
            await eventually(lambda: exchanges() == before)
        finally:
            gc.enable()


async def test_an_application_that_waits_for_a_disconnect_is_told_of_it(tmp_path: Path) -> None:
    messages: list[str] = []

    async def answer(request: Request) -> Response:
        await request.body()
        messages.append((await request.receive())["type"])
        return Response()

    async with serving(tmp_path, answer) as application:
        async with await Wire.connect(application) as wire:
            wire.send(CALL)
            await eventually(lambda: len(application.scopes) == 1)
        await eventually(lambda: messages == ["http.disconnect"])


async def test_an_application_that_fails_gives_500_and_closes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: Request) -> Response:
        raise ValueError("no idea")

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        answered = await wire.ask(CALL)
        assert (answered.status, answered.headers["connection"]) == (500, "close")
        assert await wire.read_to_end() == b""
    assert "no idea" in caplog.text


@pytest.mark.parametrize("length", ["2", "9"])
async def test_a_response_of_another_length_than_its_head_says_closes_the_connection(
    tmp_path: Path, length: str
) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"12345", headers={"content-length": length})

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        wire.send(CALL)
        assert not (await wire.read_to_end()).endswith(b"\r\n\r\n12345678")


async def test_a_header_field_that_would_end_its_line_is_not_sent(tmp_path: Path) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"1", headers={"x-name": "a\r\nset-cookie: b"})

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        answered = await wire.ask(CALL)
    assert (answered.status, "set-cookie" in answered.headers) == (500, False)


async def test_a_response_without_a_length_is_chunked_and_waits_for_its_reader(tmp_path: Path) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(LARGE // PIECE):
            yield b"x" * PIECE
            sent += PIECE

    async def answer(request: Request) -> Response:
        return StreamingResponse(pieces())

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        wire.transport.pause_reading()
        wire.send(CALL, legacy("ping"))
        await eventually(lambda: bool(application.connections) and application.only.write_paused)
        assert sent < LARGE
        wire.transport.resume_reading()
        answered = await wire.answer()
        assert (answered.headers["transfer-encoding"], len(answered.body)) == ("chunked", LARGE)
        assert (await wire.answer()).message["result"] == {}


@pytest.mark.parametrize(("version", "connection"), [("1.0", None), ("1.0", "keep-alive"), ("1.1", "close")])
async def test_a_client_that_wants_no_more_than_one_answer_is_closed(
    tmp_path: Path, version: str, connection: str | None
) -> None:
    async with serving(tmp_path, lengths) as application, await Wire.connect(application) as wire:
        wire.send(Ask(body=b"12345", target="/calls", version=version).with_headers(connection=connection))
        answer = await wire.answer()
        assert (answer.message, answer.headers["connection"]) == ({"bytes": 5}, "close")
        assert await wire.read_to_end() == b""


async def test_a_connection_that_is_retired_is_answered_and_closed(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def answer(request: Request) -> Response:
        await may_end.wait()
        return await lengths(request)

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        wire.send(CALL)
        await eventually(lambda: len(application.scopes) == 1)
        application.only.shutdown()
        may_end.set()
        answered = await wire.answer()
        assert (answered.message, answered.headers["connection"]) == ({"bytes": 5}, "close")
        assert await wire.read_to_end() == b""


async def test_a_request_that_is_cancelled_is_answered_with_500(tmp_path: Path) -> None:
    async def answer(request: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    async with serving(tmp_path, answer) as application, await Wire.connect(application) as wire:
        wire.send(CALL)
        await eventually(lambda: len(application.scopes) == 1)
        for task in application.server.tasks:
            task.cancel()
        assert (await wire.answer()).status == 500
        assert application.cancelled == 1


@pytest.mark.parametrize(
    ("fields", "short"),
    [
        ([(b"content-length", b"0")], True),
        ([(b"content-length", str(MAX_BODY_BYTES).encode())], True),
        ([(b"content-length", str(MAX_BODY_BYTES + 1).encode())], False),
        ([(b"content-length", b"1"), (b"expect", b"100-continue")], False),
        ([(b"transfer-encoding", b"chunked")], False),
        ([], False),
    ],
)
def test_a_request_is_short_if_its_length_is_known_and_small(fields: list[tuple[bytes, bytes]], short: bool) -> None:
    assert is_short(fields) is short
