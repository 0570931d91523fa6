"""Event streams that wait for something to write: each begins with its first event, or when its answer takes long.

A stream from the start costs a second write for the answer, and is kept although nothing is left to resume. One timer
serves all of them, as one for each call costs 1 µs. Compiled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

log = logging.getLogger(__name__)

BEGIN_AFTER_S: Final = 0.05
"""Seconds after which a stream begins at the latest without anything to write; at the earliest after half of them."""


class DeferredStream(Protocol):
    """Exchange whose event stream has not begun."""

    def begin_stream(self) -> bool:
        """Write the head, and the event to resume from. False where the client is gone or was answered."""
        ...


class StreamStarts:
    """Exchanges whose streams are to begin, by age. The timer runs while there are any, and once more."""

    __slots__ = ("_after_s", "_older", "_ticking", "_younger")

    def __init__(self, after_s: float = BEGIN_AFTER_S) -> None:
        self._after_s = after_s
        self._younger: set[DeferredStream] = set()
        self._older: set[DeferredStream] = set()
        """Those that were there at the last tick: half of the time has passed for them."""
        self._ticking = False

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def enter(self, exchange: DeferredStream) -> set[DeferredStream]:
        """Have its stream begun. Returns the set from which the exchange has to remove itself if it begins or ends
        before that.
        """
        self._younger.add(exchange)
        if not self._ticking:
            self._ticking = True
            self._tick_later()
        return self._younger

    def _tick_later(self) -> None:
        asyncio.get_running_loop().call_later(self._after_s / 2, self._tick)

    def _tick(self) -> None:
        due, self._older, self._younger = self._older, self._younger, set()
        for exchange in [*due]:
            try:
                exchange.begin_stream()
            except Exception:  # of one exchange; the timer is that of all
                log.exception("A stream did not begin")
        due.clear()  # one that is gone has not left: both would be a cycle
        if self._older:
            self._tick_later()
        else:
            self._ticking = False
