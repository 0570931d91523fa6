"""Servers of each revision that ask clients to open a page, and clients of each revision.

async with page_world(tmp_path) as world:
    outcome = await world.call(client, server, way, method)
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_app.gateway import Gateway
from gatewayworld import BOTH, LEGACY, META, MODERN, Ask, Wire, ask, catalog, legacy, limits, modern, running
from rawserver import RawServer, Reply, Request, raw_server

SCHEMAS: Final = Path(__file__).parents[1] / "golden" / "asked"
FORMS_ALONE: Final = "2025-06-18"
OLDER: Final = "2025-03-26"

PAGE: Final = "https://pages.example/connect?id=1"
REASON: Final = "Connect your account"
OWN_ID: Final = "id-of-the-server"
METHODS: Final = ("tools/call", "prompts/get", "resources/read")
QUESTION: Final = "question"
ERROR: Final = "error"
WAYS: Final = (QUESTION, ERROR)
"""Ways in which a server asks: a request during the call, `input_required` of a modern server, or the error -32042."""
SERVERS: Final = {"modern": MODERN, "legacy": LEGACY, "forms-alone": FORMS_ALONE}
"""Revision by name of the server."""
TIMEOUT_MS: Final = 10_000
"""Timeout of a call. A repeated call is delayed for a part of this time."""
SESSIONS: Final = ("Shared", "PerClient")
DONE: Final[dict[str, Any]] = {"content": [{"type": "text", "text": "done"}], "messages": [], "contents": []}


@dataclass(frozen=True)
class PageClient:
    """Kind of client."""

    revision: str
    elicitation: dict[str, Any] | None
    streams: bool = True
    """Whether it accepts event streams."""

    @property
    def capabilities(self) -> dict[str, Any]:
        return {} if self.elicitation is None else {"elicitation": self.elicitation}


BOTH_MODES: Final[dict[str, Any]] = {"form": {}, "url": {}}
CLIENTS: Final = {
    "2026-07-28 with url": PageClient(MODERN, BOTH_MODES),
    "2026-07-28 with url alone": PageClient(MODERN, {"url": {}}),
    "2026-07-28 with forms": PageClient(MODERN, {}),
    "2026-07-28 with nothing": PageClient(MODERN, None),
    "2026-07-28 with url, without streams": PageClient(MODERN, BOTH_MODES, streams=False),
    "2025-11-25 with url": PageClient(LEGACY, BOTH_MODES),
    "2025-11-25 with url, without streams": PageClient(LEGACY, BOTH_MODES, streams=False),
    "2025-11-25 with forms": PageClient(LEGACY, {"form": {}}),
    "2025-11-25 with forms, without streams": PageClient(LEGACY, {}, streams=False),
    "2025-11-25 with nothing": PageClient(LEGACY, None),
    "2025-06-18 with forms": PageClient(FORMS_ALONE, {}),
    "2025-06-18 with url, which it does not know": PageClient(FORMS_ALONE, BOTH_MODES),
    "2025-06-18 with nothing": PageClient(FORMS_ALONE, None),
    "2025-03-26 with url, which it does not know": PageClient(OLDER, BOTH_MODES),
}

INPUT: Final = "input_required"
ASKED: Final = "elicitation/create"
REQUIRED: Final = "-32042"
TEXT: Final = "text"


@dataclass
class Outcome:
    """Outcome of one call for a client that repeats or continues it after the page was opened."""

    form: str
    """Form of the question: INPUT, ASKED, REQUIRED, or TEXT for none."""
    params: list[dict[str, Any]] = field(default_factory=list)
    """Params of each question."""
    completed: list[dict[str, Any]] = field(default_factory=list)
    """Params of `notifications/elicitation/complete`."""
    text: str = ""
    """Text for users in the result or the error."""
    last: dict[str, Any] = field(default_factory=dict)
    """Last message."""


@cache
def validator(revision: str, definition: str) -> jsonschema_rs.Validator:
    schema = json.loads((SCHEMAS / f"{revision}.json").read_text())
    return jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/{definition}"})


def assert_valid(revision: str, definition: str, message: object) -> None:
    validator(revision, definition).validate(message)


class PageServer:
    """A server of one revision that asks to open a page before it answers any request. `opened`: whether a user has
    opened the page. `late`: number of calls that still ask afterwards. `odd`: members of its elicitations.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.opened = False
        self.late = 0
        self.odd: dict[str, Any] = {}
        self.drops = 0
        """Number of calls whose connection is closed without an answer."""
        self.completes: asyncio.Queue[dict[str, Any]] | None = None
        """Params of `notifications/elicitation/complete` to send on a session's GET stream, if there is one."""
        self.completed = asyncio.Event()
        """Set after all notifications in `completes` were sent."""
        self.calls: list[dict[str, Any]] = []
        self.declared: list[Any] = []
        self.cancelled: list[Any] = []
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._count = itertools.count(1).__next__

    def elicitation(self) -> dict[str, Any]:
        ident = {} if self.revision == MODERN else {"elicitationId": OWN_ID}
        return {"mode": "url", **ident, "url": PAGE, "message": REASON, **self.odd}

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method in METHODS:
            self.calls.append(request.params)
            if self.drops:
                self.drops -= 1
                return reply.close()
            return await self._call(request, reply)
        if request.verb == "GET":
            return reply.send(405) if self.completes is None else await self._stream(reply)
        if request.method == "initialize" and self.revision != MODERN:
            self.declared.append(request.params["capabilities"])
            hello = {"protocolVersion": self.revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, hello, mcp_session_id=f"s{self._count()}")
        if request.method == "notifications/cancelled":
            self.cancelled.append(request.params["requestId"])
        if not request.method and (future := self._answers.pop(str(request.message.get("id")), None)) is not None:
            future.set_result(request.message)
        if "id" in request.message and request.method:
            return reply.error(request, 404, -32601, "Method not found")
        return reply.send(202)

    def complete(self, params: dict[str, Any]) -> None:
        """Announce on the GET stream that a page is finished."""
        assert self.completes is not None
        self.completed.clear()
        self.completes.put_nowait(params)

    async def _stream(self, reply: Reply) -> None:
        assert self.completes is not None
        reply.open_stream()
        await reply.flush()
        while True:
            params = await self.completes.get()
            reply.event({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params})
            await reply.flush()
            if self.completes.empty():
                self.completed.set()

    async def _call(self, request: Request, reply: Reply) -> None:
        params = request.params
        target = str(params.get("name") or params.get("uri"))
        if self.opened and self.late == 0:
            return self._finish(request, reply)
        self.late -= self.opened
        if ERROR in target:
            status = 400 if self.revision == MODERN else 200
            return reply.error(request, status, -32042, "More is needed", {"elicitations": [self.elicitation()]})
        if self.revision == MODERN:
            self.declared.append(params["_meta"][META + "clientCapabilities"])
            question = {"method": "elicitation/create", "params": self.elicitation()}
            return reply.result(
                request, {"resultType": INPUT, "inputRequests": {"key": question}, "requestState": "of the server"}
            )
        return await self._ask(request, reply)

    async def _ask(self, request: Request, reply: Reply) -> None:
        ident = f"q{self._count()}"
        answer = self._answers[ident] = asyncio.get_running_loop().create_future()
        reply.open_stream()
        reply.event({"jsonrpc": "2.0", "id": ident, "method": "elicitation/create", "params": self.elicitation()})
        await reply.flush()
        told = await answer
        if "error" in told:  # like SDKs: the tool fails with the message
            self._end(request, reply, f"cannot ask: {told['error']['message']}")
        elif told["result"]["action"] != "accept":
            self._end(request, reply, "declined")
        else:
            done = {"method": "notifications/elicitation/complete", "params": {"elicitationId": OWN_ID}}
            reply.event({"jsonrpc": "2.0", **done})
            reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": DONE})
        reply.end_stream()

    def _end(self, request: Request, reply: Reply, text: str) -> None:
        ident = request.message["id"]
        if request.method == "tools/call":
            result = {"content": [{"type": "text", "text": text}], "isError": True}
            reply.event({"jsonrpc": "2.0", "id": ident, "result": result})
        else:
            reply.event({"jsonrpc": "2.0", "id": ident, "error": {"code": -32000, "message": text}})

    def _finish(self, request: Request, reply: Reply) -> None:
        more = {"resultType": "complete"} if self.revision == MODERN else {}
        reply.result(request, {**DONE, **more})


