"""Reads request bodies up to a limit, writes JSON responses, and cancels a request's work when its client disconnects.

Large bodies are read and written in pieces, with an iteration of the event loop between pieces, so that other calls
wait for one piece at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_gateway.core.request import ON_DISCONNECT
from fairlead_mcp.mending import BYTE_ORDER_MARK
from fairlead_offers.documents import encode
from fairlead_offers.problems import BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, Problem

JSON: Final = "application/json"
UNREAD: Final = "fairlead.unread"
"""Key in an ASGI scope. Its value is a function that adds a number to the count of response bytes that the client has
not read yet; the number is negative for bytes that the client has read."""
PIECE: Final = 64 << 10
"""Maximum size of one write in bytes. Such a write takes about 20 µs."""
Result = TypeVar("Result")


async def read_pieces(request: Request, limit: int) -> list[bytes]:
    """Read the body in pieces, without a byte order mark (RFC 8259 section 8.1). Raises Problem if the body has more
    than `limit` bytes, or if Content-Type is not JSON.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON and not content_type.endswith("+json"):
        raise Problem(UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    pieces = await read_at_most(request, limit)
    if pieces is None:
        raise _too_large(limit)
    if pieces:
        pieces[0] = pieces[0].removeprefix(BYTE_ORDER_MARK)
    return pieces


async def read_at_most(request: Request, limit: int) -> list[bytes] | None:
    """Read the body in pieces. Returns None as soon as it exceeds `limit` bytes; the rest is not read."""
    pieces, size = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return None
    return pieces


def _too_large(limit: int) -> Problem:
    return Problem(BODY_TOO_LARGE, f"the body is larger than {limit} bytes")


def answer(content: Any, status: int = 200) -> Response:
    """Create a JSON response. `content` is encoded, unless it is bytes, which have to be JSON."""
    return json_response([content if isinstance(content, bytes) else encode(content)], status)


def json_response(body: Sequence[bytes | memoryview], status: int = 200) -> Response:
    """Create a response from encoded JSON in one or more parts."""
    if sum(map(len, body)) <= PIECE:
        return Response(b"".join(body), status, media_type=JSON)
    pieces = [memoryview(part)[start : start + PIECE] for part in body for start in range(0, len(part), PIECE)]
    return _PiecewiseResponse(pieces, status)


class _PiecewiseResponse(Response):
    """A response written in pieces, as fast as the client reads, with an event loop iteration before each piece."""

    def __init__(self, pieces: Sequence[memoryview], status: int) -> None:
        super().__init__(None, status, {"content-length": str(sum(map(len, pieces)))}, JSON)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        count: Callable[[int], None] = scope.get(UNREAD, _ignore_size)
        unread_bytes = sum(map(len, self._pieces))
        count(unread_bytes)
        try:
            await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for number, piece in enumerate(self._pieces, 1):
                await asyncio.sleep(0)
                await send({"type": "http.response.body", "body": piece, "more_body": number < len(self._pieces)})
                unread_bytes -= len(piece)
                count(-len(piece))
        finally:
            count(-unread_bytes)


def _ignore_size(size: int) -> None:
    pass


async def while_connected(request: Request, work: Awaitable[Result]) -> Result | None:
    """Await `work` and return its result. If the client disconnects first, cancel `work` and return None."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    other_cancellations = task.cancelling()
    has_disconnected = False

    def cancel() -> None:
        nonlocal has_disconnected
        has_disconnected = True
        task.cancel()

    async def watch() -> None:
        await request.receive()
        cancel()

    on_disconnect = request.scope.get(ON_DISCONNECT)
    watch_task = (
        None if on_disconnect else asyncio.get_running_loop().create_task(watch(), name="watch for a disconnect")
    )
    if on_disconnect:
        on_disconnect(cancel)
    try:
        result = await work
    except (asyncio.CancelledError, Exception):
        if has_disconnected and task.uncancel() <= other_cancellations:
            return None
        raise
    finally:
        if on_disconnect:
            on_disconnect(None)
        if watch_task is not None:
            watch_task.cancel()
    if has_disconnected:
        task.uncancel()
    return result
