"""Waits for a server's task to end (SEP-2663): asks for it soon, then as often as its `pollIntervalMs` says."""

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
"""Seconds before the first poll; each further one waits twice as long, up to the server's `pollIntervalMs`."""
LONGEST_POLL: Final = 30.0
DEFAULT_POLL: Final = 1.0
CANCEL_SECONDS: Final = 5.0

_decode_error = msgspec.json.Decoder(ErrorObject).decode


class TaskClient(Protocol):
    """Client of one task that is waited for."""

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        """Make a request about the task; `params` lack its id. Raises McpError."""
        ...

    async def answer(self, questions: dict[str, Raw]) -> jsonrpc.RawObject:
        """The params of `tasks/update` that answer questions of the task, by their keys. Raises McpError."""
        ...

    def tell(self, status: str) -> None:
        """Take what the task says of itself, once with each poll."""
        ...

    def seconds_left(self) -> float:
        """Seconds until the wait is given up."""
        ...

    def cancel(self) -> None:
        """Have the task cancelled; what becomes of that nobody waits for."""
        ...


class _Ended(Exception):
    """The task is over: there is nothing to cancel."""

    def __init__(self, error: McpError) -> None:
        super().__init__(str(error))
        self.error = error


async def outcome(created: Raw, client: TaskClient) -> Raw:
    """The result of the task whose first answer this is. Raises McpError, for a task that failed its error. Cancels the
    task where it does not end by itself: the time is over, nobody can answer a question, or the caller is cancelled.
    """
    try:
        return await _end_of(created, client)
    except _Ended as ended:
        raise ended.error from None
    except (asyncio.CancelledError, McpError):
        client.cancel()
        raise


async def _end_of(created: Raw, client: TaskClient) -> Raw:
    state, wait, answered = read(created), FIRST_POLL, set[str]()
    while True:
        if state.status == "completed" and state.result is not UNSET:
            return state.result
        if state.status == "failed":
            raise _Ended(_failure(state.error))
        if state.status not in ("working", "input_required"):
            raise _Ended(NotMcp(f"the task of the tool ended without a result ({state.status or 'no status'})"))
        client.tell(state.status_message or state.status)
        open_questions = {} if state.questions is UNSET else state.questions
        question = {key: question for key, question in open_questions.items() if key not in answered}
        if question:
            answered.update(question)
            if len(answered) > MAX_QUESTIONS:
                raise NotMcp(f"the task asks more than {MAX_QUESTIONS} questions")
            await client.ask(UPDATE, await client.answer(question))
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
            raise  # and so it would be the next time
        except McpError:
            wait = min(max(poll, FIRST_POLL), LONGEST_POLL)  # a poll too many, or a lost connection


def _failure(error: Raw | object) -> McpError:
    try:
        failure = _decode_error(error if isinstance(error, Raw) else b"")
    except jsonrpc.UNREADABLE:
        return NotMcp("the task of the tool failed without an error")
    data = failure.data
    return RpcError(failure.code, failure.message, bytes(data) if isinstance(data, Raw) else None)
