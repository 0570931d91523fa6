"""Servers that answer `initialize` with an error: the caller's error says that the connection was refused, not the
call."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import EventsEndpoint
from fairlead_client import AsyncToolRegistry, Server
from fairlead_mcp import jsonrpc
from gatewayworld import LEGACY, ask, calling, catalog, running
from linkservers import events_handler, tcp_server
from rawserver import Reply, Request, encode, raw_server
from restworld import post
from toolservers import tool

CODES = [jsonrpc.INVALID_PARAMS, -32000, jsonrpc.METHOD_NOT_FOUND]
CAUSE = "the licence has expired"
ERAS = [LEGACY, "2026-07-28"]
TRANSPORTS = ["http", "sse", "tcp"]


def refuse(message: dict[str, Any], code: int) -> dict[str, Any] | None:
    """The answer of a server that refuses every request; None for notifications."""
    if "id" not in message:
        return None
    error = {"code": code, "message": CAUSE if message["method"] == "initialize" else "unknown method"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}


@contextlib.asynccontextmanager
async def refusing_server(transport: str, code: int) -> AsyncIterator[Any]:
    """The endpoint of a server that refuses every `initialize`."""

    def respond(line: bytes) -> dict[str, Any] | None:
        return refuse(json.loads(line), code)

    async def handle(request: Request, reply: Reply) -> None:
        answer = refuse(request.message, code) if request.verb == "POST" else None
        if answer is None:
            reply.send(405)
        else:
            reply.send(200, encode(answer))

    if transport == "tcp":
        async with tcp_server(respond) as endpoint:
            yield endpoint
    elif transport == "sse":
        async with raw_server(events_handler(respond)) as server:
            yield EventsEndpoint(url=server.url)
    else:
        async with raw_server(handle) as server:
            yield server.url


def assert_explains(text: str, server: str, code: int) -> None:
    assert f"server {server} refused the connection (initialize): {CAUSE} (error {code})" in text
    assert "check its configuration" in text


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_initialize_answered_with_an_error_is_told_as_a_refused_connection(
    tmp_path: Path, transport: str, era: str, code: int
) -> None:
    async with refusing_server(transport, code) as endpoint:
        document = catalog("demo", endpoint, ["x"], version=LEGACY)
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("demo__x", era=era))
            assert answer.refusal == "UPSTREAM_ERROR"
            assert_explains(answer.message["result"]["content"][0]["text"], "default/demo", code)


async def test_a_refused_initialize_of_a_clients_own_session_is_told_as_such(tmp_path: Path) -> None:
    async with refusing_server("http", -32000) as endpoint:
        document = catalog("demo", endpoint, ["x"], version=LEGACY, session="PerClient")
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("demo__x"))
            assert_explains(answer.message["result"]["content"][0]["text"], "default/demo", -32000)


async def test_rest_tells_of_a_refused_initialize(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "demo__x", "arguments": "{}"}}
    body = {"format": "openai-chat", "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
    async with refusing_server("http", jsonrpc.INVALID_PARAMS) as endpoint:
        document = catalog("demo", endpoint, [tool("x")], version=LEGACY)
        async with running(tmp_path, document, rest_processes=0) as gateway:
            answer = await post(gateway, "/v1/tool-calls", body)
            assert_explains(answer.body.decode(), "default/demo", jsonrpc.INVALID_PARAMS)


@pytest.mark.parametrize("code", CODES)
async def test_a_registry_logs_a_refused_initialize_by_the_servers_name(
    caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async with refusing_server("http", code) as url:
        async with AsyncToolRegistry([Server(name="licensed", url=url)]) as registry:
            assert not registry.tools
        assert_explains(caplog.text, "licensed", code)
