"""Deferred event streams: a response begins as a stream with its first event, or when its answer takes long.

Most calls are answered soon, so that one write sends head and answer. If the stream began before the answer, the answer
would cost a second write, and storage in the event store. One timer serves all exchanges, because a timer per call
costs 1 µs. Compiled by mypyc.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

BEGIN_AFTER_S: Final = 0.05
"""Maximum seconds after which a stream begins even without an event. The timer may fire after half of that time."""


class DeferredStream(Protocol):
    """Exchange whose event stream has not begun."""

    def begin_stream(self) -> bool:
        """Write the head and the priming event of the stream. Returns False if the client is gone or was answered."""
        ...


class StreamStarts:
    """Exchanges whose event streams have not begun, with the timer that begins them."""

    __slots__ = ("_after_s", "_older", "_timer_is_set", "_younger")

    def __init__(self, after_s: float = BEGIN_AFTER_S) -> None:
        self._after_s = after_s
        self._younger: set[DeferredStream] = set()
        """Exchanges added since the timer last fired."""
        self._older: set[DeferredStream] = set()
        """Exchanges added earlier, whose streams begin when the timer fires next. It fires every half of `after_s`."""
        self._timer_is_set = False
        """Whether the timer is set."""

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def enter(self, exchange: DeferredStream) -> set[DeferredStream]:
        """Add an exchange. Returns the set from which the exchange has to remove itself if its stream begins or ends
        earlier."""
        self._younger.add(exchange)
        if not self._timer_is_set:
            self._timer_is_set = True
            self._tick_later()
        return self._younger

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(self._after_s / 2, self._tick)

    def _tick(self) -> None:
        due_exchanges, self._older, self._younger = self._older, self._younger, set()
        for exchange in [*due_exchanges]:
            try:
                exchange.begin_stream()
            except Exception:  # a defect in one exchange must not stop the timer for all exchanges
                log.exception("An event stream could not be started because of a defect")
        due_exchanges.clear()  # breaks reference cycles with exchanges whose client is gone
        if self._older:
            self._tick_later()
        else:
            self._timer_is_set = False
