"""Calls of one response: when the model has all results that it waits for, and whether the client answers it, too.

Pure. Where a response calls tools of the client as well, the client asks for the next response by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

MOST: Final = 64
"""Responses with calls that are remembered."""


class _Round(msgspec.Struct):
    waiting: set[str] = msgspec.field(default_factory=set)
    client: bool = False
    client_asked: bool = False
    """Whether the client asked for a response since."""
    over: bool = False
    completed: bool = False


class CallRounds:
    """Responses of one session that made calls."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[str, _Round] = OrderedDict()

    def began(self, response: str) -> None:
        """A response began."""
        self._rounds[response] = _Round()
        if len(self._rounds) > MOST:
            self._rounds.popitem(last=False)

    def calls(self, response: str, call: str) -> None:
        """A response made a call that the gateway runs."""
        self._of(response).waiting.add(call)

    def client_calls(self, response: str) -> None:
        """A response made a call that the client runs."""
        self._of(response).client = True

    def done(self, response: str, *, completed: bool) -> None:
        """A response is over; not `completed` where it was interrupted, or failed."""
        found = self._of(response)
        found.over = True
        found.completed = completed
        if not found.waiting:
            del self._rounds[response]

    def client_asks(self) -> None:
        """The client asks for a response."""
        for each in self._rounds.values():
            each.client_asked = True

    def answered(self, call: str) -> bool:
        """A result was sent. Whether the model is to go on now: it has all results of a response, and nobody else asks
        it to.
        """
        for response, found in self._rounds.items():
            if call in found.waiting:
                found.waiting.discard(call)
                if found.waiting or not found.over:
                    return False
                del self._rounds[response]
                return found.completed and (not found.client or found.client_asked)
        return False

    def _of(self, response: str) -> _Round:
        return self._rounds.setdefault(response, _Round())
