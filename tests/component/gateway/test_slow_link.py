"""A server on stdio in a pod whose process takes longer to start than a connection may: in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from fairlead_api.documents.catalog import TcpEndpoint
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, Wire, calling, catalog, running
from rawserver import encode
from scriptedserver import handshake, responder


@pytest.mark.looptime(start=0)
async def test_a_call_waits_40_seconds_for_the_one_process_that_starts_for_it(tmp_path: Path) -> None:
    """With the 30 s of other connections the call failed, and the next one began another process."""
    write_token(tmp_path)
    starts = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal starts
        starts += 1
        respond = responder(handshake(LEGACY))
        with contextlib.suppress(ConnectionError):
            await reader.readline()
            await asyncio.sleep(40.0)
            async for line in reader:
                if (response := respond(line)) is not None:
                    writer.write(encode(response) + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint = TcpEndpoint(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    document = catalog("demo", endpoint, ["fine"], version=LEGACY, credential=CREDENTIAL)
    async with server, running(tmp_path, document) as gateway:
        async with await Wire.connect(gateway) as wire:
            wire.send(calling("demo__fine"))
            answer = await wire.answer(seconds=60)
        assert answer.message["result"]["content"][0]["text"] == "went", json.dumps(answer.message)
        assert starts == 1
