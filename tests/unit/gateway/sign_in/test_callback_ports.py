"""Registered callback ports on a laptop redirect to the gateway's own callback while a sign-in needs them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from fairlead_gateway.sign_in.callback_ports import CallbackPorts, response_to
from fairlead_mcp.oauth.errors import GrantFailed
from ports import free_port

CALLBACK = "http://127.0.0.1:8080/sign-in/callback"


async def ask(port: int, target: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_an_answer_at_a_registered_port_is_led_to_the_gateway() -> None:
    ports, port = CallbackPorts(lambda: CALLBACK), free_port()
    await ports.open(port, "one", 60)
    answer = await ask(port, "/callback?code=a%20b&state=s")
    assert answer.startswith(b"HTTP/1.1 303")
    assert f"\r\nLocation: {CALLBACK}?code=a%20b&state=s\r\n".encode() in answer
    assert (await ask(port, "/other?code=a")).startswith(b"HTTP/1.1 404")
    await ports.aclose()


async def test_a_port_closes_with_the_last_sign_in_that_needs_it() -> None:
    ports, port = CallbackPorts(lambda: CALLBACK), free_port()
    await asyncio.gather(ports.open(port, "one", 60), ports.open(port, "two", 60), ports.open(port, "two", 60))
    ports.release("one")
    assert (await ask(port, "/callback?code=a")).startswith(b"HTTP/1.1 303")
    ports.release("two")
    ports.release("two")
    with pytest.raises(ConnectionRefusedError):
        await ask(port, "/callback?code=a")
    await ports.open(port, "three", 60)
    assert (await ask(port, "/callback?code=a")).startswith(b"HTTP/1.1 303")
    await ports.aclose()


async def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    ports, port = CallbackPorts(lambda: CALLBACK), free_port()
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", port):
        with pytest.raises(GrantFailed, match=f"port {port} of 127.0.0.1, which another program uses: end it"):
            await ports.open(port, "one", 60)
    await ports.aclose()


async def test_a_head_without_end_is_not_read_on() -> None:
    ports, port = CallbackPorts(lambda: CALLBACK), free_port()
    await ports.open(port, "one", 60)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError):
        writer.write(b"GET /callback HTTP/1.1\r\nx: " + b"y" * (1 << 20))
        await writer.drain()
    with contextlib.suppress(OSError):
        assert await reader.read() == b""
    writer.close()
    await ports.aclose()


@pytest.mark.parametrize(
    "line",
    [
        b"POST /callback?code=a HTTP/1.1",
        b"GET http://evil.example/callback?code=a HTTP/1.1",
        b"GET //evil.example/callback HTTP/1.1",
        b"GET /callback/../x HTTP/1.1",
        b"GET \xff HTTP/1.1",
        b"GET /callback",
        b"",
    ],
)
def test_other_requests_lead_nowhere(line: bytes) -> None:
    assert response_to(line + b"\r\n\r\n", CALLBACK).startswith(b"HTTP/1.1 404")
