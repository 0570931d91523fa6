"""A server of the official SDK over stdio whose tasks, and states of questions, are known only to its process.

A call of `job` becomes a task if the client supports tasks; a call of `must` always becomes one. Both tasks end when
the file `until` exists. `ask` asks by its result, with a state that the SDK seals with a key of the process. `pid`
returns the id of the process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import RequestParams
from pydantic import Field

TASKS: Final = "io.modelcontextprotocol/tasks"
TIMES: Final = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
MODERN: Final = frozenset({"2026-07-28"})


class _Task(RequestParams):
    task_id: str = Field(alias="taskId")


class Tasks(Extension):
    """SEP-2663 as far as this server needs it: the SDK supports extensions in general, but not this one."""

    identifier = TASKS

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, Any]] = {}
        self._until: dict[str, str] = {}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", _Task, self._get, MODERN),
            MethodBinding("tasks/cancel", _Task, self._cancel, MODERN),
        ]

    async def intercept_tool_call(self, params: Any, ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
        capabilities = ctx.session.client_capabilities
        declared = TASKS in (getattr(capabilities, "extensions", None) or {})
        if params.name == "must" and not declared:
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(code=-32021, message="must needs tasks", data=needed)
        if params.name not in ("job", "must") or not declared:
            return await call_next(ctx)
        given = params.arguments or {}
        ident = f"t{len(self._tasks) + 1}"  # easy to guess; each process has such a task
        task = {"taskId": ident, "status": "working", "ttlMs": given.get("ttlMs"), "pollIntervalMs": 1, **TIMES}
        self._tasks[ident] = task
        self._until[ident] = given.get("until", "")
        return {"resultType": "task", **task}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: _Task) -> dict[str, Any]:
        task = self._task_of(params)
        if task["status"] == "working" and self._may_end(params.task_id):
            content = [{"type": "text", "text": str(os.getpid())}]
            task |= {"status": "completed", "result": {"content": content, "isError": False}}
        return {"resultType": "complete", **task}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: _Task) -> dict[str, Any]:
        self._task_of(params)["status"] = "cancelled"
        return {"resultType": "complete"}

    def _may_end(self, task_id: str) -> bool:
        return Path(self._until[task_id] or "-").exists()

    def _task_of(self, params: _Task) -> dict[str, Any]:
        if params.task_id not in self._tasks:
            raise MCPError(code=-32602, message=f"no task {params.task_id}")
        return self._tasks[params.task_id]


def main() -> None:
    server = MCPServer("sdk-tasks", extensions=[Tasks()])

    def job() -> str:
        return "at once"

    for name in ("job", "must"):
        server.tool(name=name, description="Goes on by itself.", structured_output=False)(job)

    @server.tool(description="Says which process it is.", structured_output=False)
    def pid() -> str:
        return str(os.getpid())

    @server.tool(description="Asks first.", structured_output=False)
    async def ask(ctx: Context) -> Any:
        given = (ctx.input_responses or {}).get("q")
        if given is not None:
            return f"{ctx.request_state} {os.getpid()}"
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        form = types.ElicitRequestFormParams(message="Which?", requested_schema=schema)
        question = types.ElicitRequest(method="elicitation/create", params=form)
        return types.InputRequiredResult(input_requests={"q": question}, request_state="asked before")

    server.run()


if __name__ == "__main__":
    main()
