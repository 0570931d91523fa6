"""Multiplexer of many callers over one stream of JSON-RPC messages.

A sender may use each id and each progress token only once at a time (MCP, "Progress"), but several callers may choose
the same ones. The multiplexer therefore replaces both by numbers of a counter, and puts the caller's token back into
progress notifications. The module does no I/O: it sends by a `write` function and is fed the lines that were received.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from msgspec import Raw

from fairlead_mcp import jsonrpc, mending
from fairlead_mcp.errors import McpError, NotMcp, PoolFull, Timeout
from fairlead_mcp.messages import Message

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 1024
OnRequest: TypeAlias = Callable[[Message, Callable[[bytes], None]], None]
"""Callback for a request of the server. Gets the request and a function to send the response with, at once or later.
May not raise."""


class Offering(NamedTuple):
    """Client capabilities (legacy, raw JSON) to declare to a server, with the callback for its requests. Only for a
    server that has a single client.
    """

    capabilities: bytes
    on_request: OnRequest


_PROGRESS: Final = "progressToken"


class _Pending:
    """A request in flight. `token` is the progress token of its caller, if the caller sent one."""

    __slots__ = ("future", "method", "on_progress", "timer", "token")

    def __init__(self, method: str, future: asyncio.Future[bytes]) -> None:
        self.method = method
        self.future = future
        self.timer: asyncio.TimerHandle | None = None
        self.token: Raw | None = None
        self.on_progress: Callable[[bytes], None] | None = None


class Multiplexer:
    """Sends requests and notifications of many callers over one stream and returns each answer to its caller.

    `write(line)` sends one message, without line breaks; `on_notification(method, line)` gets all notifications
    except for progress. Without `on_request` a server's requests are answered with an error (`{}` for ping).
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        *,
        on_notification: Callable[[str, bytes], None] | None = None,
        on_request: OnRequest | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self._write_line = write
        self._on_notification = on_notification
        self._on_request = on_request
        self._clock = clock
        self._max_in_flight = max_in_flight
        self._ids = itertools.count(1)
        self._last_id = 0
        self._strays = 0
        """Number of consecutive answers whose id is not the id of a request."""
        self._pending: dict[bytes, _Pending] = {}

    def __repr__(self) -> str:
        return f"<Multiplexer: {len(self._pending)} in flight>"

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    async def request(
        self,
        method: str,
        params: bytes | Raw | None,
        *,
        deadline: float,
        on_progress: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Send a request and return the raw response, whose `id` is the multiplexer's own.

        `on_progress` gets progress notifications with the caller's token. At the deadline, and if the awaiting task is
        canceled, `notifications/cancelled` is sent. Raises Timeout, PoolFull, and the errors of `fail` and `fail_all`.
        """
        if len(self._pending) >= self._max_in_flight:
            raise PoolFull(f"{self._max_in_flight} requests are in flight already")
        loop = asyncio.get_running_loop()
        self._last_id = next(self._ids)
        ident = b"%d" % self._last_id
        pending = _Pending(method, loop.create_future())
        pending.on_progress = on_progress
        if params is not None and _PROGRESS.encode() in bytes(params):
            params, pending.token = _with_token(params, ident)
        self._pending[ident] = pending
        try:
            self._write(jsonrpc.request(ident, method, params))
            if deadline < float("inf"):
                pending.timer = loop.call_later(max(0.0, deadline - self._clock()), self._expire, ident)
            return await pending.future
        except asyncio.CancelledError:
            self._cancel(ident, "the caller gave up")
            raise
        finally:
            self._pending.pop(ident, None)
            if pending.timer is not None:
                pending.timer.cancel()

    def notify(self, method: str, params: bytes | Raw | None = None) -> None:
        """Send a notification. Raises PoolFull."""
        self._write(jsonrpc.notification(method, params))

    def feed(self, line: bytes) -> bool:
        """Handle a message. False if it is not JSON-RPC, or is a response with an id that no request had."""
        try:
            message = jsonrpc.decode_message(line)
        except jsonrpc.UNREADABLE as error:
            return self._feed_mended(line, error)
        if isinstance(message.method, str):
            if message.is_request and self._on_request is not None:
                self._on_request(message, self._respond)
            elif message.is_request:
                self._write(jsonrpc.reply_to_server(message))
            elif message.method == "notifications/progress":
                self._progress(message)
            elif self._on_notification is not None:
                self._on_notification(message.method, line)
            return True
        ident = bytes(message.id) if isinstance(message.id, Raw) else b"null"
        if not message.is_response:
            if ident in self._pending:
                self.fail(ident, NotMcp("the answer has neither result nor error", excerpt=jsonrpc.excerpt(line)))
            return False
        pending = self._pending.get(ident)
        if pending is None:
            return self._take_stray(ident, line)
        self._strays = 0
        if not pending.future.done():
            pending.future.set_result(line)
        return True

    def _feed_mended(self, line: bytes, error: Exception) -> bool:
        """Handle an invalid line: as a batch, repaired, or as a malformed answer to the request whose id it has."""
        if (batch := mending.messages_of_batch(line)) is not None:
            results = [self.feed(message) for message in batch]
            return all(results)
        mended = mending.mend(line)
        if mended is not None:
            with contextlib.suppress(*jsonrpc.UNREADABLE):
                jsonrpc.decode_message(mended)
                return self.feed(mended)
        for ident in mending.answered_ids(line):
            if ident in self._pending:
                self.fail(ident, jsonrpc.bad_json(line, error))
                break
        return False

    def _take_stray(self, ident: bytes, line: bytes) -> bool:
        """Handle an answer whose id is not the id of a request in flight.

        An id that is a number in quotes counts as that number. An id of an earlier request means a late answer, which
        is dropped. Other ids are errors of the server: after as many of them as there are requests in flight, all
        these requests fail, as their answers have come with wrong ids. Returns False for such an id.
        """
        number = ident.strip(b'"')
        if number != ident and number in self._pending:
            return self.feed(jsonrpc.with_member(line, "id", number))
        if number.isdigit() and 0 < int(number[:18]) <= self._last_id:
            return True
        self._strays += 1
        if self._strays >= len(self._pending):
            self._strays = 0
            shown_id = ident[:40].decode("utf-8", "replace")
            message = f"the server's answer has the id {shown_id}, which is not the id of any request"
            self.fail_all(NotMcp(message, excerpt=jsonrpc.excerpt(line)))
        return False

    def fail(self, ident: bytes, error: McpError) -> None:
        """Fail the request that was sent with the id `ident`; no-op if the request is over."""
        pending = self._pending.get(ident)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(error)

    def fail_unbounded(self, error: McpError) -> None:
        """Fail the requests without a deadline, which are subscriptions."""
        for pending in self._pending.values():
            if pending.timer is None and not pending.future.done():
                pending.future.set_exception(error)

    def fail_all(self, error: McpError) -> None:
        """Fail all requests in flight."""
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(error)

    def _write(self, message: bytes) -> None:
        """Send a message as one line (MCP, Transports, "stdio": no embedded newlines).

        Params are passed on as the client wrote them, possibly with line breaks between members. A server would read
        the text after a line break as another message, which no policy has checked.
        """
        if b"\n" in message or b"\r" in message:
            message = message.replace(b"\r", b" ").replace(b"\n", b" ")  # JSON strings cannot have raw line breaks
        self._write_line(message)

    def _respond(self, line: bytes) -> None:
        try:
            self._write(line)
        except McpError as error:  # the stream may have ended
            logger.debug("a request of a server was not answered: %s", error)

    def _expire(self, ident: bytes) -> None:
        pending = self._pending.get(ident)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(Timeout(f"the server did not answer {pending.method} in time", sent=True))
            self._cancel(ident, "the request took too long")

    def _cancel(self, ident: bytes, why: str) -> None:
        if self._pending[ident].method == "initialize":
            return  # the client MUST NOT cancel it (MCP, Cancellation)
        try:
            self.notify("notifications/cancelled", b'{"requestId":%b,"reason":%b}' % (ident, jsonrpc.encode(why)))
        except PoolFull:
            logger.debug("a cancellation was not sent: the server does not read its input")

    def _progress(self, message: Message) -> None:
        if not isinstance(message.params, Raw):
            return
        try:
            params = jsonrpc.decode_object(message.params)
            pending = self._pending.get(bytes(params[_PROGRESS]))
        except (*jsonrpc.UNREADABLE, KeyError):
            return
        if pending is not None and pending.token is not None and pending.on_progress is not None:
            params[_PROGRESS] = pending.token
            pending.on_progress(jsonrpc.notification("notifications/progress", jsonrpc.encode(params)))


def _with_token(params: bytes | Raw, token: bytes) -> tuple[bytes | Raw, Raw | None]:
    """Replace `_meta.progressToken` in `params`. Returns the new params and the old token, None if there was none."""
    try:
        members = jsonrpc.decode_object(params)
        meta = jsonrpc.decode_object(members["_meta"])
        original = meta[_PROGRESS].copy()
    except (*jsonrpc.UNREADABLE, KeyError):
        return params, None
    meta[_PROGRESS] = Raw(token)
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members), original
