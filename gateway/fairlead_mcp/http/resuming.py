"""Resumption of event streams that end before the answer.

Legacy servers may close a stream early, or its connection may break. If the events had ids, a GET with `Last-Event-ID`
continues the stream (MCP 2025-11-25, Transports, "Resumability and Redelivery"; SEP-1699) without executing the request
again. From 2026-07-28 on there is no resumption: a broken stream is a lost request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fairlead_mcp.errors import ConnectionLost, McpError, Timeout
from fairlead_mcp.http.answer import Answer, Carrier, Cursor
from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.http.pool import AwaitedCall, Pool

DEFAULT_RETRY: Final = 1.0
"""Seconds before an attempt to resume, if the stream did not say."""
MIN_RETRY: Final = 0.02
MAX_RETRY: Final = 30.0
"""Limits for the seconds between two attempts to resume."""
MAX_FUTILE_ATTEMPTS: Final = 5
"""Limit for consecutive attempts without a new event; the delay doubles after each."""


class AnswerReader(NamedTuple):
    """Parameters for reading one answer; `Call` documents them."""

    deadline: float
    """In the pool's clock."""
    max_bytes: int
    on_event: Callable[[bytes], bool] | None = None
    on_open: Callable[[Carrier], None] | None = None
    counter: Counter | None = None


class BrokenStream(NamedTuple):
    """Event stream that ended before the answer."""

    get_head: bytes
    """Head of a GET in the same session, with Accept and without the empty line at its end."""
    cursor: Cursor
    ending: Answer | McpError
    """How the stream ended."""
    authorize: Callable[[bool], Awaitable[bytes]] | None = None
    """Returns the `Authorization` header line of a GET if `get_head` has none; otherwise an empty line. Its argument
    says whether the server answered the previous GET with 401; that GET is then sent once more, with the new line.
    """


async def exchange_resumably(pool: Pool, data: bytes, get_head: bytes, reader: AnswerReader) -> Answer:
    """Send a request and return the answer, like `Pool.exchange`, but resume a stream that ended early.

    `get_head` is the head of a GET in the same session, with Accept and without the empty line at its end.
    """
    call = AwaitedCall(data, *reader)
    try:
        answer = await pool.run(call)
    except ConnectionLost as error:
        if call.cursor is None:
            raise
        return await resume_stream(pool, BrokenStream(get_head, call.cursor, error), reader)
    if call.cursor is None or answer.body:
        return answer
    return await resume_stream(pool, BrokenStream(get_head, call.cursor, answer), reader)


async def resume_stream(
    pool: Pool,
    stream: BrokenStream,
    reader: AnswerReader,
    on_pause: Callable[[], None] | None = None,
) -> Answer:
    """Resume a stream after its cursor and return its answer; if the server does not resume it, return or raise
    `stream.before`.

    `on_pause` is called before each attempt. Raises the errors of `stream.authorize`, too.
    """
    get_head, cursor, ending, authorize = stream
    futile_attempts, is_refused = 0, False
    while futile_attempts < MAX_FUTILE_ATTEMPTS:
        if not is_refused:
            if on_pause is not None:
                on_pause()
            await _pause(pool, cursor, futile_attempts, reader.deadline)
        authorization = b"" if authorize is None else await authorize(is_refused)
        lines = b"%b%bLast-Event-ID: %b\r\n\r\n" % (get_head, authorization, cursor.last_id)
        call = AwaitedCall(lines, *reader)
        is_repetition, is_refused = is_refused, False
        try:
            answer = await pool.run(call)
        except ConnectionLost:
            pass
        else:
            if answer.status == 401 and authorization and not is_repetition:
                is_refused = True
                continue
            if answer.status != 200 or not answer.streamed:
                break
            if answer.body:
                return answer
        new_cursor = call.cursor or cursor
        futile_attempts = futile_attempts + 1 if new_cursor.last_id == cursor.last_id else 0
        cursor = Cursor(new_cursor.last_id, cursor.retry if new_cursor.retry is None else new_cursor.retry)
    if isinstance(ending, Answer):
        return ending
    raise ending


async def _pause(pool: Pool, cursor: Cursor, futile_attempts: int, deadline: float) -> None:
    retry = DEFAULT_RETRY if cursor.retry is None else cursor.retry
    delay = min(max(retry, MIN_RETRY) * 2**futile_attempts, MAX_RETRY)
    if pool.clock() + delay >= deadline:
        await asyncio.sleep(max(deadline - pool.clock(), 0))
        raise Timeout("the server ended its event stream and did not resume it in time", sent=True)
    await asyncio.sleep(delay)
