"""Form of servers' tasks (`io.modelcontextprotocol/tasks`, SEP-2663). Pure module."""

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
"""`resultType` of the first answer of a task."""
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
MAX_QUESTIONS: Final = 64
"""Questions that a task may have open, or ask one after the other of a client that waits for it."""
_DRAFT_MISSING: Final = -32003
"""Code of drafts of SEP-2663, and of servers that still send it."""


class Task(msgspec.Struct):
    """Members of a task that are read."""

    task_id: str = msgspec.field(name="taskId", default="")
    status: str = ""
    ttl_ms: int | None = msgspec.field(name="ttlMs", default=None)
    poll_ms: int | None = msgspec.field(name="pollIntervalMs", default=None)
    status_message: str | None = msgspec.field(name="statusMessage", default=None)
    questions: dict[str, Raw] | UnsetType = msgspec.field(name="inputRequests", default=UNSET)
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Typed(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType", default="")


_decode = msgspec.json.Decoder(Task).decode
_decode_answer = msgspec.json.Decoder(_Typed).decode


def read(result: bytes | Raw) -> Task:
    """The task in a result. Raises NotMcp for another shape."""
    try:
        return _decode(result)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent a task of an unexpected shape ({error})") from error


def is_first_answer(result: bytes | Raw) -> bool:
    """Whether a result of `tools/call` is the first answer of a task."""
    try:
        return b'"task"' in bytes(result) and _decode_answer(result).result_type == RESULT_TYPE
    except jsonrpc.UNREADABLE:
        return False


def required_by(error: Exception) -> bool:
    """Whether a server refuses a call because its client does not declare tasks."""
    return (
        isinstance(error, RpcError)
        and error.code in (jsonrpc.MISSING_CLIENT_CAPABILITY, _DRAFT_MISSING)
        and capabilities.requires_extension(error.data, methods.TASKS)
    )
