"""Clients that request a stream and do not read it: the provider waits for them, but not forever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import scrape
from llmworld import PATH, LlmWorld, llm_world
from waiting import eventually, until_async

PIECE = "x" * 2_000
EVENTS = 8_000
"""Number of events, 16 MB in all, several times what sockets hold."""
OTHERS = 20
MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = {"id": "c", "choices": [{"index": 0, "delta": {"content": PIECE}, "finish_reason": None}]}
CHAT_END = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": PIECE}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": PIECE}]}
RESPONSE: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
PART: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": PIECE}]}}
STREAMS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any], list[str]]] = {
    "chat": (
        PATH,
        {"kind": "openai"},
        {"model": "scripted", "stream": True, "messages": MESSAGES},
        [*[json.dumps(CHAT)] * EVENTS, json.dumps(CHAT_END), "[DONE]"],
    ),
    "messages": (
        "/v1/messages",
        {"kind": "anthropic"},
        {"model": "scripted", "stream": True, "max_tokens": 9, "messages": MESSAGES},
        [
            json.dumps({"type": "message_start", "message": MESSAGE}),
            json.dumps(BLOCK),
            *[json.dumps(TEXT)] * EVENTS,
            json.dumps({"type": "content_block_stop", "index": 0}),
            json.dumps(END),
            json.dumps({"type": "message_stop"}),
        ],
    ),
    "responses": (
        "/v1/responses",
        {"kind": "openai", "responses": True},
        {"model": "scripted", "stream": True, "input": "Hi"},
        [
            json.dumps({"type": "response.created", "sequence_number": 0, "response": RESPONSE}),
            json.dumps({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": ITEM}),
            *[
                json.dumps(
                    {
                        "type": "response.output_text.delta",
                        "sequence_number": 2,
                        "output_index": 0,
                        "item_id": "msg_1",
                        "content_index": 0,
                        "delta": PIECE,
                    }
                )
            ]
            * EVENTS,
            json.dumps({"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": ITEM}),
            json.dumps(
                {
                    "type": "response.completed",
                    "sequence_number": 4,
                    "response": {**RESPONSE, "status": "completed", "output": [ITEM]},
                }
            ),
        ],
    ),
    "gemini": (
        "/v1beta/models/scripted:streamGenerateContent?alt=sse",
        {"kind": "gemini"},
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        [
            *[json.dumps({"responseId": "r", "modelVersion": "m", "candidates": [PART]})] * EVENTS,
            json.dumps({"responseId": "r", "candidates": [{**PART, "finishReason": "STOP"}]}),
        ],
    ),
}


@contextlib.asynccontextmanager
async def unread(world: LlmWorld, path: str, body: Mapping[str, Any]) -> AsyncIterator[asyncio.StreamReader]:
    """Request a stream with small buffers. The client reads only what the test reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", world.gateway.port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1 << 12)
    encoded = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json"
    writer.write(f"{head}\r\ncontent-length: {len(encoded)}\r\n\r\n".encode() + encoded)
    try:
        yield reader
    finally:
        writer.transport.abort()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.mark.parametrize("api", STREAMS)
async def test_a_provider_waits_for_a_client_that_does_not_read_its_stream(tmp_path: Path, api: str) -> None:
    path, provider, body, events = STREAMS[api]
    turns = [ScriptedTurn(events=events), *[ScriptedTurn("Hello")] * OTHERS]
    async with llm_world(tmp_path, *turns, provider=provider) as world, unread(world, path, body) as reader:
        await eventually(lambda: world.model.answering == 1)
        for _ in range(OTHERS):  # enough time for the whole stream, if somebody read it
            assert (await world.chat("Hi")).status == 200
        assert world.model.answering == 1, "the provider still writes its stream"
        size = 0
        while piece := await reader.read(1 << 16):
            size += len(piece)
        await eventually(lambda: world.model.answering == 0)
    assert size > len(PIECE) * EVENTS


async def test_a_stream_that_nobody_reads_is_closed(tmp_path: Path) -> None:
    path, _, body, events = STREAMS["chat"]
    async with llm_world(tmp_path, ScriptedTurn(events=events, lingers=True), llm_seconds=1.0) as world:

        async def over() -> bool:
            return world.model.answering == 0

        async with unread(world, path, body):
            await eventually(lambda: world.model.answering == 1)
            await until_async("the model is left", over)


async def test_a_client_that_reads_nothing_is_disconnected_and_counted(tmp_path: Path) -> None:
    path, _, body, events = STREAMS["chat"]
    async with llm_world(tmp_path, ScriptedTurn(events=events), client_unread=1.0) as world:

        async def is_counted() -> bool:
            return "fairlead_client_connections_unread_total 1.0" in await scrape(world.gateway)

        async with unread(world, path, body):
            await until_async("the connection is counted", is_counted)
            await eventually(lambda: world.model.answering == 0)
