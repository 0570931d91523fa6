"""A modern server whose tools become tasks (SEP-2663), in this event loop. The test decides how tasks end.

Its ids are easy to guess, and it does not distinguish callers, like servers that the gateway calls with one credential:
only the gateway can know whose a task is. The key of a question contains the task's id.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fairlead_mcp.methods import TASKS
from gatewayworld import META
from rawserver import Reply, Request
from toolservers import answer_handshake

DECLARING: Final[dict[str, Any]] = {META + "clientCapabilities": {"extensions": {TASKS: {}}}}
"""`_meta` of a client with tasks."""
CAPABILITIES: Final = b'{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}'
TIMES: Final = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
ASKED: Final = {"method": "elicitation/create", "params": {"mode": "form", "message": "Which?", "requestedSchema": {}}}


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _notification(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}


class TaskServer:
    """A call of `job` becomes a task if the client supports tasks. A call of `must` always does, and is refused for
    other clients; a call of `rogue` becomes a task for every client, a call of `plain` for none.
    """

    def __init__(
        self, ttl_ms: int | None = 60_000, poll_ms: int = 1, *, notifies: bool = False, events: bool = False
    ) -> None:
        self.events = events
        """Whether it answers in event streams."""
        self.notifies = notifies
        """Whether it supports `taskIds` of `subscriptions/listen`, which most servers do not."""
        self.streams: dict[str, Reply] = {}
        """Streams for notifications about tasks, by id of the task."""
        self.tasks: dict[str, dict[str, Any]] = {}
        self.seen: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        """Method, params and headers of requests about tasks."""
        self.declared: list[bool] = []
        """Whether the client declared tasks, for each tool call."""
        self._new = {"ttlMs": ttl_ms, "pollIntervalMs": poll_ms, **TIMES}

    def ends(self, ident: str, **members: Any) -> None:
        self.tasks[ident] = {"taskId": ident, **self._new, "status": "completed", **members}

    async def handle(self, request: Request, reply: Reply) -> None:
        if answer_handshake(request, reply):
            return None
        capabilities = request.params.get("_meta", {}).get(META + "clientCapabilities", {})
        declares = TASKS in capabilities.get("extensions", {})
        if request.method == "tools/call":
            return self._call(request, reply, declares=declares)
        if request.method == "subscriptions/listen":
            return await self._listen(request, reply)
        ident = request.params.get("taskId")
        self.seen.append((request.method, request.params, request.headers))
        if request.headers.get("mcp-name") != ident:
            return reply.error(request, 400, -32020, "Mcp-Name")
        if ident not in self.tasks:
            return reply.error(request, 400, -32602, f"no task {ident}")
        if request.method == "tasks/get":
            said_at = {"lastUpdatedAt": f"2026-01-01T00:00:00.{len(self.seen):06}Z"}  # a new time in each answer
            return self._answer(request, reply, {"resultType": "complete", **self.tasks[ident], **said_at})
        if request.method == "tasks/cancel":
            self.ends(ident, status="cancelled")
        else:
            self.ends(ident, result=text_result(str(request.params["inputResponses"])))
        return reply.result(request, {"resultType": "complete"})

    async def _listen(self, request: Request, reply: Reply) -> None:
        if not self.notifies:
            return reply.error(request, 404, -32601, "Method not found")
        wanted = request.params["notifications"]
        reply.open_stream()
        reply.event(_notification("subscriptions/acknowledged", {"notifications": wanted}))
        await reply.flush()
        self.streams.update(dict.fromkeys(wanted["taskIds"], reply))
        await asyncio.Event().wait()
        return None

    async def notify(self, ident: str) -> None:
        """Send a notification about a task to its stream."""
        self.streams[ident].event(_notification("tasks", self.tasks[ident]))
        await self.streams[ident].flush()

    def _call(self, request: Request, reply: Reply, *, declares: bool) -> None:
        self.declared.append(declares)
        name = request.params["name"]
        if name == "must" and not declares:
            required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            return reply.error(request, 400, -32021, "must needs tasks", required)
        if name == "plain" or (name == "job" and not declares):
            return reply.result(request, {"resultType": "complete", **text_result("at once")})
        ident = f"t{len(self.tasks) + 1}"
        self.tasks[ident] = {"taskId": ident, "status": "working", **self._new}
        ends = request.params["arguments"].get("ends")
        created = {"resultType": "task", **self.tasks[ident]}
        if ends == "asks":
            self.ends(ident, status="input_required", inputRequests={f"{ident}:1": ASKED})
        elif ends is not None:
            self.ends(ident, **ends)
        return self._answer(request, reply, created)

    def _answer(self, request: Request, reply: Reply, result: dict[str, Any]) -> None:
        if not self.events:
            return reply.result(request, result)
        reply.open_stream()
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        return reply.end_stream()
