"""Decoding of servers' tasks (`io.modelcontextprotocol/tasks`, SEP-2663). No I/O."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import capabilities, jsonrpc, methods
from fairlead_mcp.errors import NotMcp, RpcError

GET: Final = "tasks/get"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
RESULT_TYPE: Final = "task"
"""`resultType` of the result that creates a task."""
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
MAX_QUESTIONS: Final = 64
"""Limit for the input requests of one task."""
_DRAFT_MISSING: Final = -32003
"""Error code in drafts of SEP-2663, which some servers still send."""


class Task(msgspec.Struct):
    """Task as its server reports it."""

    task_id: str = msgspec.field(name="taskId", default="")
    status: str = ""
    ttl_ms: int | None = msgspec.field(name="ttlMs", default=None)
    poll_ms: int | None = msgspec.field(name="pollIntervalMs", default=None)
    status_message: str | None = msgspec.field(name="statusMessage", default=None)
    questions: dict[str, Raw] | UnsetType = msgspec.field(name="inputRequests", default=UNSET)
    """Input requests of the task by key."""
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _ResultTypeMember(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType", default="")


_decode = msgspec.json.Decoder(Task).decode
_decode_answer = msgspec.json.Decoder(_ResultTypeMember).decode


def read(result: bytes | Raw) -> Task:
    """Decode the task in a result. Raises NotMcp for a malformed one."""
    try:
        return _decode(result)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent a malformed task ({error})") from error


def creates_task(result: bytes | Raw) -> bool:
    """Whether a result of `tools/call` says that the server created a task."""
    try:
        return b'"task"' in bytes(result) and _decode_answer(result).result_type == RESULT_TYPE
    except jsonrpc.UNREADABLE:
        return False


def requires_tasks(error: Exception) -> bool:
    """Whether a server refused a call because the request did not declare the extension tasks."""
    return (
        isinstance(error, RpcError)
        and error.code in (jsonrpc.MISSING_CLIENT_CAPABILITY, _DRAFT_MISSING)
        and capabilities.requires_extension(error.data, methods.TASKS)
    )
