"""Waits for a call that its server makes a task of (SEP-2663): what the task ends with is the result of the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc, server_tasks, task_polling
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.capabilities import missing_capability_error
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import McpError, NotMcp, RpcError
from fairlead_mcp.methods import TASKS
from fairlead_mcp.session import McpSession

NOBODY: Final = "the tool asks for input in mid-call, and a registry has nobody to ask"


class _Question(msgspec.Struct):
    method: str = "a question without a method"


_decode_question = msgspec.json.Decoder(_Question).decode


async def call(session: McpSession, tool: str, arguments: bytes, left: Callable[[], float], beside: TaskSet) -> Raw:
    """The raw result of `tools/call`, within the seconds that are `left`. Tasks are declared where the server insists,
    for the sake of clients that can show one. A task that is given up is cancelled in `beside`. Raises McpError.
    """
    try:
        return await session.call_tool(tool, arguments, timeout=max(0.0, left()))
    except RpcError as error:
        if session.era is Era.LEGACY or not server_tasks.requires_tasks(error):
            raise
    answer = await session.call_tool(tool, arguments, timeout=max(0.0, left()), declares=TASKS)
    if not server_tasks.is_first_answer(answer):
        return answer
    return await task_polling.wait_for_result(
        answer, _Waiting(session, server_tasks.read(answer).task_id, left, beside)
    )


class _Waiting:
    """Client of one task, as of `task_polling.TaskClient`."""

    def __init__(self, session: McpSession, task_id: str, left: Callable[[], float], beside: TaskSet) -> None:
        self.seconds_left = left
        self._session = session
        self._id = Raw(jsonrpc.encode(task_id))
        self._beside = beside

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        return await self._request(method, params, max(0.0, self.seconds_left()))

    async def answer(self, requests: dict[str, Raw]) -> jsonrpc.RawObject:
        try:
            question = _decode_question(next(iter(requests.values())))
        except jsonrpc.UNREADABLE as error:
            raise NotMcp("the task asks for input in an unknown form") from error
        raise missing_capability_error(question.method, NOBODY)

    def tell(self, status: str) -> None:
        """Nobody is told: a call of a registry has no progress."""

    def cancel(self) -> None:
        self._beside.start(self._cancel(), "cancel a task")

    async def _cancel(self) -> None:
        with contextlib.suppress(McpError):  # it ends by its ttlMs
            await self._request(server_tasks.CANCEL, {}, task_polling.CANCEL_SECONDS)

    async def _request(self, method: str, params: jsonrpc.RawObject, timeout: float) -> Raw:
        return await self._session.request(method, jsonrpc.encode({**params, "taskId": self._id}), timeout=timeout)
