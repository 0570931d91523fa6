"""A legacy server that asks its client questions during a call, and a legacy client that answers them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from gatewayworld import LEGACY, Ask, Reachable, Wire, ask, legacy
from rawserver import Reply, Request

QUESTION = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
PICKED = {"action": "accept", "content": {"x": "this"}}


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


class LegacyAsker:
    """A legacy server whose tool asks `rounds` questions on the stream of its call, and returns the answers."""

    def __init__(self, rounds: int = 1, *, progress: bool = False) -> None:
        self.rounds = rounds
        self.progress = progress
        self.declared: list[Any] = []
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.cancelled: list[Any] = []
        self.sessions = 0
        self.going_on = asyncio.Event()
        self.going_on.set()

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            return reply.send(405)
        if request.method == "initialize":
            self.declared.append(request.params["capabilities"])
            self.sessions += 1
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, hello, mcp_session_id=f"s{self.sessions}")
        if request.method == "notifications/cancelled":
            self.cancelled.append(request.params["requestId"])
        if request.method == "" and (future := self.answers.get(request.message["id"])) is not None:
            future.set_result(request.message.get("result", request.message.get("error")))
        if request.method != "tools/call":
            return reply.send(202)
        return await self._call(request, reply)

    async def _call(self, request: Request, reply: Reply) -> None:
        reply.open_stream()
        told = []
        for number in range(self.rounds):
            ident = f"{request.message['id']}-{number}"
            self.answers[ident] = asyncio.get_running_loop().create_future()
            reply.event({"jsonrpc": "2.0", "id": ident, "method": "elicitation/create", "params": QUESTION})
            await reply.flush()
            told.append(await self.answers[ident])
            await self.going_on.wait()
            if self.progress:
                token = request.params["_meta"]["progressToken"]
                progress = {"progressToken": token, "progress": number}
                reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": text_result(json.dumps(told))})
        reply.end_stream()


async def session_of(gateway: Reachable, capabilities: dict[str, Any], **headers: str) -> str:
    hello = {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}
    return (await ask(gateway, legacy("initialize", hello).with_headers(**headers))).headers["mcp-session-id"]


async def _at_once() -> None:
    """Answer without a delay."""


async def conversation(
    gateway: Reachable,
    session: str,
    response: dict[str, Any],
    thinking: Callable[[], Awaitable[None]] = _at_once,
    call: dict[str, Any] | None = None,
    **headers: str,
) -> tuple[list[Any], Any]:
    """Call a tool as a legacy client that answers each question, after `thinking`. Returns the questions and the last
    message. `call` contains the params (default: those of demo__x without arguments); `headers` are added to each
    request.
    """
    questions: list[Any] = []
    async with await Wire.connect(gateway) as wire:
        params = call or {"name": "demo__x", "arguments": {}}
        wire.send(legacy("tools/call", params, number=7, session=session).with_headers(**headers))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        if b"event-stream" not in head:
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return questions, json.loads(await wire.reader.readexactly(length))
        while True:
            data = (await wire.reader.readuntil(b"\n\n")).partition(b"data: ")[2].strip()
            message = json.loads(data) if data else {}
            if "method" in message:
                questions.append((message["method"], message["params"]))
                await thinking()
                answer = {"jsonrpc": "2.0", "id": message["id"], **response}
                posted = await ask(gateway, Ask(answer, {**legacy("x").headers, "mcp-session-id": session, **headers}))
                assert posted.status == 202
            elif message.get("id") == 7:
                return questions, message
