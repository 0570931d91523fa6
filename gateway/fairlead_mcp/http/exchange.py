"""One HTTP exchange: the request on its way and the answer to it.

Pure module: no I/O. Shared by the pool and its connections; `Call` is the callback interface of the hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from fairlead_mcp import jsonrpc


class Carrier(Protocol):
    """What a call and an answer may know of the connection that carries them."""

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the other side; None where it is not known any more."""
        ...

    def pause_reading(self) -> None:
        """Stop reading, for a stream whose consumer cannot follow. No-op on a closed connection."""
        ...

    def resume_reading(self) -> None: ...

    def close(self, error: Exception | None = None) -> None:
        """Close at once, failing the call that it carries with `error`."""
        ...


class Cursor(msgspec.Struct, frozen=True):
    """Where a stream that ended without its answer may be taken up again (MCP 2025-11-25, "Resumability")."""

    last_id: bytes
    retry: float | None
    """Seconds to wait before, where the stream said so."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An HTTP answer.

    `headers` holds those of `WANTED` that came, by lower-case name. `body` is the whole body, or, for an event stream
    (`streamed`), the data of the event that `on_event` called the answer (empty if the stream ended without one).
    `sent_at` and `done_at` are the pool's clock, in seconds, at the first byte out and at the answer.
    """

    status: int
    content_type: bytes
    headers: dict[bytes, bytes]
    body: bytes
    streamed: bool
    reused: bool
    sent_at: float
    done_at: float
    connection: Carrier


class Call:
    """One exchange from `Pool.submit` to its outcome: exactly one of `answered` and `failed` is called, once.

    Subclass it for callbacks; neither method may raise. `on_event` and `on_open` may be given or overridden.
    `deadline` is in seconds of the pool's clock. `cursor` is set before the outcome where an event stream ended, in
    order or not, without the answer.
    """

    __slots__ = ("_on_event", "_on_open", "connection", "cursor", "data", "deadline", "max_bytes")

    def __init__(
        self,
        data: bytes,
        deadline: float,
        max_bytes: int,
        on_event: Callable[[bytes], bool] | None = None,
        on_open: Callable[[Carrier], None] | None = None,
    ) -> None:
        self.data = data
        self.deadline = deadline
        self.max_bytes = max_bytes
        self._on_event = on_event or is_answer
        self._on_open = on_open
        self.connection: Carrier | None = None
        self.cursor: Cursor | None = None

    def on_event(self, data: bytes) -> bool:
        """Gets the data of each event of a stream; True for the one that is the answer."""
        return self._on_event(data)

    def on_open(self, connection: Carrier) -> None:
        """A stream begins. Use the connection's `pause_reading` and `resume_reading` for back-pressure."""
        if self._on_open is not None:
            self._on_open(connection)

    def answered(self, answer: Answer) -> None:
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        raise NotImplementedError


def is_answer(data: bytes) -> bool:
    """The default `on_event`: the first JSON-RPC response is the answer; notifications and requests are dropped.

    What cannot be read counts as the answer too, so that its reader says what is wrong with it.
    """
    try:
        message = jsonrpc.decode_message(data)
    except jsonrpc.UNREADABLE:
        return True
    return message.is_response
