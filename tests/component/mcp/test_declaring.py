"""Discoveries that declare client capabilities: the capabilities that they declare in either era, and that they never
hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead_mcp import capabilities
from fairlead_mcp.eras import META_CAPABILITIES
from fairlead_mcp.gated import find_gated_tools
from fairlead_mcp.http.target import Target
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.session import McpSession
from toolservers import Reply, Request, answer_modern, raw_server, tool

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
QUESTIONS = ("roots/list", "elicitation/create", "sampling/createMessage")


def session_factory(url: str) -> Any:
    @asynccontextmanager
    async def session(declared: bytes) -> AsyncIterator[McpSession]:
        offering = Offering(declared, capabilities.decline)
        async with McpSession.over_http(Target.from_url(url), offering=offering) as opened:
            yield opened

    return session


class Asker:
    """A legacy server that lists its tools only after its client has answered one question of each kind."""

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.verb != "POST":
            return reply.send(405)
        if request.method == "initialize":
            return reply.result(request, HELLO)
        if request.method == "" and request.message["id"] in self.answers:
            self.answers[request.message["id"]].set_result(request.message)
        if request.method != "tools/list":
            return reply.send(404 if request.method == "server/discover" else 202)
        reply.open_stream()
        for method in QUESTIONS:
            self.answers[method] = asyncio.get_running_loop().create_future()
            reply.event({"jsonrpc": "2.0", "id": method, "method": method, "params": {}})
            await reply.flush()
            await self.answers[method]
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {"tools": [tool("one")]}})
        return reply.end_stream()


async def test_inquiries_of_an_http_server_during_discovery_are_declined() -> None:
    asker = Asker()
    async with raw_server(asker) as server:
        gated = await find_gated_tools(session_factory(server.url), {"one"}, 20.0)
    assert gated == ()
    answers = {method: future.result() for method, future in asker.answers.items()}
    assert answers["roots/list"]["result"] == {"roots": []}
    assert answers["elicitation/create"]["result"] == {"action": "decline"}
    assert answers["sampling/createMessage"]["error"]["code"] == -1
    first = next(request for request in server.seen if request.method == "initialize")
    assert first.params["capabilities"] == json.loads(capabilities.ALL)


@pytest.mark.parametrize("capability", ["roots", "sampling", "elicitation", "elicitation.url"])
async def test_a_modern_server_is_told_with_each_request(capability: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        declared = json.dumps(request.params["_meta"][META_CAPABILITIES]).encode()
        gated = [tool("gated")] if capabilities.declares(declared, capability) else []
        answer_modern(request, reply, [tool("plain"), *gated])

    async with raw_server(handle) as server:
        listing = await find_gated_tools(session_factory(server.url), {"plain"}, 20.0)
    assert [json.loads(bytes(listed.definition))["name"] for listed in listing] == ["gated"]
    assert [listed.requires for listed in listing] == [(capability,)]
