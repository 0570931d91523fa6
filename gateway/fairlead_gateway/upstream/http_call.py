"""One request of an `HttpUpstream`, from its session to its answer.

Handles the events before the answer, resumes a stream that ended early, reopens a session that the server has lost, and
stops reading from the server while the client does not read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.upstream.pod_pools import ServerPod
from fairlead_gateway.upstream.server_session import ServerSession, get_head
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, NotMcp, Timeout
from fairlead_mcp.http import resuming
from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.jsonrpc import UNSET
from fairlead_mcp.messages import ResultMembers

if TYPE_CHECKING:
    from fairlead_gateway.upstream.http import HttpUpstream


class HttpCall(Call):
    """One request of an `HttpUpstream`. After `cancel` the sink receives nothing more."""

    __slots__ = (
        "_carrier",
        "_members",
        "_reading_paused",
        "_rest_lines",
        "_result",
        "_upstream",
        "_was_moved",
        "_was_reopened",
        "cancelled",
        "has_ended",
        "pod",
        "pool",
        "request",
        "session",
        "sink",
        "work",
    )

    def __init__(self, upstream: HttpUpstream, request: UpstreamRequest, sink: ResponseSink) -> None:
        self.data = b""  # super().__init__ is not called, as it costs as much as all of these lines
        self.deadline = request.deadline
        self.max_bytes = request.max_bytes
        self.connection = None
        self.counter = request.counter
        self.cursor = None
        self._on_open = None
        self._upstream = upstream
        self.request = request
        self.sink = sink
        self.session: ServerSession | None = None
        """Legacy session of the request; None for a modern server."""
        self.pod: ServerPod | None = None
        """Pod that was picked for the request; None if the request has to go to a certain pod."""
        self.pool: Pool | None = None
        """Pool that the request was submitted to."""
        self.work: asyncio.Task[None] | None = None
        """Task that opens the session, or fetches the rest of the answer."""
        self.has_ended = False
        """Whether the call has ended: by a result, an error or `cancel`."""
        self.cancelled = False
        self._was_reopened = False
        """Whether the request was sent again in a new session, which is done once."""
        self._was_moved = False
        """Whether the request was sent again to another pod, which is done once."""
        self._rest_lines: tuple[bytes, ...] = ()
        """`Authorization` header lines of the GETs for the rest of the answer, newest last."""
        self._carrier: Carrier | None = None
        """Connection of an answer that is an event stream; None before the stream begins."""
        self._reading_paused = False
        self._result: Raw | None = None
        """Result that is forwarded without changes; None before the answer, or if it needs changes."""
        self._members: ResultMembers | None = None
        """Parsed members of `_result`, if it was parsed."""

    def accept(self, data: bytes, start: int) -> bool:
        if self.session is None and self.request.tasks:
            return False  # the result may be a task, which has to be changed
        if self._has_too_many_values(data, start):
            return True
        if not self._take_result(data, start):
            body = data[start:]
            if self._is_forwardable(body):
                self._result = result_in(body, self.request.id)
        if self._result is None:
            return False
        self._succeed(self._result, self._members)
        return True

    def take_answer(self, answer: Answer) -> None:
        if self._result is not None:
            self._succeed(self._result, self._members)
            return
        if self._has_too_many_values(answer.body):
            return
        if self.cursor is not None and not answer.body and self.session is not None:
            self._resume(answer)
            return
        if answer.status >= 400 and self._reopen_if_lost(answer):
            return  # the server rejected the session, so it did not execute the request
        assert self.pool is not None
        try:
            result = self._upstream.read(answer, self.request.id, self.pool, tasks=self.request.tasks)
        except McpError as error:
            self.refuse(error)
        else:
            self._succeed(result)

    def take_error(self, error: Exception) -> None:
        session = self.session
        if self.pod is not None and isinstance(error, ConnectFailed) and self._upstream.send_to_other_pod(self):
            return
        if session is not None:
            if self.cursor is not None and isinstance(error, ConnectionLost):
                self._resume(error)
                return
            if isinstance(error, ConnectFailed) and session.client is not None and not self._was_reopened:
                self._reopen(session)  # the session's pod is gone
                return
            if isinstance(error, Timeout):
                self._upstream.notify_cancelled(self, session)
        self.refuse(error)

    def refuse(self, error: Exception) -> None:
        """End the call with an error, in which credentials are masked."""
        if self._end():
            mask = self._upstream.mask_of(self.request.authorization, *self._rest_lines)
            self.sink.take_error(mask.error(error) if isinstance(error, McpError) else error)

    def cancel(self) -> None:
        if self.has_ended:
            return
        self.cancelled = True
        session, pool = self.session, self.pool
        self._end()
        if self.work is not None:
            self.work.cancel()
        if pool is not None:
            pool.cancel(self)
            if session is not None:
                self._upstream.notify_cancelled(self, session)

    def withdraw_from_pod(self) -> bool:
        """Cancel the call so that it can be sent to another pod; False if it is over, or was sent and must not be
        repeated.
        """
        pool, session, was_sent = self.pool, self.session, self.connection is not None
        if self.has_ended or pool is None:
            return False
        if was_sent:
            if self._was_moved or self.request.listens or not self.request.idempotent:
                return False
            self._was_moved = True
        pool.cancel(self)
        if was_sent and session is not None:
            self._upstream.notify_cancelled(self, session)
        return True

    def on_open(self, connection: Carrier) -> None:
        self._carrier = connection

    def on_event(self, data: bytes) -> bool:
        if self._has_too_many_values(data):
            return True
        if self._take_result(data):
            self._resume_reading()
            return True
        try:
            message = jsonrpc.decode_message(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return True
        if message.method is UNSET:
            self._resume_reading()
            if message.result is not UNSET and message.error is UNSET and message.id is not UNSET and data.isascii():
                self._result = (
                    message.result if bytes(message.id) == self.request.id and self._is_forwardable(data) else None
                )
            return message.is_response
        session = self.session
        if not message.is_request:
            self.sink.notify(message)
        elif session is not None:
            self.sink.ask(message, lambda body: self._upstream.answer_server(session, body))
        self._pause_reading()
        return False

    # Internals

    def _has_too_many_values(self, data: bytes, start: int = 0) -> bool:
        """Whether the response that begins at `start` has more values than a result may have; the call is refused."""
        try:
            jsonrpc.check_values(data, start)
        except NotMcp as error:
            self.refuse(error)
            return True
        return False

    def _is_forwardable(self, body: bytes) -> bool:
        """Whether the result in a body is forwarded without changes, as it has no state or task to tag with its pod."""
        return self.session is not None or not (self.request.tasks or b'"requestState"' in body)

    def _take_result(self, data: bytes, start: int = 0) -> bool:
        """Parse a response in the usual form, which begins at `start`, in one pass.

        False for any other form, and for a result that has to be changed.
        """
        modern = self.session is None
        raw_result = None if modern and self.request.tasks else jsonrpc.framed_result(data, self.request.id, start)
        if raw_result is None:
            return False
        try:
            if not raw_result.isascii():
                raw_result.decode()
            members = jsonrpc.decode_result(raw_result, jsonrpc.TEXTS_SKIPPED)
        except jsonrpc.UNREADABLE:  # the response may have members after the result
            return False
        if modern and members.request_state is not UNSET:
            return False
        self._result = Raw(raw_result)
        self._members = members
        return True

    def _succeed(self, result: Raw, members: ResultMembers | None = None) -> None:
        self._result = self._members = (
            None  # a hedged call is in a reference cycle, which must not keep a large result alive
        )
        if self._end():
            self.sink.take_result(result, members)

    def _end(self) -> bool:
        """End the call; False if it has ended already."""
        if self.has_ended:
            return False
        self.has_ended = True
        session = self.session
        if session is not None and session.has_owner:
            self._upstream.end_request(session, self.sink)
        return True

    def _reopen_if_lost(self, answer: Answer) -> bool:
        session = self.session
        if session is None or self._was_reopened or not session.is_lost(answer):
            return False
        self._reopen(session)
        return True

    def _reopen(self, session: ServerSession) -> None:
        """Send the request again, in a new session."""
        upstream = self._upstream
        self._was_reopened = True
        if session.subscriber is self.sink:
            session.subscriber = None  # this request subscribes again
        upstream.sessions.forget_session(session)
        if session.has_owner:
            session.leave(self.sink)
        self.session = None
        self.pool = None
        self.connection = None
        self.cursor = None
        self.request = self.request.with_id(upstream.next_id())
        upstream.send_in_session(self)

    def _resume(self, interruption: Answer | McpError) -> None:
        """Fetch the rest of a stream that ended before the answer."""
        self.work = self._upstream.background.run(self._fetch_rest(interruption), "resume")

    async def _fetch_rest(self, interruption: Answer | McpError) -> None:
        cursor, self.cursor, request = self.cursor, None, self.request
        assert cursor is not None
        assert self.session is not None
        assert self.pool is not None
        reader = resuming.AnswerReader(
            request.deadline, request.max_bytes, self.on_event, self.on_open, request.counter
        )
        stream = resuming.BrokenStream(get_head(self.session.head), cursor, interruption, self._authorize_rest)
        try:
            self.take_answer(await resuming.resume_stream(self.pool, stream, reader, self.sink.pause))
        except ConnectFailed as error:  # the GET could not be sent; the call itself was
            connection_lost = ConnectionLost(
                f"the rest of the answer cannot be fetched: {error}", sent=True, received=True
            )
            connection_lost.__cause__ = error
            self.take_error(connection_lost)
        except McpError as error:
            self.take_error(error)
        except asyncio.CancelledError:
            self.refuse(ConnectionLost("the connections to the server were closed", sent=True, received=True))
            raise

    async def _authorize_rest(self, was_refused: bool) -> bytes:
        """`Authorization` header line of the next GET; `was_refused`: the server answered the last one with 401.

        Raises ConnectionLost if there is no token: the call itself was sent, and must not be repeated.
        """
        assert self.session is not None
        refused_line = self._rest_lines[-1] if was_refused else b""
        try:
            line = await self.session.authorization.valid_line(self.request.deadline, refused_line)
        except McpError as error:
            text = f"the rest of the answer cannot be fetched: {error}"
            raise ConnectionLost(text, sent=True, received=True) from error
        if line not in self._rest_lines:
            self._rest_lines += (line,)
        return line

    def _pause_reading(self) -> None:
        """Stop reading from the server while the client does not read."""
        if not self._reading_paused and self._carrier is not None and self.sink.congested:
            self._reading_paused = True
            self._carrier.pause_reading()
            self.sink.when_writable(self._resume_reading)

    def _resume_reading(self) -> None:
        if self._reading_paused and self._carrier is not None:
            self._reading_paused = False
            self._carrier.resume_reading()


def result_in(body: bytes, ident: bytes) -> Raw | None:
    """The result in a response to the request `ident`; None for any other body."""
    try:
        if not body.isascii():
            body.decode()
        response = jsonrpc.decode_response(body)
    except jsonrpc.UNREADABLE:
        return None
    if response.error is not None or response.result is UNSET or response.id is UNSET:
        return None
    return response.result if bytes(response.id) == ident else None
