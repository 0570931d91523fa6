"""A call over a stream of messages that many share: what `upstream.child` and `upstream.link` have in common.

Ids and progress tokens are replaced once more by whatever carries the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from fairlead_gateway.upstream.base import Notify, Order
from fairlead_gateway.upstream.inquiry import Inquiry
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import NotMcp, TooLarge
from fairlead_mcp.handshake import read_line

METHOD: Final = "tools/call"


class Requester(Protocol):
    """What carries the stream: a child process or a link."""

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
