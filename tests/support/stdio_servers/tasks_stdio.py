"""A modern server over stdio whose calls become tasks (SEP-2663), which are finished when a client first asks for them.

A call of `job` becomes a task if the client supports tasks; a call of `must` always becomes one.
"""

import json
import sys
from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
DONE = {"content": [{"type": "text", "text": "done"}], "isError": False}


class Missing(Exception):
    """The client does not declare the tasks extension."""


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    task = {"taskId": "t1", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 1, **TIMES}
    if method == "server/discover":
        capabilities: dict[str, Any] = {"tools": {}, "extensions": {TASKS: {}}}
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("job", "must")]
        return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/call":
        declared = params["_meta"].get("io.modelcontextprotocol/clientCapabilities", {}).get("extensions", {})
        if TASKS in declared:
            return {"resultType": "task", **task}
        if params["name"] == "must":
            raise Missing
        return DONE
    if method == "tasks/get" and params["taskId"] == "t1":
        return {**task, "status": "completed", "result": DONE}
    return {}


def response(line: str | bytes) -> dict[str, Any] | None:
    """Response to a message; None for no response."""
    request = json.loads(line)
    if "id" not in request:
        return None
    try:
        ending = {"result": {"resultType": "complete", **answer(request["method"], request.get("params", {}))}}
    except Missing:
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        ending = {"error": {"code": -32021, "message": "must needs tasks", "data": needed}}
    return {"jsonrpc": "2.0", "id": request["id"], **ending}


if __name__ == "__main__":
    for received in sys.stdin:
        reply = response(received)
        if reply is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
