"""GET stream of a client's own legacy session, on which the server sends requests and notifications outside of calls.

A server may end the stream at any time, for example when the token that opened it expires. The stream is then opened
again with the user's newest token, and resumes after the last event that was received (MCP 2025-11-25, Transports,
"Listening for Messages from the Server" and "Resumability and Redelivery"). A server that ends streams on purpose sends
`retry` to say when to reconnect (SEP-1699).
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.upstream.background_work import ANSWER_BYTES, POST_SECONDS, BackgroundTasks
from fairlead_gateway.upstream.server_session import CompleteElicitation, ServerSession, get_head
from fairlead_mcp import jsonrpc, url_elicitation
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.http.answer import Answer, Carrier, Cursor
from fairlead_mcp.http.pool import NEVER, AwaitedCall, Pool
from fairlead_mcp.http.target import with_body

FIRST_DELAY: Final = 0.1
LAST_DELAY: Final = 30.0
"""Limits in seconds for the delay before a stream is opened again, which doubles while streams end early."""
MIN_RETRY: Final = 0.5
MAX_RETRY: Final = 3600.0
"""Limits in seconds for the delay that a server asks for with `retry`."""
RESOURCE_UPDATED: Final = "notifications/resources/updated"


class GetStream:
    """Reads the stream of one session. GETs and responses are sent over `pool`. `complete_elicitation` is called when
    the server sends `notifications/elicitation/complete`.
    """

    def __init__(
        self, pool: Pool, session: ServerSession, background: BackgroundTasks, complete_elicitation: CompleteElicitation
    ) -> None:
        self.settled = asyncio.Event()
        """Set once the stream is open, or the attempt to open it has failed."""
        self._pool = pool
        self._session = session
        self._background = background
        self._forward_completion = complete_elicitation
        self._was_opened = False
        """Whether the server has opened a stream in this session, and so supports one."""
        self._cursor: Cursor | None = None

    async def run(self) -> None:
        """Read the stream until the server answers that it offers no stream, or no longer offers one."""
        clock = self._pool.clock
        backoff, refused_line = Backoff(random.random, base=FIRST_DELAY, cap=LAST_DELAY), b""
        try:
            while True:
                started_at = clock()
                line = await self._authorize(refused_line)
                answer = None if line is None else await self._read(line)
                if answer is not None and answer.status == 401 and line and not refused_line:
                    refused_line = line
                    continue
                if answer is not None and (answer.status != 200 or not answer.streamed):
                    return
                refused_line = b"" if line is not None else refused_line
                self.settled.set()
                retry = None if self._cursor is None else self._cursor.retry
                await asyncio.sleep(
                    delay_before_reopening(backoff, clock() - started_at, retry, ended_well=answer is not None)
                )
        except McpError:
            pass  # a server without a GET stream sends its requests on the stream of the call
        finally:
            self.settled.set()

    async def _authorize(self, refused_line: bytes) -> bytes | None:
        """`Authorization` header line of the next GET; None if the client has to send a new token first."""
        try:
            return await self._session.authorization.valid_line(self._pool.clock() + POST_SECONDS, refused_line)
        except McpError:
            return None

    async def _read(self, authorization: bytes) -> Answer | None:
        """Read one stream to its end. Returns None if the connection is lost or the server busy. Raises McpError."""
        cursor = self._cursor
        resume_line = b"" if cursor is None else b"Last-Event-ID: %b\r\n" % cursor.last_id
        data = with_body(get_head(self._session.head) + authorization + resume_line, b"")
        call = AwaitedCall(data, NEVER, ANSWER_BYTES, self._on_event, self._on_open)
        try:
            answer = await self._pool.run(call)
            return None if self._was_opened and is_busy(answer.status) else answer
        except (ConnectFailed, ConnectionLost, Timeout):
            if not self._was_opened:
                raise
            return None
        finally:
            self._cursor = call.cursor or cursor

    def _on_open(self, carrier: Carrier) -> None:
        self._was_opened = True
        self.settled.set()

    def _on_event(self, event: bytes) -> bool:
        session = self._session
        try:
            message = jsonrpc.decode_message(event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if message.method == RESOURCE_UPDATED and session.subscriber is not None:
            session.subscriber.notify(message)
        elif message.is_request and session.active_sinks:
            session.active_sinks[-1].ask(message, self._answer)
        elif message.is_request:
            self._answer(jsonrpc.reply_to_server(message))
        elif isinstance(message.method, str) and session.active_sinks:
            session.active_sinks[-1].notify(message)
        elif message.method == url_elicitation.COMPLETED and isinstance(message.params, Raw):
            self._complete_elicitation(message.params)
        return False

    def _complete_elicitation(self, params: Raw) -> None:
        """Forward the notification that an elicitation is complete: a client that got the error -32042 no longer has a
        call in progress.
        """
        client = self._session.client
        if client is not None and not client.is_transient and url_elicitation.declares_urls(client.features):
            self._forward_completion(client.session, params)

    def _answer(self, body: bytes) -> None:
        self._background.post(self._pool, self._session.head, body, self._session.authorization)


def is_busy(status: int) -> bool:
    """Whether a status says that a server, or a proxy in front of it, cannot answer at the moment."""
    return status == 429 or status >= 500


def delay_before_reopening(backoff: Backoff, lifetime: float, retry: float | None, *, ended_well: bool) -> float:
    """Seconds until a stream that lasted `lifetime` seconds is opened again: at least `retry`, if the server sent it.

    If the stream also ended without a failure (`ended_well`), the server ends streams on purpose, and the backoff
    restarts at its first delay.
    """
    min_delay = 0.0 if retry is None else min(max(retry, MIN_RETRY), MAX_RETRY)
    if retry is not None and ended_well:
        backoff.failures = 0
        return min_delay
    return max(backoff.delay_after(lifetime), min_delay)
