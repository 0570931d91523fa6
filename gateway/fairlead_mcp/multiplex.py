"""Many callers over one stream of JSON-RPC messages: ids and progress tokens of our own, mapped back.

Holds no process and no socket, only a `write` function and the lines that it is fed. One sender must use each id and
each progress token only once at a time (MCP, "Progress"), and callers do not know of each other: so both are replaced
by a counter.
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
"""Gets a request of the server, and what sends the response to it; answers at once or later. May not raise."""


class Offering(NamedTuple):
    """Capabilities that the only client of a server offers to it: legacy capabilities, raw JSON, and the callback that
    answers.
    """

    capabilities: bytes
    on_request: OnRequest


_PROGRESS: Final = "progressToken"


class _Pending:
    __slots__ = ("future", "method", "on_progress", "timer", "token")

    def __init__(self, method: str, future: asyncio.Future[bytes]) -> None:
        self.method = method
        self.future = future
        self.timer: asyncio.TimerHandle | None = None
        self.token: Raw | None = None
        self.on_progress: Callable[[bytes], None] | None = None


class Multiplexer:
    """Requests and notifications of many callers as lines of one stream, and the answers back to each.

    `write(line)` sends one message, which holds no line break; `on_notification(method, line)` gets all but progress.
    Without `on_request` a server's requests are answered here: there is nothing that it could ask for.
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
        """Answers in a row to ids that no request had."""
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
        """The raw response, with our id in it. `on_progress` gets progress notifications with the caller's token.

        Canceling the awaiting task, and the deadline, send `notifications/cancelled`.
        Raises Timeout, PoolFull, and whatever `fail_all` is called with.
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
        """Take a message in. False when it is not JSON-RPC."""
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
        """Take in a line that a strict reader refuses: as a batch, mended, or as the end of a request that it shows."""
        if (batch := mending.messages_of_batch(line)) is not None:
            understood = [self.feed(message) for message in batch]
            return all(understood)
        mended = mending.mend(line)
        if mended is not None:
            with contextlib.suppress(*jsonrpc.UNREADABLE):
                jsonrpc.decode_message(mended)
                return self.feed(mended)
        for ident in mending.shown_ids(line):
            if ident in self._pending:
                self.fail(ident, jsonrpc.bad_json(line, error))
                break
        return False

    def _take_stray(self, ident: bytes, line: bytes) -> bool:
        """Take in an answer with an id that no request in flight has. A number as a text is meant as that number. An id
        that a request had before is late: that request was given up. Any other is wrong, and once as many such answers
        came as requests wait, these are the answers that they wait for.
        """
        number = ident.strip(b'"')
        if number != ident and number in self._pending:
            return self.feed(jsonrpc.with_member(line, "id", number))
        if number.isdigit() and 0 < int(number[:18]) <= self._last_id:
            return True
        self._strays += 1
        if self._strays >= len(self._pending):
            self._strays = 0
            told = f"the answer carries the id {ident[:40].decode('utf-8', 'replace')}, which no request has"
            self.fail_all(NotMcp(told, excerpt=jsonrpc.excerpt(line)))
        return False

    def fail(self, ident: bytes, error: McpError) -> None:
        """Fail one request, by our id of it; no-op when it is over."""
        pending = self._pending.get(ident)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(error)

    def fail_all(self, error: McpError) -> None:
        """Fail whatever is in flight."""
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(error)

    def _write(self, message: bytes) -> None:
        """Send a message as one line (MCP, Transports, "stdio": no embedded newlines).

        Params stay as the client wrote them, line breaks between members included. A server would take the line behind
        such a break for a message of its own, which no policy has allowed.
        """
        if b"\n" in message or b"\r" in message:
            message = message.replace(b"\r", b" ").replace(b"\n", b" ")  # outside of strings, or it would be no JSON
        self._write_line(message)

    def _respond(self, line: bytes) -> None:
        try:
            self._write(line)
        except McpError as error:  # it may be gone by now
            logger.debug("a server's question was not answered: %s", error)

    def _expire(self, ident: bytes) -> None:
        pending = self._pending.get(ident)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(Timeout(f"{pending.method} was not answered in time", sent=True))
            self._cancel(ident, "it took too long")

    def _cancel(self, ident: bytes, why: str) -> None:
        if self._pending[ident].method == "initialize":
            return  # MUST NOT be canceled
        try:
            self.notify("notifications/cancelled", b'{"requestId":%b,"reason":%b}' % (ident, jsonrpc.encode(why)))
        except PoolFull:
            logger.debug("a cancellation was not sent: the server does not read")

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
    """`params` with `_meta.progressToken` replaced, and the one it had (None: there was none after all)."""
    try:
        members = jsonrpc.decode_object(params)
        meta = jsonrpc.decode_object(members["_meta"])
        original = meta[_PROGRESS].copy()
    except (*jsonrpc.UNREADABLE, KeyError):
        return params, None
    meta[_PROGRESS] = Raw(token)
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members), original
