"""A request for a protocol upgrade, between its connection and the handler that takes over the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead_gateway.endpoint.upgrades import MAX_HEAD, PendingUpgrade, UpgradeRequest

REFUSAL = b"HTTP/1.1 404 Not Found\r\nConnection: keep-alive\r\nContent-Length: 2\r\nKeep-Alive: timeout=9\r\n\r\nno"


class Below(asyncio.Transport):
    """Transport of a client's connection, and its owner, in one object."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.events: list[str] = []

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.events.append("closed")

    def abort(self) -> None:
        self.events.append("aborted")

    def is_closing(self) -> bool:
        return bool(self.events)

    def on_upgrade_refused(self) -> None:
        self.events.append("refused")


class Handler(asyncio.Protocol):
    """Handler that sends an answer of the test, and keeps the connection."""

    def __init__(self, *answer: bytes) -> None:
        self.answer = answer
        self.received = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        first = not self.received
        self.received = self.received + data
        if first:
            for piece in self.answer:
                self.transport.write(piece)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Judge:
    """Admits every request and gives it to one handler, or answers the request."""

    def __init__(self, handler: Handler, refusal: bytes = b"") -> None:
        self.handler = handler
        self.refusal = refusal
        self.released = 0
        self.judged = asyncio.Event()
        self.judged.set()

    def handles(self, target: bytes, fields: Any) -> bool:
        return True

    async def admit(self, request: UpgradeRequest, client: tuple[str, int] | None) -> Judge | bytes:
        await self.judged.wait()
        return self.refusal or self

    def protocol(self) -> Handler:
        return self.handler

    def release(self) -> None:
        self.released += 1


REQUEST = UpgradeRequest(b"/x", (), b"GET /x HTTP/1.1\r\n\r\n")


async def begin_upgrade(handler: Handler, rest: bytes = b"") -> tuple[PendingUpgrade, Below]:
    below = Below()
    upgrade = PendingUpgrade(below, below, Judge(handler))
    upgrade.begin(REQUEST, None, rest)
    await asyncio.sleep(0)
    return upgrade, below


@pytest.mark.parametrize(
    "pieces", [[REFUSAL], [REFUSAL[:9], REFUSAL[9:60], REFUSAL[60:]], [bytes([b]) for b in REFUSAL]]
)
async def test_a_refusal_says_that_the_connection_closes_whatever_its_handler_says(pieces: list[bytes]) -> None:
    handler = Handler(*pieces)
    upgrade, below = await begin_upgrade(handler, b"GET /second HTTP/1.1\r\n\r\n")
    upgrade.data_received(b"GET /third HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0)
    head, _, body = below.written.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [b"HTTP/1.1 404 Not Found", b"Content-Length: 2", b"connection: close"]
    assert body == b"no"
    assert handler.received == b"GET /x HTTP/1.1\r\n\r\n", "nothing behind the request is read"


async def test_the_end_of_a_handler_that_refused_ends_the_connection_once_its_answer_is_read() -> None:
    handler = Handler(REFUSAL)
    upgrade, below = await begin_upgrade(handler)
    handler.transport.close()
    assert (below.events, handler.lost) == (["refused"], True)
    upgrade.write(b"HTTP/1.1 200 OK\r\n\r\n")
    assert below.written.count(b"HTTP/1.1") == 1


async def test_a_switched_connection_is_its_handlers_with_what_came_early_in_order() -> None:
    handler = Handler(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"hello")
    upgrade, below = await begin_upgrade(handler, b"1")
    upgrade.data_received(b"2")
    await asyncio.sleep(0)
    upgrade.data_received(b"3")
    assert handler.received.endswith(b"\r\n\r\n123")
    assert below.written.endswith(b"\r\n\r\nhello")
    assert upgrade.switched
    handler.transport.close()
    assert below.events == ["closed"]


async def test_bytes_without_end_behind_a_request_end_the_connection() -> None:
    upgrade, below = await begin_upgrade(Handler())
    upgrade.data_received(b"x" * (MAX_HEAD + 1))
    assert below.events == ["aborted"]


async def test_an_answer_whose_head_has_no_end_ends_the_connection() -> None:
    _, below = await begin_upgrade(Handler(b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD))
    assert (below.events, below.written) == (["aborted"], b"")


async def test_a_request_that_is_refused_reaches_no_handler_and_its_connection_closes() -> None:
    below = Below()
    admit = Judge(Handler(), REFUSAL)
    upgrade = PendingUpgrade(below, below, admit)
    upgrade.begin(REQUEST, None, b"GET /second HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0)
    assert (admit.handler.received, admit.released) == (b"", 0)
    assert below.written.split(b"\r\n")[-4:] == [b"Content-Length: 2", b"connection: close", b"", b"no"]
    assert below.events == ["refused"]


async def test_a_client_that_leaves_while_it_is_judged_gets_no_handler() -> None:
    below = Below()
    admit = Judge(Handler())
    admit.judged.clear()
    upgrade = PendingUpgrade(below, below, admit)
    upgrade.begin(REQUEST, None, b"")
    await asyncio.sleep(0)
    upgrade.connection_lost(None)
    admit.judged.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (admit.handler.received, admit.released) == (b"", 0)


@pytest.mark.parametrize("answer", [(REFUSAL,), (b"HTTP/1.1 101 Switching Protocols\r\n\r\n",), ()])
async def test_the_slot_of_an_admitted_upgrade_is_given_back_once(answer: tuple[bytes, ...]) -> None:
    below = Below()
    admit = Judge(Handler(*answer))
    upgrade = PendingUpgrade(below, below, admit)
    upgrade.begin(REQUEST, None, b"")
    await asyncio.sleep(0)
    assert admit.released == 0
    admit.handler.transport.close()
    upgrade.connection_lost(None)
    upgrade.connection_lost(None)
    assert admit.released == 1
