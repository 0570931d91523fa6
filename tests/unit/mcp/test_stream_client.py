"""Life cycle of streams that are opened on demand, in virtual time and without a network."""

from __future__ import annotations

import asyncio
import json
import traceback

import pytest

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HttpRefused, McpError
from fairlead_mcp.stream_client import StreamClient, StreamState
from fairlead_mcp.streams import ON_DEMAND, StreamConnection, StreamOpener, StreamPolicy
from fakeprocesses import now

pytestmark = [pytest.mark.looptime(start=0)]


class FakeStream:
    """An open stream whose server is modern; it takes `closing` seconds to close."""

    def __init__(self, connection: StreamConnection, closing: float) -> None:
        self.connection = connection
        self.closed = False
        self._closing = closing

    def write(self, line: bytes) -> None:
        message = json.loads(line)
        if "id" in message:
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            self.connection.on_line(json.dumps(answer).encode())

    async def aclose(self) -> None:
        await asyncio.sleep(self._closing)
        self.closed = True

    def break_off(self) -> None:
        self.connection.on_end(ConnectionLost("the stream broke", sent=True))


class FakeOpener(StreamOpener):
    """Opens `FakeStream`s, or fails with `refusal` while that is set."""

    def __init__(self, *, closing: float = 0.0) -> None:
        self.refusal: Exception | None = None
        self.opened: list[FakeStream] = []
        self._closing = closing

    async def open(self, connection: StreamConnection) -> FakeStream:
        assert all(stream.closed for stream in self.opened), "the stream before is still open"
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(FakeStream(connection, self._closing))
        return self.opened[-1]


def client_of(opener: FakeOpener, policy: StreamPolicy = ON_DEMAND) -> StreamClient:
    return StreamClient("a", opener, policy, backoff=Backoff(lambda: 0.0, base=1.0, cap=8.0), clock=now)


async def test_a_stream_is_opened_by_the_first_request_and_shared_by_all() -> None:
    client = client_of(opener := FakeOpener())
    assert client.state is StreamState.IDLE
    await asyncio.gather(*(client.request("ping", None, deadline=now() + 5) for _ in range(10)))
    assert (client.state, client.starts, len(opener.opened)) == (StreamState.RUNNING, 1, 1)
    await client.aclose()
    assert (client.state, opener.opened[0].closed) == (StreamState.CLOSED, True)
    with pytest.raises(ConnectFailed, match="the connection to a was closed"):
        await client.request("ping", None, deadline=now() + 5)


async def test_a_stream_lost_after_a_short_life_is_opened_again_after_the_delay_alone() -> None:
    client = client_of(opener := FakeOpener())
    await client.wait_until_ready(now() + 5)
    opener.opened[0].break_off()
    with pytest.raises(ConnectFailed, match="the stream broke"):
        await client.request("ping", None, deadline=now() + 5)
    await asyncio.sleep(1.1)
    assert (client.state, client.starts) == (StreamState.IDLE, 1), "nobody asked"
    await client.request("ping", None, deadline=now() + 5)
    assert client.starts == 2
    await client.aclose()


async def test_a_stream_lost_after_a_long_life_is_opened_again_by_the_next_request() -> None:
    client = client_of(opener := FakeOpener())
    await client.wait_until_ready(now() + 5)
    await asyncio.sleep(60)
    opener.opened[0].break_off()
    await client.request("ping", None, deadline=now() + 5)
    assert client.starts == 2
    await client.aclose()


async def test_the_next_stream_waits_until_the_last_one_is_closed() -> None:
    client = client_of(FakeOpener(closing=3.0), StreamPolicy(idle=1.0))
    await client.request("ping", None, deadline=now() + 5)
    await asyncio.sleep(1.5)
    assert client.state is StreamState.IDLE
    await client.request("ping", None, deadline=now() + 5)
    assert client.starts == 2
    assert now() == pytest.approx(4.0, abs=0.1)
    await client.aclose()


async def test_a_stream_that_is_not_opened_fails_all_who_wait_and_a_traceback_does_not_grow_with_them() -> None:
    client = client_of(opener := FakeOpener())
    opener.refusal = HttpRefused("the server wants another credential", status=401)
    errors = await asyncio.gather(*(client.wait_until_ready(now() + 5) for _ in range(50)), return_exceptions=True)
    assert {type(error) for error in errors} == {HttpRefused}
    assert isinstance(client.failure, McpError)
    assert len(traceback.extract_tb(client.failure.__traceback__)) < 10
    assert client.starts == 1
    await client.aclose()


async def test_a_stream_whose_opener_breaks_leaves_nobody_waiting() -> None:
    client = client_of(opener := FakeOpener())
    opener.refusal = RuntimeError("unforeseen")
    with pytest.raises(ConnectFailed, match="a cannot be opened"):
        await client.wait_until_ready(now() + 5)
    opener.refusal = None
    await asyncio.sleep(1.1)
    await client.wait_until_ready(now() + 5)
    await client.aclose()


async def test_a_stream_that_is_eager_is_opened_without_a_request_and_after_its_loss() -> None:
    client = client_of(opener := FakeOpener(), StreamPolicy(eager=True))
    await asyncio.sleep(0.1)
    await client.wait_until_ready(now())
    opener.opened[0].break_off()
    assert repr(client) == "<StreamClient a backoff, 1 starts>"
    await asyncio.sleep(1.1)
    assert (client.state, client.starts) == (StreamState.RUNNING, 2)
    await client.aclose()


async def test_each_process_behind_a_stream_has_a_name_of_its_own() -> None:
    client = client_of(opener := FakeOpener())
    await client.wait_until_ready(now() + 5)
    assert client.process is None, "no process ends with such a stream"
    await client.aclose()

    class ProcessesOpener(FakeOpener):
        starts_process = True

    client = client_of(opener := ProcessesOpener())
    names: list[bytes | None] = []
    for _ in range(2):
        await client.wait_until_ready(now() + 5)
        names.append(client.process)
        opener.opened[-1].break_off()
        await asyncio.sleep(2.1)
    assert len({*names} - {None}) == 2
    await client.aclose()
