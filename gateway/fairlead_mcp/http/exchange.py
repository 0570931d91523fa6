"""One HTTP exchange: the request on its way, and whom to tell of its outcome.

Pure module: no I/O. Shared by the pool and its connections; `Call` is the callback interface of the hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from fairlead_mcp import jsonrpc
from fairlead_mcp.http.answer import Answer, Carrier, Cursor

SMALL: Final = 64 << 10
"""Bytes of an answer that is not complete from which on it is counted."""


class Arrival(Protocol):
    """Bytes kept of an answer that is not complete."""

    size: int
    """Bytes that were counted."""
    paused: bool
    """Whether there is no room for more: the connection is not read."""

    def grow(self, size: int) -> None:
        """Count so many bytes more; may pause the connection."""
        ...

    def close(self) -> None:
        """It is complete, or given up."""
        ...


class Counter(Protocol):
    """Counts what is kept of answers."""

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count one that is larger than SMALL."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Call:
    """One exchange from `Pool.submit` to its outcome: exactly one of `take_answer` and `take_error` is called, once,
    unless `accept` has taken the answer.

    Subclass it for callbacks; neither method may raise. `on_event` and `on_open` may be given or overridden.
    `deadline` is in seconds of the pool's clock; `counter` counts a large answer while it arrives. `cursor` is set
    before the outcome where an event stream ended, in order or not, without the answer.
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

    def on_event(self, data: bytes) -> bool:
        """Gets the data of each event of a stream; True for the one that is the answer."""
        return self._on_event(data)

    def on_named_event(self, name: bytes, data: bytes) -> bool:
        """As `on_event`, which it calls, with the name of the event ("message" where it has none)."""
        return self.on_event(data)

    def on_open(self, connection: Carrier) -> None:
        """A stream begins. Use the connection's `pause_reading` and `resume_reading` for back-pressure."""
        if self._on_open is not None:
            self._on_open(connection)

    def accept(self, data: bytes, start: int) -> bool:
        """Take the body, `data` from `start` on, of an answer whose head is that of an earlier one; False where
        `take_answer` has to be called with the whole answer.
        """
        return False

    def take_answer(self, answer: Answer) -> None:
        raise NotImplementedError

    def take_error(self, error: Exception) -> None:
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
