"""Slots for speech sessions: so many at a time, of which one agent gets a share, and as many for sockets that wait for
their set-up. Pure module.
"""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Final

from fairlead_models.errors import LlmError
from fairlead_rest.problems import RATE_LIMITED

SHARE: Final = 4
"""Part of the slots that one agent gets where no setting says otherwise: a quarter."""
_RETRY: Final = {"retry-after": "5"}


class _Count:
    """Slots of one kind that are taken, by agent. `what` names them in refusals."""

    def __init__(self, what: str, most: int, each: int) -> None:
        self._what = what
        self._most = most
        self._each = each
        self._taken: Counter[str] = Counter()
        self.total = 0

    def check(self, agent: str) -> None:
        """Raises LlmError where the agent gets no further slot."""
        if self.total >= self._most:
            raise LlmError(
                503,
                f"{self._most} speech sessions {self._what}, the most of this gateway",
                "unavailable",
                headers=_RETRY,
            )
        if self._taken[agent] >= self._each:
            raise LlmError(
                429,
                f"{self._each} of your speech sessions {self._what}, the most of one agent",
                RATE_LIMITED,
                headers=_RETRY,
            )

    def take(self, agent: str) -> None:
        """Raises LlmError as `check` does."""
        self.check(agent)
        self.total += 1
        self._taken[agent] += 1

    def give_back(self, agent: str) -> None:
        self.total -= 1
        self._taken[agent] -= 1
        if not self._taken[agent]:
            del self._taken[agent]


class SessionSlots:
    """Slots for `most` sessions, of which one agent gets `each`; 0: a quarter."""

    def __init__(self, most: int, each: int = 0) -> None:
        share = each or ceil(most / SHARE)
        self._open = _Count("are open already", most, share)
        self._waiting = _Count("wait for their set-up", most, share)

    @property
    def open(self) -> int:
        """Sessions that are open."""
        return self._open.total

    def slot(self, agent: str) -> SessionSlot:
        """A slot that is not taken yet."""
        return SessionSlot(self._open, self._waiting, agent)


class SessionSlot:
    """Slot of one session. `release` it, in any case."""

    def __init__(self, open_: _Count, waiting: _Count, agent: str) -> None:
        self._open = open_
        self._waiting = waiting
        self._agent = agent
        self._taken: _Count | None = None

    def wait(self) -> None:
        """Take a slot for a socket that waits for its set-up. Raises LlmError, also while no session could begin."""
        self._open.check(self._agent)
        self._waiting.take(self._agent)
        self._taken = self._waiting

    def begin(self) -> None:
        """Take a slot for a session that is set up, in exchange for that of its socket. Raises LlmError."""
        self._open.take(self._agent)
        self._move(self._open)

    def release(self) -> None:
        """Give back what is taken, once."""
        self._move(None)

    def _move(self, to: _Count | None) -> None:
        taken, self._taken = self._taken, to
        if taken is not None:
            taken.give_back(self._agent)
