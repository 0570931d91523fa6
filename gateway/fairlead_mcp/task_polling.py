"""Polls a server's task until it ends (SEP-2663): soon at first, then at the interval of its `pollIntervalMs`."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import McpError, NotMcp, RpcError, Timeout, TooLarge
from fairlead_mcp.messages import ErrorObject
from fairlead_mcp.server_tasks import GET, MAX_QUESTIONS, UPDATE, read

FIRST_POLL: Final = 0.1
"""Seconds before the first poll; the delay doubles up to the server's `pollIntervalMs`."""
LONGEST_POLL: Final = 30.0
"""Longest interval between polls in seconds, even if `pollIntervalMs` is longer."""
DEFAULT_POLL: Final = 1.0
"""Interval between polls in seconds if the server sends no `pollIntervalMs`."""
CANCEL_SECONDS: Final = 5.0

_decode_error = msgspec.json.Decoder(ErrorObject).decode


class TaskClient(Protocol):
    """Client that polls one task."""

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        """Send a request about the task; adds the task's ID to `params`. Raises McpError."""
        ...

    async def answer(self, questions: dict[str, Raw]) -> jsonrpc.RawObject:
        """Return the params of `tasks/update` that answer the task's input requests, `questions` by key. Raises
        McpError.
        """
        ...

    def report_status(self, status: str) -> None:
        """Report the task's status to the caller, once per poll."""
        ...

    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        ...

    def cancel(self) -> None:
        """Send `tasks/cancel` in the background."""
        ...


class _Ended(Exception):
    """The task has ended, so that it needs no cancellation."""

    def __init__(self, error: McpError) -> None:
        super().__init__(str(error))
        self.error = error


async def wait_for_result(first_result: Raw, client: TaskClient) -> Raw:
    """Wait for the task that the result `first_result` announces and return its result. Raises McpError, such as the
    error of a failed task.

    The task is canceled at the deadline, if an input request cannot be answered, and if the caller is canceled.
    """
    try:
        return await _poll_until_end(first_result, client)
    except _Ended as ended:
        raise ended.error from None
    except (asyncio.CancelledError, McpError):
        client.cancel()
        raise


async def _poll_until_end(first_result: Raw, client: TaskClient) -> Raw:
    state, wait, answered_keys = read(first_result), FIRST_POLL, set[str]()
    while True:
        if state.status == "completed" and state.result is not UNSET:
            return state.result
        if state.status == "failed":
            raise _Ended(_failure(state.error))
        if state.status not in ("working", "input_required"):
            raise _Ended(NotMcp(f"the task of the tool ended without a result ({state.status or 'no status'})"))
        client.report_status(state.status_message or state.status)
        open_questions = {} if state.questions is UNSET else state.questions
        new_questions = {
            key: new_questions for key, new_questions in open_questions.items() if key not in answered_keys
        }
        if new_questions:
            answered_keys.update(new_questions)
            if len(answered_keys) > MAX_QUESTIONS:
                raise NotMcp(f"the task of the tool sent more than {MAX_QUESTIONS} input requests")
            await client.ask(UPDATE, await client.answer(new_questions))
            wait = FIRST_POLL
        if client.seconds_left() <= wait:
            raise Timeout("the task of the tool did not end in time", sent=True)
        await asyncio.sleep(wait)
        poll = DEFAULT_POLL if state.poll_ms is None else state.poll_ms / 1000
        wait = min(2 * wait, max(poll, FIRST_POLL), LONGEST_POLL)
        try:
            state = read(await client.ask(GET, {}))
        except RpcError as error:
            raise _Ended(error) from error
        except TooLarge:
            raise  # the next answer would be too large again
        except McpError:
            wait = min(max(poll, FIRST_POLL), LONGEST_POLL)  # the poll was refused or its connection lost: poll again


def _failure(error: Raw | object) -> McpError:
    try:
        failure = _decode_error(error if isinstance(error, Raw) else b"")
    except jsonrpc.UNREADABLE:
        return NotMcp("the task of the tool failed without an error")
    data = failure.data
    return RpcError(failure.code, failure.message, bytes(data) if isinstance(data, Raw) else None)
