"""A gateway as a process, whose event loop is timed while it gets bodies and answers that are made to be slow to read.

    async with gap_world(tmp_path) as world:
        gap = await world.longest_gap_ms(attack)

The models and the MCP server behind the gateway run in this process, and answer with the bytes of the attack.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from fairlead_api.documents.catalog import OpenApiEndpoint
from fairlead_api.documents.operations import Operation
from fairlead_api.documents.rules import Policy, Rule, Rules
from gap_recorder import Gaps
from gatewayprocess import Process, started
from gatewayworld import Answer, Ask, ask, calling, catalog, entry, publish
from petapi import operation_tool
from rawserver import Reply, Request
from restworld import get
from toolservers import answer_modern, raw_server, serve_asgi, tool

MOST_MS: Final = 100.0
"""Longest gap that is allowed."""
TRIES: Final = 2
"""Maximum number of attempts: the first request of a kind imports code, which alone may exceed the limit."""
MODEL: Final = b"MODEL"
"""Placeholder for the name of a model that no earlier request had: a model that failed gets no requests for a while."""
_PATTERNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "chat": {"models": ["chat-*"]},
    "responses": {"models": ["responses-*"], "responses": True},
    "anthropic": {"models": ["anthropic-*"], "kind": "anthropic"},
    "gemini": {"models": ["gemini-*"], "kind": "gemini"},
}


@dataclass(frozen=True)
class Filled:
    """Bytes made of `opening`, repeated `unit`, and `closing`. The unit is repeated as often as fits into `size` bytes,
    or `times` times.
    """

    opening: bytes
    unit: bytes
    closing: bytes
    size: int
    times: int = 0

    def bytes(self, number: int = 0) -> bytes:
        times = self.times or (self.size - len(self.opening) - len(self.closing)) // len(self.unit)
        times = min(times, (self.size - len(self.opening) - len(self.closing)) // len(self.unit))
        whole = self.opening + self.unit * times + self.closing
        return whole.replace(MODEL, b"%d" % number, 1)


@dataclass(frozen=True)
class Attack:
    """A request, and the answer of a server behind the gateway if the answer is the attack."""

    name: str
    request: Ask | Filled
    path: str = "/mcp"
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    result: Filled | None = None
    """Result of the MCP server's tool."""
    answer: Filled | None = None
    """Answer of the model or of the HTTP API."""
    status: int = 200
    kind: str = "application/json"
    most_ms: float = MOST_MS
    """Longest gap that is allowed."""


async def shortest_gap_ms(gaps: Gaps, attempt: Callable[[], Awaitable[object]], most_ms: float = MOST_MS) -> float:
    """Repeat an attack until its longest gap is allowed, at most TRIES times. Returns the longest gap of the best
    attempt, in milliseconds.
    """
    shortest = math.inf
    for _ in range(TRIES):
        gaps.reset()
        await attempt()
        shortest = min(shortest, gaps.longest_ms())
        if shortest <= most_ms:
            break
    return shortest


@dataclass
class GapWorld:
    """The running processes."""

    process: Process
    gaps: Gaps
    behind: _Behind
    numbers: count[int] = field(default_factory=count)

    async def longest_gap_ms(self, attack: Attack) -> float:
        """The longest time, in milliseconds, for which the attack blocks the gateway's event loop."""
        self.behind.attack = attack
        try:
            return await shortest_gap_ms(self.gaps, partial(self._once, attack), attack.most_ms)
        finally:
            self.behind.attack = None

    async def _once(self, attack: Attack) -> None:
        await self.make(attack)
        await self._await_settled()

    async def make(self, attack: Attack) -> Answer:
        """Make an attack once, and return the answer to it."""
        if isinstance(attack.request, Ask):
            return await ask(self.process, attack.request)
        number = next(self.numbers)
        path = attack.path.replace(MODEL.decode(), str(number))
        request = Ask(body=attack.request.bytes(number), headers=dict(attack.headers), target=path)
        return await ask(self.process, request)

    async def _await_settled(self) -> None:
        assert (await get(self.process, "/v1/tiers")).status == 200


@dataclass
class _Behind:
    """Model, HTTP API and MCP server that answer with the bytes of the attack."""

    attack: Attack | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The model and the HTTP API, as an ASGI application."""
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        attack = self.attack
        body = b"{}"
        status = 200
        kind = "application/json"
        if attack is not None and attack.answer is not None:
            body = attack.answer.bytes()
            status = attack.status
            kind = attack.kind
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": body})

    async def tool(self, request: Request, reply: Reply) -> None:
        result = None if self.attack is None else self.attack.result
        if request.method != "tools/call" or result is None:
            answer_modern(request, reply, [], call=lambda _: {"content": []})
            return
        ident = json.dumps(request.message["id"]).encode()
        reply.send(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (ident, result.bytes()))


@contextlib.asynccontextmanager
async def gap_world(folder: Path) -> AsyncIterator[GapWorld]:
    """A gateway that accepts every caller. It has models of each API, tools with a policy, with a schema and with
    neither, and operations of an HTTP API with and without a schema.
    """
    behind = _Behind()
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(serve_asgi(behind))
        server = await stack.enter_async_context(raw_server(behind.tool))
        anything = {"type": "object"}
        listed = {"type": "array", "items": {"type": ["integer", "object", "array", "string"]}}
        definitions = [entry({**tool(name), "inputSchema": anything}) for name in ("constrained", "free")]
        typed = {"inputSchema": {**anything, "properties": {"x": listed}}, "outputSchema": anything}
        definitions.append(entry({**tool("typed"), **typed}))
        rule = Rule(action="Allow", tools=("constrained",), arguments={"properties": {"x": {"type": "array"}}})
        others = Rule(action="Allow", tools=("free", "typed", "structured", "plain"))
        policy = Policy(namespace="default", name="p", every=True, rules=(rule, others))
        documents = folder / "documents"
        routes = folder / "models.yaml"
        base = f"http://127.0.0.1:{port}"
        operations = [
            operation_tool("structured", Operation(method="GET", path="/a", structured=True), output=anything),
            operation_tool("plain", Operation(method="GET", path="/a")),
        ]
        publish(
            documents,
            catalog("demo", server.url, definitions, trust_annotations=True),
            catalog("api", OpenApiEndpoint(url=base), operations),
            Rules(policies=(policy,)),
        )
        providers = {
            name: {**members, "baseUrl": base if "kind" in members else f"{base}/v1"}
            for name, members in _PATTERNS.items()
        }
        routes.write_text(json.dumps({"providers": providers}))
        gaps = Gaps(folder / "gaps")
        process = await stack.enter_async_context(
            started(
                FAIRLEAD_TEST_GAPS=str(folder / "gaps"),
                FAIRLEAD_DOCUMENTS=str(documents),
                FAIRLEAD_ALLOWED_HOSTS="*",
                FAIRLEAD_ANONYMOUS="allow",
                FAIRLEAD_ROUTES=str(routes),
                FAIRLEAD_EMBEDDER="none",
                FAIRLEAD_AUDIT_FILE=str(folder / "audit.log"),
            )
        )
        await process.line("up to date")
        process.port = int((await process.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
        assert process.process.stderr is not None
        reading = asyncio.ensure_future(process.process.stderr.read())  # a full pipe would stop it
        stack.callback(reading.cancel)
        await ask(process, calling("demo__free"))
        await get(process, "/v1/tiers")  # REST is made with its first request
        await ask(process, calling("api__plain"))
        yield GapWorld(process, gaps, behind)
