"""Bytes that are wrong as HTTP are refused alike, whether they are for `/mcp` or for short tool calls over REST."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gatewayworld import Wire, catalog, running
from restworld import MESSAGES
from toolservers import modern_server

BODY = json.dumps({"format": "openai", "message": MESSAGES["openai-chat"]([("call_1", "demo__echo", {})])}).encode()
LENGTH = b"content-length: %d\r\n" % len(BODY)
FAULTS = {
    "length and chunks": LENGTH + b"transfer-encoding: chunked\r\n",
    "two lengths": LENGTH + b"content-length: 4\r\n",
    "list of lengths": b"content-length: 5, 5\r\n",
    "signed length": b"content-length: +10\r\n",
    "negative length": b"content-length: -1\r\n",
    "hexadecimal length": b"content-length: 0x10\r\n",
    "endless length": b"content-length: 99999999999999999999999\r\n",
    "chunks twice": b"transfer-encoding: chunked, chunked\r\n",
    "space before the colon": b"transfer-encoding : chunked\r\n",
    "folded line": LENGTH + b"x: y\r\n folded\r\n",
    "zero byte": LENGTH + b"x: a\0b\r\n",
    "no colon": LENGTH + b"no colon at all\r\n",
    "huge head": LENGTH + b"x-long: " + b"a" * (300 << 10) + b"\r\n",
}


def request(target: bytes, lines: bytes) -> bytes:
    """A request for the calls of BODY."""
    fields = b"host: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
    return b"POST %b HTTP/1.1\r\n%b%b\r\n%b" % (target, fields, lines, BODY)


async def read_answers(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """All that the gateway answers until it closes the connection. The client `ends` its side behind the data."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if ends:
        writer.write_eof()
    answered = await reader.read()
    writer.close()
    return answered


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_framing_is_answered_as_at_mcp_and_ends_the_connection(tmp_path: Path, fault: str) -> None:
    async with running(tmp_path) as gateway:
        behind = request(b"/v1/tool-calls", LENGTH)
        expected = await read_answers(gateway.port, request(b"/mcp", FAULTS[fault]) + behind)
        assert expected.startswith(b"HTTP/1.1 4"), expected[:100]
        for target in (b"/v1/tool-calls", b"/v1/executions"):
            assert await read_answers(gateway.port, request(target, FAULTS[fault]) + behind) == expected


async def test_calls_that_are_sent_one_behind_the_other_are_answered_in_their_order(tmp_path: Path) -> None:
    async with (
        modern_server([{"name": "echo"}]) as server,
        running(tmp_path, catalog("demo", server.url, ["echo"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        for number in range(3):
            wire.write(request(b"/v1/tool-calls", LENGTH).replace(b"call_1", b"call_%d" % number))
        answers = [(await wire.answer()).message["calls"] for _ in range(3)]
    assert [[call["id"] for call in calls] for calls in answers] == [["call_0"], ["call_1"], ["call_2"]]


async def test_a_client_that_ends_its_side_within_a_request_has_no_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        for target in (b"/mcp", b"/v1/tool-calls"):
            assert await read_answers(gateway.port, request(target, LENGTH)[:-9], ends=True) == b""
