"""A call over a stream of messages that many share: what `upstream.child` and `upstream.link` have in common.

Ids and progress tokens are replaced once more by whatever carries the stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_gateway.upstream.inquiry import AnswerServer, Inquiry
from fairlead_gateway.upstream.levels import Levels
from fairlead_gateway.upstream.order import Notify, Order
from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Era, Negotiated
from fairlead_mcp.errors import McpError, NotMcp, TooLarge
from fairlead_mcp.handshake import read_line
from fairlead_mcp.messages import Message
from fairlead_mcp.multiplex import Offering

METHOD: Final = "tools/call"
_PASSED_ON: Final = frozenset(
    {"notifications/message", "notifications/cancelled", "notifications/elicitation/complete"}
)
"""Of notifications to one client alone."""


class Requester(Protocol):
    """What carries the stream: a child process or a link."""

    clock: Callable[[], float]

    async def ready(self, deadline: float) -> Negotiated: ...

    async def request(
        self,
        method: str,
        params: bytes | Raw | None,
        *,
        deadline: float,
        on_progress: Callable[[bytes], None] | None = None,
    ) -> bytes: ...


async def call_over(stream: Requester, order: Order) -> Raw:
    """The raw result of the call. Raises McpError."""
    progress = _decoded(order.notify)
    return _read(await stream.request(METHOD, order.params, deadline=order.deadline, on_progress=progress), order)


async def ask_over(stream: Requester, inquiry: Inquiry) -> Raw:
    """The raw result of the inquiry. Raises McpError.

    Of what a server sends on the way, only progress belongs to a request on a stream that many share; so nothing is
    declared that a server could ask for.
    """
    progress = _decoded(inquiry.notify)
    line = await stream.request(inquiry.method, inquiry.params, deadline=inquiry.deadline, on_progress=progress)
    return _read(line, inquiry)


class OwnStream:
    """What a server says beside its answers on a stream that is one client's own: log messages, and questions where the
    client offers to answer (`features`, normalized capabilities). Neither says which request it belongs to, so on a
    stream of many nobody is told, and nothing offered.
    """

    def __init__(self, features: bytes) -> None:
        self.offering = Offering(features, self._asked)
        self._working: list[Inquiry] = []
        self._levels = Levels(shared=False)
        self._life = 0

    async def ask(self, stream: Requester, inquiry: Inquiry, life: Callable[[], int]) -> Raw:
        """As `ask_over`, at the level that the client asked for. `life` numbers the connections or processes."""
        self._working.append(inquiry)
        try:
            if inquiry.level is not None:
                await self._set_level(stream, inquiry.level, inquiry.deadline, life)
            return await ask_over(stream, inquiry)
        finally:
            self._working = [other for other in self._working if other is not inquiry]

    async def _set_level(self, stream: Requester, level: str, deadline: float, life: Callable[[], int]) -> None:
        agreed = await stream.ready(deadline)
        if agreed.era is Era.MODERN or not agreed.offers("logging"):
            return
        if self._life != life():
            self._levels, self._life = Levels(shared=False), life()
        due = self._levels.due(None, level, stream.clock())
        if due is not None:
            with contextlib.suppress(McpError):  # the request that follows meets the same trouble, if it lasts
                await stream.request("logging/setLevel", jsonrpc.encode({"level": due}), deadline=deadline)

    def said(self, method: str, line: bytes) -> None:
        """A notification came; may not raise."""
        if method not in _PASSED_ON:
            return
        told = self._working[-1:] if method == "notifications/message" else self._working
        for inquiry in [*told]:
            if inquiry.notify is not None:
                with contextlib.suppress(*jsonrpc.UNREADABLE):
                    inquiry.notify(jsonrpc.decode_message(line))

    def _asked(self, message: Message, answer: AnswerServer) -> None:
        """The server asks its client, in whatever request of that came last."""
        on_request = self._working[-1].on_request if self._working else None
        if on_request is None:
            answer(jsonrpc.reply_to_server(message))
        else:
            on_request(message, answer)


def _read(line: bytes, asked: Order | Inquiry) -> Raw:
    if len(line) > asked.max_bytes:
        raise TooLarge(f"the answer exceeds {asked.max_bytes} bytes")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise NotMcp("the answer is not UTF-8") from error
    return read_line(line)


def _decoded(notify: Notify | None) -> Callable[[bytes], None] | None:
    if notify is None:
        return None

    def on_progress(line: bytes) -> None:
        try:
            notify(jsonrpc.decode_message(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return

    return on_progress
