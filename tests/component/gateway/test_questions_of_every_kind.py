"""Questions of servers to their clients, from every method that may ask, in each combination of eras."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from askers import session_of
from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, META, MODERN, Ask, Wire, ask, catalog, legacy, modern, running
from rawserver import Reply, Request, raw_server

ERAS = (MODERN, LEGACY)
QUESTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "elicitation/create": (
        {"elicitation": {"form": {}}},
        {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}, "z-unknown": {"b": 1, "a": 2}},
        {"action": "accept", "content": {"x": 1.50}, "z-unknown": [None]},
    ),
    "sampling/createMessage": (
        {"sampling": {}},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9, "z-unknown": 1},
        {"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m", "z-unknown": {"b": 1}},
    ),
    "roots/list": ({"roots": {}}, {}, {"roots": [{"uri": "file:///x", "name": "x", "z-unknown": 1}]}),
}
"""By method: capability that a client must declare, params, and the client's result."""
METHODS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "demo__x", "arguments": {}},
    "prompts/get": {"name": "demo__p"},
    "resources/read": {"uri": "test://r"},
}
RESULT: dict[str, Any] = {"content": [], "messages": [], "contents": []}


class Curious:
    """A server of one era that asks one question before it answers, and records the client's answer."""

    def __init__(self, era: str, question: str) -> None:
        self.era = era
        self.question = question
        self.declared: Any = None
        self.told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method in METHODS:
            return await (self._modern(request, reply) if self.era == MODERN else self._legacy(request, reply))
        if request.verb == "GET":
            return reply.send(405)
        if request.method == "initialize" and self.era == LEGACY:
            self.declared = request.params["capabilities"]
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, hello, mcp_session_id="s")
        if "result" in request.message:
            self.told.set_result(request.message["result"])
        if "id" in request.message and request.method:
            return reply.error(request, 404, -32601, "Method not found")
        return reply.send(202)

    async def _legacy(self, request: Request, reply: Reply) -> None:
        reply.open_stream()
        params = QUESTIONS[self.question][1]
        message = {"jsonrpc": "2.0", "id": 0, "method": self.question, **({"params": params} if params else {})}
        reply.event(message)
        await reply.flush()
        result = {**RESULT, "_meta": {"told": await self.told}}
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        return reply.end_stream()

    async def _modern(self, request: Request, reply: Reply) -> None:
        params = request.params
        self.declared = params["_meta"][META + "clientCapabilities"]
        if "inputResponses" in params:
            assert params["requestState"] == "sealed"
            told = {**RESULT, "resultType": "complete", "_meta": {"told": params["inputResponses"]["key"]}}
            return reply.result(request, told)
        question_params = QUESTIONS[self.question][1]
        question = {"method": self.question, **({"params": question_params} if question_params else {})}
        result = {"resultType": "input_required", "inputRequests": {"key": question}, "requestState": "sealed"}
        return reply.result(request, result)


def document(url: str, era: str) -> Catalog:
    def definition(member: str, name: str) -> Definition:
        return Definition(name=name, definition=Raw(json.dumps({member: name, "name": name}).encode()), hash="")

    return catalog(
        "demo", url, ["x"], version=era, prompts=(definition("name", "p"),), resources=(definition("uri", "test://r"),)
    )


async def as_legacy(gateway: Gateway, method: str, question: str) -> tuple[Any, Any]:
    """Question and result as a legacy client gets them."""
    capabilities, _, answer = QUESTIONS[question]
    session = await session_of(gateway, capabilities)
    async with await Wire.connect(gateway) as wire:
        wire.send(legacy(method, METHODS[method], number=7, session=session))
        inquiry: Any = None
        while True:
            block = await asyncio.wait_for(wire.reader.readuntil(b"\n\n"), 30)
            data = block.partition(b"data: ")[2].strip()
            message = json.loads(data) if data else {}
            if "method" in message:
                inquiry = {
                    "method": message["method"],
                    **({"params": message["params"]} if "params" in message else {}),
                }
                response = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
                await ask(gateway, Ask(response, {**legacy("x").headers, "mcp-session-id": session}))
            elif message.get("id") == 7:
                return inquiry, message["result"]


async def as_modern(gateway: Gateway, method: str, question: str) -> tuple[Any, Any]:
    """Question and result as a modern client gets them. The client repeats the request with its answer."""
    capabilities, _, answer = QUESTIONS[question]
    params = METHODS[method]
    offer: dict[str, Any] = {META + "clientCapabilities": capabilities}
    named = {"mcp_name": str(params.get("name") or params["uri"])}
    first = (await ask(gateway, modern(method, params, **offer).with_headers(**named))).message["result"]
    assert first["resultType"] == "input_required"
    ((key, inquiry),) = first["inputRequests"].items()
    more = {"inputResponses": {key: answer}, "requestState": first["requestState"]}
    again = modern(method, {**params, **more}, number=2, **offer).with_headers(**named)
    return inquiry, (await ask(gateway, again)).message["result"]


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_server_asks_and_gets_the_answer_of_its_client_untouched(
    tmp_path: Path, client: str, server_era: str, method: str, question: str
) -> None:
    curious = Curious(server_era, question)
    async with (
        raw_server(curious.handle) as server,
        running(tmp_path, document(server.url, server_era)) as gateway,
    ):
        played = as_legacy if client == LEGACY else as_modern
        inquiry, result = await played(gateway, method, question)
    declared, params, answer = QUESTIONS[question]
    assert inquiry == {"method": question, **({"params": params} if params else {})}
    assert result["_meta"]["told"] == answer
    assert curious.declared == declared
