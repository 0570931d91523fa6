"""Sessions that the gateway ends, because the agent's daily tokens are used up or because a provider is silent."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

from fairlead_formats.tokens.routes import read_routes
from fairlead_models.provider_requests import ProviderClient, transport_of
from fairlead_models.providers import read_providers
from fairlead_speech.scripted import SpokenReply
from fairlead_speech.sockets import INTERNAL_ERROR, POLICY_VIOLATION, SILENT, Closing, SessionSocket
from liveworld import live_world
from speechworld import speech_world
from waiting import eventually

SPENT = "30 were used since midnight UTC"
"""Part of the close reason of a session whose agent has used up its daily tokens, by a response of 30 tokens."""
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def test_a_realtime_session_ends_after_the_response_that_uses_up_the_tokens_of_the_day(tmp_path: Path) -> None:
    async with (
        speech_world(tmp_path, SpokenReply("Hello."), SpokenReply("No."), agent_tokens_per_day=25) as world,
        world.client() as client,
    ):
        await client.send("response.create")
        code, reason = await client.end()
        assert (code, SPENT in reason) == (POLICY_VIOLATION, True)
        assert client.types()[-2:] == ["response.done", "error"]
        assert client.of_type("error")[0]["error"]["code"] == "RATE_LIMITED"
        await eventually(lambda: world.metrics.sessions["openai-realtime", "over_budget"] == 1)


async def test_a_live_session_ends_after_the_turn_that_uses_up_the_tokens_of_the_day(tmp_path: Path) -> None:
    async with (
        live_world(tmp_path, SpokenReply("Hello."), SpokenReply("No."), agent_tokens_per_day=25) as world,
        world.client() as client,
    ):
        await client.ask("Hello?")
        code, reason = await client.end()
        assert (code, SPENT in reason) == (POLICY_VIOLATION, True)
        assert client.transcript() == "Hello. "
        assert client.content("turnComplete") == [True]


async def test_a_session_continues_while_tokens_are_left(tmp_path: Path) -> None:
    replies = SpokenReply("One."), SpokenReply("Two.")
    async with speech_world(tmp_path, *replies, agent_tokens_per_day=50) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done")
        await client.send("response.create")
        await client.end()
        assert [each["transcript"] for each in client.of_type("response.output_audio_transcript.done")] == [
            "One.",
            "Two.",
        ]


@contextlib.asynccontextmanager
async def silent_provider() -> AsyncIterator[int]:
    """A server that accepts a WebSocket and then sends nothing, not even an answer to a ping."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = head[head.lower().index("sec-websocket-key: ") :].split("\r\n")[0].partition(": ")[2]
        accepted = b64encode(hashlib.sha1(f"{key}{MAGIC}".encode()).digest()).decode()  # required by RFC 6455
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accepted.encode() + b"\r\n\r\n"
        )
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_provider_that_answers_no_ping_is_distinguished_from_one_that_is_cut_off() -> None:
    client = ProviderClient()
    async with silent_provider() as port, contextlib.aclosing(client):
        served = {"one": {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": ["any"]}}
        provider = read_providers(served, read_routes({})).by_name["one"]
        socket = await client.connect(provider, "/realtime", {}, max_message=1 << 20, ping=0.2)
        side = SessionSocket(socket, transport_of(socket), asyncio.get_running_loop().time)
        assert await side.receive() == Closing(INTERNAL_ERROR, SILENT, clean=False)
