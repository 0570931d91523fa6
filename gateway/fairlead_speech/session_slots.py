"""Slots for speech sessions: so many at a time, of which one agent gets a share, and as many for sockets that wait for
their set-up. Pure module.
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_offers.problems import RATE_LIMITED

_RETRY: Final = {"retry-after": "5"}


class SessionSlots:
    """Slots for `most` sessions, of which one agent gets `each`; 0: a quarter."""

    def __init__(self, most: int, each: int = 0, counts: ShareCounts | None = None) -> None:
        self._open = Shares("speech_sessions", most, each, counts)
        self._waiting = Shares("speech_setups", most, each, counts)

    @property
    def open(self) -> int:
        """Sessions that are open."""
        return self._open.total

    def slot(self, agent: str) -> SessionSlot:
        """A slot that is not taken yet."""
        return SessionSlot(self._open, self._waiting, agent)


class SessionSlot:
    """Slot of one session. `release` it, in any case."""

    def __init__(self, open_: Shares, waiting: Shares, agent: str) -> None:
        self._open = open_
        self._waiting = waiting
        self._agent = agent
        self._taken: Shares | None = None

    def wait(self) -> None:
        """Take a slot for a socket that waits for its set-up. Raises LlmError, also while no session could begin."""
        reached = self._open.bound(self._agent)
        if reached is not None:
            raise _refusal(reached, "are open already")
        self._take(self._waiting, "wait for their set-up")

    def begin(self) -> None:
        """Take a slot for a session that is set up, in exchange for that of its socket. Raises LlmError."""
        self._take(self._open, "are open already")

    def release(self) -> None:
        """Give back what is taken, once."""
        self._move(None)

    def _take(self, shares: Shares, what: str) -> None:
        try:
            shares.take(self._agent)
        except ShareTaken as reached:
            raise _refusal(reached, what) from reached
        self._move(shares)

    def _move(self, to: Shares | None) -> None:
        taken, self._taken = self._taken, to
        if taken is not None:
            taken.give_back(self._agent)


def _refusal(reached: ShareTaken, what: str) -> LlmError:
    if reached.bound == "agent":
        text = f"{reached.most} of your speech sessions {what}, the most of one agent"
        return LlmError(429, text, RATE_LIMITED, headers=_RETRY)
    text = f"{reached.most} speech sessions {what}, the most of this gateway"
    return LlmError(503, text, "unavailable", headers=_RETRY)
