"""A server's stream at the pace of its client: while the client does not read, neither is the server read.

Used by `upstream.inquiries`, for streams that belong to one request. On a connection that many share nobody is held up
for one of them; what such a client leaves unread is bounded by its exchange.
"""

from __future__ import annotations

from fairlead_gateway.upstream.inquiry import Listener
from fairlead_mcp.http.answer import Carrier


class Pace:
    """See the module. `opened` when the stream begins, `told` after each message that was passed on."""

    __slots__ = ("_carrier", "_held_up", "_listener")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._carrier: Carrier | None = None
        self._held_up = False

    def opened(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def told(self) -> None:
        if not self._held_up and self._carrier is not None and self._listener.congested:
            self._held_up = True
            self._carrier.pause_reading()
            self._listener.when_clear(self.go_on)

    def go_on(self) -> None:
        """The client can follow again, or is gone, or the answer is there."""
        if self._held_up and self._carrier is not None:
            self._held_up = False
            self._carrier.resume_reading()
