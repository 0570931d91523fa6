"""HTTP exchange: a request with the callbacks for its outcome. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from fairlead_mcp import jsonrpc
from fairlead_mcp.http.answer import Answer, Carrier, Cursor

SMALL: Final = 64 << 10
"""Bytes from which an incomplete answer counts towards the memory budget."""


class Arrival(Protocol):
    """Account of the bytes of one incomplete answer in the memory budget."""

    size: int
    """Bytes that are counted."""
    paused: bool
    """Whether the connection is paused because the budget is used up."""

    def grow(self, size: int) -> None:
        """Count `size` more bytes; may pause the connection."""
        ...

    def close(self) -> None:
        """Release the bytes: the answer is complete or was dropped."""
        ...


class Counter(Protocol):
    """Memory budget for incomplete answers."""

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count an answer that is larger than SMALL."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Call:
    """One exchange from `Pool.submit` to its outcome, with callbacks for subclasses to implement.

    Exactly one of `take_answer`, `take_error` and a successful `accept` is called, once; they may not raise.
    `on_event` and `on_open` may be parameters or overridden. `deadline` is in seconds of the pool's clock; `counter`
    counts a large answer while it arrives. `cursor` is set before the outcome if an event stream ended without the
    answer.
    """

    __slots__ = ("_on_event", "_on_open", "connection", "counter", "cursor", "data", "deadline", "max_bytes")

    def __init__(
        self,
        data: bytes,
        deadline: float,
        max_bytes: int,
        on_event: Callable[[bytes], bool] | None = None,
        on_open: Callable[[Carrier], None] | None = None,
        counter: Counter | None = None,
    ) -> None:
        self.data = data
        self.deadline = deadline
        self.max_bytes = max_bytes
        self._on_event = on_event or is_answer
        self._on_open = on_open
        self.connection: Carrier | None = None
        self.counter = counter
        self.cursor: Cursor | None = None

    @property
    def has_body(self) -> bool:
        """Whether the answer has the body that its head announces; the answer to a HEAD request has none (RFC 9110
        section 9.3.2).
        """
        return True

    def on_event(self, data: bytes) -> bool:
        """Handle the data of an event; return True if it is the answer."""
        return self._on_event(data)

    def on_named_event(self, name: bytes, data: bytes) -> bool:
        """Like `on_event`, with the event's name, by default "message"."""
        return self.on_event(data)

    def on_open(self, connection: Carrier) -> None:
        """Handle the start of an event stream; the connection's `pause_reading` and `resume_reading` allow
        back-pressure.
        """
        if self._on_open is not None:
            self._on_open(connection)

    def accept(self, data: bytes, start: int) -> bool:
        """Handle an answer with a known head, whose body is `data` from `start`. Return False to get the whole answer
        by `take_answer` instead.
        """
        return False

    def take_answer(self, answer: Answer) -> None:
        """Handle the answer."""
        raise NotImplementedError

    def take_error(self, error: Exception) -> None:
        """Handle the failure of the exchange."""
        raise NotImplementedError


def is_answer(data: bytes) -> bool:
    """Whether an event is the answer: a JSON-RPC response, or invalid JSON, whose reader then reports the error.

    The default of `on_event`; notifications and requests are dropped.
    """
    try:
        message = jsonrpc.decode_message(data)
    except jsonrpc.UNREADABLE:
        return True
    return message.is_response
