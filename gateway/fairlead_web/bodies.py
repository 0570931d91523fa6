"""Bodies of requests and of JSON answers over HTTP, bounded, and work that ends when its client disconnects.

What is large comes and goes in pieces, with a turn of the loop for each: a call beside it waits for a piece at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_mcp.mending import BYTE_ORDER_MARK
from fairlead_offers.documents import encode
from fairlead_offers.problems import BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, Problem

JSON: Final = "application/json"
UNREAD: Final = "fairlead.unread"
"""Key of a scope for the counter of unread bytes of the response, which takes positive and negative numbers."""
PIECE: Final = 64 << 10
"""Bytes that are written at once: about 20 µs."""
Result = TypeVar("Result")


async def read_pieces(request: Request, limit: int) -> list[bytes]:
    """The body as it came, at most `limit` bytes and one piece of it, without a byte order mark (RFC 8259 section 8.1).
    Raises Problem.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON and not kind.endswith("+json"):
        raise Problem(UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    pieces, size = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
    if pieces:
        pieces[0] = pieces[0].removeprefix(BYTE_ORDER_MARK)
    return pieces


def _too_large(limit: int) -> Problem:
    return Problem(BODY_TOO_LARGE, f"the body is larger than {limit} bytes")


def answer(content: Any, status: int = 200) -> Response:
    """A JSON response; bytes are taken as encoded already."""
    return json_response([content if isinstance(content, bytes) else encode(content)], status)


def json_response(body: Sequence[bytes | memoryview], status: int = 200) -> Response:
    """A response with a JSON body that is encoded already, in one part or more."""
    if sum(map(len, body)) <= PIECE:
        return Response(b"".join(body), status, media_type=JSON)
    cut = [memoryview(part)[start : start + PIECE] for part in body for start in range(0, len(part), PIECE)]
    return _InPieces(cut, status)


class _InPieces(Response):
    """A response in pieces, written at the pace of its reader with a turn of the loop for each."""

    def __init__(self, pieces: Sequence[memoryview], status: int) -> None:
        super().__init__(None, status, {"content-length": str(sum(map(len, pieces)))}, JSON)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        count: Callable[[int], None] = scope.get(UNREAD, _uncounted)
        left = sum(map(len, self._pieces))
        count(left)
        try:
            await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for number, piece in enumerate(self._pieces, 1):
                await asyncio.sleep(0)
                await send({"type": "http.response.body", "body": piece, "more_body": number < len(self._pieces)})
                left -= len(piece)
                count(-len(piece))
        finally:
            count(-left)


def _uncounted(size: int) -> None:
    pass


async def while_connected(request: Request, work: Awaitable[Result]) -> Result | None:
    """Result of the work; None if the client disconnects before, which cancels the work and its calls upstream."""
    batch = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({batch, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not batch.done():
            batch.cancel()
            await asyncio.wait({batch})
            return None
        return await batch
    finally:
        gone.cancel()
        batch.cancel()
