"""A client that asks for a stream and does not read it holds nothing after its time is over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from fairlead_formats.scripted_turns import ScriptedTurn
from llmworld import PATH, llm_world
from waiting import until_async

DELTA = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x" * 60_000}, "finish_reason": None}]}


async def test_a_stream_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    long = ScriptedTurn(events=[json.dumps(DELTA)] * 400, lingers=True)
    async with llm_world(tmp_path, long, llm_seconds=1.0) as world:
        body = json.dumps({"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "Hi"}]})
        _, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port, limit=1 << 12)
        head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
        writer.write(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())

        async def requested() -> bool:
            return world.model.answering == 1

        async def over() -> bool:
            return world.model.answering == 0

        try:
            await until_async("the model is asked", requested)
            await until_async("the model is left", over)
        finally:
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
