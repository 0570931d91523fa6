"""Calls a tool, and waits for the result if the server creates a task for the call (SEP-2663)."""

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

NO_INPUT_MESSAGE: Final = "the tool requests input during the call, which a tool registry cannot provide"


class _InputRequest(msgspec.Struct):
    method: str = "a request without a method"


_decode_input_request = msgspec.json.Decoder(_InputRequest).decode


async def call(
    session: McpSession, tool: str, arguments: bytes, seconds_left: Callable[[], float], background: TaskSet
) -> Raw:
    """Call a tool and return the raw result, within `seconds_left()`. The call declares support of tasks only if the
    server requires that, since tasks are meant for clients that can show them to a user. If the call ends before its
    task, the task is cancelled in `background`. Raises McpError.
    """
    try:
        return await session.call_tool(tool, arguments, timeout=max(0.0, seconds_left()))
    except RpcError as error:
        if session.era is Era.LEGACY or not server_tasks.requires_tasks(error):
            raise
    answer = await session.call_tool(tool, arguments, timeout=max(0.0, seconds_left()), extension=TASKS)
    if not server_tasks.creates_task(answer):
        return answer
    client = _SessionTaskClient(session, server_tasks.read(answer).task_id, seconds_left, background)
    return await task_polling.wait_for_result(answer, client)


class _SessionTaskClient:
    """Client of one task (`task_polling.TaskClient`): sends requests about the task over the session of its call."""

    def __init__(
        self, session: McpSession, task_id: str, seconds_left: Callable[[], float], background: TaskSet
    ) -> None:
        self.seconds_left = seconds_left
        self._session = session
        self._id = Raw(jsonrpc.encode(task_id))
        self._background = background

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        return await self._request(method, params, max(0.0, self.seconds_left()))

    async def answer(self, requests: dict[str, Raw]) -> jsonrpc.RawObject:
        try:
            request = _decode_input_request(next(iter(requests.values())))
        except jsonrpc.UNREADABLE as error:
            raise NotMcp("the task requests input in an invalid format") from error
        raise missing_capability_error(request.method, NO_INPUT_MESSAGE)

    def report_status(self, status: str) -> None:
        """Ignore the status, as calls of a registry do not report progress."""

    def cancel(self) -> None:
        self._background.start(self._cancel(), "cancel a task")

    async def _cancel(self) -> None:
        with contextlib.suppress(McpError):  # the task expires after its ttlMs anyway
            await self._request(server_tasks.CANCEL, {}, task_polling.CANCEL_SECONDS)

    async def _request(self, method: str, params: jsonrpc.RawObject, timeout: float) -> Raw:
        return await self._session.request(method, jsonrpc.encode({**params, "taskId": self._id}), timeout=timeout)