def name_of(server: str, session: str) -> str:
    return f"{server}-{session}".lower()


def _document(url: str, server: str, session: str) -> Catalog:
    name = name_of(server, session)

    def definition(member: str, own: str) -> Definition:
        return Definition(name=own, definition=Raw(json.dumps({member: own, "name": own}).encode()), hash="")

    return catalog(
        name,
        url,
        WAYS,
        version=SERVERS[server],
        session=session,
        limits=limits(timeout_ms=TIMEOUT_MS),
        prompts=tuple(definition("name", way) for way in WAYS),
        resources=tuple(definition("uri", f"test://{name}/{way}") for way in WAYS),
    )


def params_of(server: str, session: str, way: str, method: str) -> dict[str, Any]:
    name = name_of(server, session)
    if method == "resources/read":
        return {"uri": f"test://{name}/{way}"}
    return {"name": f"{name}__{way}", **({"arguments": {}} if method == "tools/call" else {})}


def text_in(message: dict[str, Any]) -> str:
    if "error" in message:
        return str(message["error"]["message"])
    return " ".join(str(block.get("text")) for block in message["result"].get("content", ()))


@dataclass
class PageWorld:
    """A gateway with a `PageServer` of each revision."""

    gateway: Gateway
    servers: dict[str, PageServer]
    raw: dict[str, RawServer]

    async def call(
        self,
        kind: PageClient,
        server: str,
        way: str,
        method: str,
        session: str = "Shared",
        response: dict[str, Any] | None = None,
    ) -> Outcome:
        """Make a call, open the page if asked, and continue. Every message is validated against the schema."""
        self.servers[server].opened = False
        params = params_of(server, session, way, method)
        if kind.revision == MODERN:
            return await self._modern(kind, server, method, params, response or {"action": "accept"})
        return await self._legacy(kind, server, method, params, response or {"action": "accept"})

    async def _modern(
        self, kind: PageClient, server: str, method: str, params: dict[str, Any], response: dict[str, Any]
    ) -> Outcome:
        message = (await ask(self.gateway, modern_ask(kind, method, params))).message
        assert "notifications" not in str(message)
        if message.get("result", {}).get("resultType") != INPUT:
            self._check_end(kind.revision, method, message)
            return Outcome(TEXT, text=text_in(message), last=message)
        result = message["result"]
        assert_valid(MODERN, "InputRequiredResult", result)
        self.servers[server].opened = True
        more = {"inputResponses": dict.fromkeys(result["inputRequests"], response)}
        again = modern_ask(kind, method, {**params, **more, "requestState": result["requestState"]}, number=2)
        last = (await ask(self.gateway, again)).message
        self._check_end(kind.revision, method, last)
        questions = [request["params"] for request in result["inputRequests"].values()]
        return Outcome(INPUT, questions, [], text_in(last), last)

    async def _legacy(
        self, kind: PageClient, server: str, method: str, params: dict[str, Any], response: dict[str, Any]
    ) -> Outcome:
        session = await session_as(self.gateway, kind)
        outcome = Outcome(TEXT)
        for message in await self._exchange(kind, server, legacy_ask(kind, method, params, session), response):
            if "id" in message and "method" in message:
                assert_valid(kind.revision, "ServerRequest", message)
                outcome.form = ASKED
                outcome.params.append(message["params"])
            elif "method" in message:
                assert_valid(kind.revision, "ServerNotification", message)
                outcome.completed.append(message["params"])
            else:
                outcome.last = message
        if outcome.last.get("error", {}).get("code") == -32042:
            assert_valid(kind.revision, "URLElicitationRequiredError", outcome.last)
            outcome.form = REQUIRED
            outcome.params = outcome.last["error"]["data"]["elicitations"]
            self.servers[server].opened = True
            *_, outcome.last = await self._exchange(kind, server, legacy_ask(kind, method, params, session), response)
        self._check_end(kind.revision, method, outcome.last)
        outcome.text = text_in(outcome.last)
        return outcome

    async def _exchange(
        self, kind: PageClient, server: str, request: Ask, response: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Messages to a legacy client up to its answer. Each question gets `response` after the page is open."""
        messages: list[dict[str, Any]] = []
        async with await Wire.connect(self.gateway) as wire, asyncio.timeout(30):
            wire.send(request)
            head = await wire.reader.readuntil(b"\r\n\r\n")
            if b"event-stream" not in head:
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                return [json.loads(await wire.reader.readexactly(length))]
            assert kind.streams
            while not messages or "method" in messages[-1]:
                data = (await wire.reader.readuntil(b"\n\n")).partition(b"data: ")[2].strip()
                if not data:
                    continue
                messages.append(json.loads(data))
                if "method" in messages[-1] and "id" in messages[-1]:
                    self.servers[server].opened = True
                    answer = {"jsonrpc": "2.0", "id": messages[-1]["id"], "result": response}
                    posted = await ask(self.gateway, Ask(answer, request.headers))
                    assert posted.status == 202
        return messages

    @staticmethod
    def _check_end(revision: str, method: str, message: dict[str, Any]) -> None:
        if "error" in message:
            definition = "JSONRPCErrorResponse" if revision >= LEGACY else "JSONRPCError"
            assert_valid(revision, definition, message)
            assert message["error"]["code"] != -32042
        elif method == "tools/call":
            assert_valid(revision, "CallToolResult", message["result"])


def modern_ask(kind: PageClient, method: str, params: dict[str, Any], *, number: int = 1, client: str = "c") -> Ask:
    """A request of a modern client with its capabilities."""
    info = {"name": client, "version": "1"}
    offer: dict[str, Any] = {META + "clientCapabilities": kind.capabilities, META + "clientInfo": info}
    named = {"mcp_name": str(params.get("name") or params["uri"])}
    accepted = {} if kind.streams else {"accept": "application/json"}
    return modern(method, params, number=number, **offer).with_headers(**named, **accepted)


def legacy_ask(kind: PageClient, method: str, params: dict[str, Any], session: str) -> Ask:
    """A request of a legacy client in its session."""
    accept = BOTH if kind.streams else "application/json"
    return legacy(method, params, number=7, session=session).with_headers(
        mcp_protocol_version=kind.revision, accept=accept
    )


async def session_as(gateway: Gateway, kind: PageClient) -> str:
    """Open a legacy client's session."""
    info = {"name": "c", "version": "1"}
    hello = {"protocolVersion": kind.revision, "capabilities": kind.capabilities, "clientInfo": info}
    answer = await ask(gateway, legacy("initialize", hello).with_headers(mcp_protocol_version=None))
    assert answer.message["result"]["protocolVersion"] == kind.revision
    return answer.headers["mcp-session-id"]


@contextlib.asynccontextmanager
async def page_world(folder: Path, **settings: Any) -> AsyncIterator[PageWorld]:
    """A gateway with each server, both as `Shared` and as `PerClient`."""
    servers = {name: PageServer(revision) for name, revision in SERVERS.items()}
    async with contextlib.AsyncExitStack() as stack:
        raw = {name: await stack.enter_async_context(raw_server(each.handle)) for name, each in servers.items()}
        documents = [_document(raw[server].url, server, session) for server in SERVERS for session in SESSIONS]
        gateway = await stack.enter_async_context(running(folder, *documents, **settings))
        yield PageWorld(gateway, servers, raw)
