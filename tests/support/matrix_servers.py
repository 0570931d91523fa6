"""MCP servers for the test of every feature with every kind of client: one tool for each feature, distinguished by
path.

Each kind of client has catalogs of its own for each kind of server, so that no cell of the table affects another by a
cached result, an open breaker or a used-up limit.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, Final

from msgspec import Raw

from askers import PICKED, QUESTION, text_result
from fairlead_api.documents.catalog import Catalog, DeclaredLatency, Definition, ToolEntry
from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, Rule, Rules, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_mcp.methods import SKILLS, TASKS, UI
from gatewayworld import LEGACY, META, MODERN, catalog, entry, limits
from rawserver import Reply, Request, encode
from taskserver import TIMES
from toolservers import INFO, tool

SERVERS: Final = ("modern", "legacy", "per-client")
"""Kinds of server: 2026-07-28, 2025-11-25 with one session for all, and the same with one for each client."""
BESIDE: Final = ("-twice", "-busy", "-down", "-gone")
"""Suffixes of the names of further catalogs in each cell."""
OVERDUE_MS: Final = 600
"""Time limit of a call, which may be sent a second time after 30 ms."""
BOUND: Final = 4096
"""Maximum size of a result in bytes."""
PAGE: Final = "ui://page/app.html"
"""Resource that a tool names but no list contains."""
PAINTED: Final = "red \x1b[31m"
_STRICT: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_EVEN: Final = {"type": "object", "properties": {"n": {"multipleOf": 2}}}
WHY: Final = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"
ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "fails": {"content": [{"type": "text", "text": "no such city"}], "isError": True},
    "paints": text_result(PAINTED),
    "grows": text_result("x" * 2 * BOUND),
    "strays": {**text_result("{}"), "structuredContent": {"n": "one"}},
}
"""Results of tools that always give the same answer; other tools return their arguments."""


class EveryServer:
    """Answers for all catalogs. `Request.path` names the catalog; the tool determines the answer."""

    def __init__(self) -> None:
        self.times: Counter[tuple[str, str]] = Counter()
        """Number of calls by path and name of the tool."""
        self.cancelled: set[Any] = set()
        """Request ids in `notifications/cancelled`."""
        self._declared: dict[str, Any] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._tasks: dict[str, dict[str, Any]] = {}

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.verb != "POST":
            return reply.send(200 if request.verb == "DELETE" else 405)
        if _is_modern(request) != ("-modern" in request.path):
            return reply.error(request, 400, -32022, "Unsupported", {"supported": [MODERN]})
        if request.method == "initialize":
            session = f"s{len(self._declared)}"
            self._declared[session] = request.params["capabilities"]
            hello = {"protocolVersion": LEGACY, "capabilities": {"logging": {}}, "serverInfo": INFO}
            return reply.result(request, hello, mcp_session_id=session)
        if request.method == "notifications/cancelled":
            self.cancelled.add(request.params["requestId"])
        if request.method == "" and (future := self._answers.pop(str(request.message.get("id")), None)) is not None:
            future.set_result(request.message.get("result", request.message.get("error")))
        if "id" not in request.message or request.method == "":
            return reply.send(202)
        if request.method.startswith("tasks/"):
            return self._answer_task_request(request, reply)
        if request.method not in ("tools/call", "prompts/get", "resources/read", "skills/get", "completion/complete"):
            return reply.result(request, {"resultType": "complete"})
        if request.method != "tools/call":
            return self._answer_named(request, reply)
        name = request.params["name"]
        self.times[request.path, name] += 1
        behaviour = getattr(self, f"call_{name}", None)
        if behaviour is not None:
            await behaviour(request, reply)
            return None
        echoed = text_result(json.dumps(request.params.get("arguments", {}), sort_keys=True))
        return reply.result(request, {"resultType": "complete", **ANSWERS.get(name, echoed)})

    # Tools with side effects

    def _first(self, request: Request) -> bool:
        return self.times[request.path, request.params["name"]] == 1

    async def call_refuses(self, request: Request, reply: Reply) -> None:
        reply.error(request, 200, -32000, "not today")

    async def call_disagrees(self, request: Request, reply: Reply) -> None:
        reply.error(request, 400 if _is_modern(request) else 200, -32602, "n is odd")

    async def call_waits(self, request: Request, reply: Reply) -> None:
        await asyncio.Event().wait()

    call_overruns = call_waits

    async def call_drops(self, request: Request, reply: Reply) -> None:
        if self._first(request):
            return reply.close()
        return reply.result(request, {"resultType": "complete", **text_result("again")})

    call_loses = call_drops

    async def call_lags(self, request: Request, reply: Reply) -> None:
        if self._first(request):
            await asyncio.Event().wait()
        reply.result(request, {"resultType": "complete", **text_result("second")})

    async def call_reports(self, request: Request, reply: Reply) -> None:
        reply.open_stream()
        token = _meta(request).get("progressToken")
        if token is not None:
            reply.event(_notification("progress", {"progressToken": token, "progress": 1}))
        if not _is_modern(request) or META + "logLevel" in _meta(request):
            reply.event(_notification("message", {"level": "warning", "data": "on it"}))
        reply.event(
            {"jsonrpc": "2.0", "id": request.message["id"], "result": {"resultType": "complete", **text_result("done")}}
        )
        reply.end_stream()

    async def call_asks(self, request: Request, reply: Reply) -> None:
        if _is_modern(request):
            return self._ask_by_result(request, reply)
        if "elicitation" not in self._declared.get(request.headers.get("mcp-session-id", ""), {}):
            return reply.result(request, {**text_result("nobody to ask"), "isError": True})
        ident = f"{request.headers['mcp-session-id']} {request.message['id']}"
        answer = self._answers[ident] = asyncio.get_running_loop().create_future()
        reply.open_stream()
        reply.event({"jsonrpc": "2.0", "id": ident, "method": "elicitation/create", "params": QUESTION})
        await reply.flush()
        told = await answer
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": text_result(_picked_text(told))})
        return reply.end_stream()

    call_gated = call_asks

    def _ask_by_result(self, request: Request, reply: Reply) -> None:
        if "elicitation" not in _meta(request).get(META + "clientCapabilities", {}):
            needed: dict[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
            return reply.error(request, 400, -32021, "nobody to ask", needed)
        if (given := request.params.get("inputResponses")) is not None:
            return reply.result(request, {"resultType": "complete", **text_result(_picked_text(given["q"]))})
        questions = {"q": {"method": "elicitation/create", "params": QUESTION}}
        return reply.result(
            request, {"resultType": "input_required", "inputRequests": questions, "requestState": "state"}
        )

    # Tasks (SEP-2663)

    async def call_works(self, request: Request, reply: Reply) -> None:
        """Begin a task if the client supports tasks."""
        if not _has_tasks(request):
            return reply.result(request, {"resultType": "complete", **text_result("done")})
        return self._begin_task(request, reply, text_result("done"))

    async def call_toils(self, request: Request, reply: Reply) -> None:
        """Begin a task, whatever the client supports."""
        self._begin_task(request, reply, text_result("done"))

    async def call_inquires(self, request: Request, reply: Reply) -> None:
        """Begin a task that asks its client, whatever the client supports."""
        self._begin_task(request, reply, None)

    def _begin_task(self, request: Request, reply: Reply, result: dict[str, Any] | None) -> None:
        if not _has_tasks(request):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            return reply.error(request, 400, -32021, "it is a task", needed)
        ident = f"t{len(self._tasks)}"
        created = {"taskId": ident, "status": "working", "ttlMs": 60_000, "pollIntervalMs": 1, **TIMES}
        ends = {"status": "completed", "result": result}
        if result is None:
            question = {"method": "elicitation/create", "params": QUESTION}
            ends = {"status": "input_required", "inputRequests": {f"{ident}:q": question}}
        self._tasks[ident] = {**created, **ends}
        return reply.result(request, {"resultType": "task", **created})

    def _answer_task_request(self, request: Request, reply: Reply) -> None:
        ident = request.params["taskId"]
        task = self._tasks[ident]
        if request.method == "tasks/get":
            return reply.result(request, {"resultType": "complete", **task})
        if request.method == "tasks/update":
            del task["inputRequests"]
            task |= {
                "status": "completed",
                "result": text_result(_picked_text(request.params["inputResponses"][f"{ident}:q"])),
            }
        return reply.result(request, {"resultType": "complete"})

    def _answer_named(self, request: Request, reply: Reply) -> None:
        """Answer a request for a prompt, resource or skill with its name or URI; the one named `broken` fails."""
        ref = request.params.get("ref", request.params)
        named = ref.get("name", ref.get("uri"))
        if named == "broken":
            return reply.error(request, 200, -32000, "not today")
        return reply.result(request, {"resultType": "complete", "saw": named})


def _meta(request: Request) -> dict[str, Any]:
    return dict(request.params.get("_meta", {}))


def _is_modern(request: Request) -> bool:
    return META + "protocolVersion" in _meta(request)


def _has_tasks(request: Request) -> bool:
    return TASKS in _meta(request).get(META + "clientCapabilities", {}).get("extensions", {})


def _notification(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}


def _picked_text(told: Any) -> str:
    return "picked" if told == PICKED else json.dumps(told)


def _tools() -> list[ToolEntry]:
    def entry_with_latency(name: str, **values: Any) -> ToolEntry:
        return entry(name, latency=DeclaredLatency(**values))

    again = {"idempotent": True}
    plain = ["answers", "refuses", "disagrees", "waits", "reports", "asks", "hidden", "even", "late"]
    plain += ["works", "toils", "inquires"]
    return [
        *(entry(name) for name in (*plain, *(name for name in ANSWERS if name != "strays"))),
        entry(tool("renders", _meta={"ui": {"resourceUri": PAGE}})),
        entry(tool("strays", outputSchema=_STRICT)),
        entry(tool("strict", inputSchema=_STRICT)),
        entry_with_latency("overruns", max_duration_ms=500),
        entry_with_latency("drops", **again),
        entry("loses"),
        entry_with_latency("keeps", cacheable_seconds=60),
        entry("counted", calls_per_minute=1),
        entry("gated", requires=("elicitation",)),
    ]


def _catalog(name: str, kind: str, url: str, tools: list[ToolEntry], **more: Any) -> Catalog:
    modern = kind == "modern"
    return catalog(
        name,
        url,
        tools,
        version=MODERN if modern else LEGACY,
        session="PerClient" if kind == "per-client" else "Shared",
        capabilities=Raw(encode({"extensions": {UI: {}, SKILLS: {}, **({TASKS: {}} if modern else {})}})),
        **more,
    )


def _definition(member: str, name: str) -> Definition:
    return Definition(name=name, definition=Raw(json.dumps({"name": name, member: name}).encode()), hash="")


def catalogs(name: str, kind: str, url: str, dead: str) -> list[Catalog]:
    """Catalogs of one kind of client: one with all tools, one whose slow calls are sent twice, one with a small limit
    of calls, one that is down, and one that is known to be down.
    """
    beside: dict[str, Any] = {
        "prompts": (_definition("name", "greet"), _definition("name", "broken")),
        "resources": (_definition("uri", f"test://{name}"),),
    }
    again = DeclaredLatency(idempotent=True, max_duration_ms=OVERDUE_MS)
    answering = [entry("answers")]
    twice = [entry("lags", latency=again), entry("explained")]
    return [
        _catalog(name, kind, f"{url}/{name}", _tools(), limits=limits(max_result_bytes=BOUND), **beside),
        _catalog(f"{name}-twice", kind, f"{url}/{name}-twice", twice, limits=limits(hedge_after_ms=30, retries=0)),
        _catalog(f"{name}-busy", kind, f"{url}/{name}-busy", answering, limits=limits(calls_per_second=0.01)),
        _catalog(f"{name}-down", kind, dead, answering, limits=limits(retries=0), prompts=beside["prompts"]),
        _catalog(f"{name}-gone", kind, dead, answering, online=False),
    ]


def governing_documents(names: list[str]) -> list[Document]:
    """Policies and tiers for all catalogs, and the decision about the tool `late`."""
    free = ("explained", "lags", *(listed.name for listed in _tools() if listed.name != "even"))
    twice = tuple(f"{name}-twice" for name in names)
    every = tuple(name + more for name in names for more in ("", *BESIDE))
    policies = (
        Policy(
            namespace="default",
            name="all",
            every=True,
            control_characters="Escape",
            denied="Explain",
            rules=(Rule(action="Allow", tools=("even",), arguments=_EVEN), Rule(action="Allow", tools=free)),
        ),
        Policy(namespace="default", name="hide", servers=tuple(names), rules=(Rule(action="Deny", tools=("hidden",)),)),
        Policy(
            namespace="default",
            name="tell",
            servers=twice,
            denied="Explain",
            rules=(Rule(action="Deny", tools=("explained",)),),
        ),
    )
    tiers = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
    late = ToolState(name="late", environment="cluster", tiers=("deep",), hidden={"fast": WHY})
    servers = tuple(ServerState(namespace="default", name=name, tools=(late,)) for name in names)
    return [
        Rules(tiers=tiers, policies=policies, judged={"default": every}),
        State(servers=servers, decided_at="2026-01-01T00:00Z"),
    ]
