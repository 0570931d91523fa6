"""Answers that come in parts: a legacy server may end an event stream before its answer and be asked for the rest.

Legacy servers alone: from 2026-07-28 on a broken stream is a lost request. A server that gave its events ids continues
where a GET with `Last-Event-ID` says (MCP 2025-11-25, Transports, "Resumability and Redelivery"; SEP-1699), so nothing
is executed twice. A connection that broke is treated the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_mcp.errors import ConnectionLost, McpError, Timeout
from fairlead_mcp.http.answer import Answer, Carrier, Cursor
from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.http.pool import Awaited, Pool

DEFAULT_RETRY: Final = 1.0
MIN_RETRY: Final = 0.02
MAX_RETRY: Final = 30.0
"""Seconds between two requests for the rest."""
MAX_FUTILE: Final = 5
"""Requests in a row that brought nothing new, each after twice the time."""


class AnswerReader(NamedTuple):
    """How the parts of one answer are read, as a `Call` has it."""

    deadline: float
    """In the pool's clock."""
    max_bytes: int
    on_event: Callable[[bytes], bool] | None = None
    on_open: Callable[[Carrier], None] | None = None
    counter: Counter | None = None


async def ask(pool: Pool, data: bytes, get_head: bytes, reader: AnswerReader) -> Answer:
    """As `Pool.exchange`, with the rest of a stream that ended early. `get_head` is the head of a GET in the same
    session, Accept included, up to an empty line.
    """
    call = Awaited(data, *reader)
    try:
        answer = await pool.run(call)
    except ConnectionLost as error:
        if call.cursor is None:
            raise
        return await rest(pool, get_head, call.cursor, error, reader)
    if call.cursor is None or answer.body:
        return answer
    return await rest(pool, get_head, call.cursor, answer, reader)


async def rest(
    pool: Pool,
    get_head: bytes,
    cursor: Cursor,
    before: Answer | McpError,
    reader: AnswerReader,
    on_pause: Callable[[], None] | None = None,
) -> Answer:
    """Answer that continues after `cursor`. A server that does not continue leaves it at `before`. `on_pause` is called
    each time before the server is asked again.
    """
    futile = 0
    while futile < MAX_FUTILE:
        if on_pause is not None:
            on_pause()
        await _pause(pool, cursor, futile, reader.deadline)
        lines = b"%bLast-Event-ID: %b\r\n\r\n" % (get_head, cursor.last_id)
        call = Awaited(lines, *reader)
        try:
            answer = await pool.run(call)
        except ConnectionLost:
            pass
        else:
            if answer.status != 200 or not answer.streamed:
                break
            if answer.body:
                return answer
        reached = call.cursor or cursor
        futile = futile + 1 if reached.last_id == cursor.last_id else 0
        cursor = Cursor(reached.last_id, cursor.retry if reached.retry is None else reached.retry)
    if isinstance(before, Answer):
        return before
    raise before


async def _pause(pool: Pool, cursor: Cursor, futile: int, deadline: float) -> None:
    retry = DEFAULT_RETRY if cursor.retry is None else cursor.retry
    delay = min(max(retry, MIN_RETRY) * 2**futile, MAX_RETRY)
    if pool.clock() + delay >= deadline:
        await asyncio.sleep(max(deadline - pool.clock(), 0))
        raise Timeout("the server ended its stream and did not continue it in time", sent=True)
    await asyncio.sleep(delay)
