"""Counts the tasks that each caller has open, so that nobody fills a server with work that goes on by itself.

Each replica counts the tasks that it saw being created, until it sees their end, or their `ttlMs` is over. Nothing
depends on the count but whether further calls may become tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_COUNTED: Final = 65_536
"""Tasks of all callers that are counted; beyond it the oldest is forgotten."""
LONGEST: Final = 86_400.0
"""Seconds that a task without an end counts as open."""


class OpenTasks:
    """Open tasks by caller. `most`: of one caller, 0 for any number; `clock` in seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most = most
        self._clock = clock
        self._expiries: OrderedDict[tuple[str, int], float] = OrderedDict()
        """Caller and hash of the sealed id, oldest first, to the time that it is over by."""
        self._of: dict[str, set[int]] = {}
        """Hashes of the sealed ids, by caller."""

    def __len__(self) -> int:
        return len(self._expiries)

    def room(self, agent: str) -> bool:
        """Whether a caller may have one more."""
        mine = self._of.get(agent, set())
        if not self.most or len(mine) < self.most:
            return True
        now = self._clock()
        for key in [(agent, task) for task in mine if self._expiries[agent, task] <= now]:
            self._drop(key)
        return len(mine) < self.most

    def add(self, agent: str, sealed: str, ttl_ms: int | None) -> None:
        key = agent, hash(sealed)
        self._of.setdefault(agent, set()).add(key[1])
        seconds = LONGEST if ttl_ms is None else min(max(ttl_ms, 0) / 1000, LONGEST)
        self._expiries[key] = self._clock() + seconds
        if len(self._expiries) > MAX_COUNTED:
            self._drop(next(iter(self._expiries)))

    def remove(self, agent: str, sealed: str) -> None:
        """No-op for a task that is not counted here."""
        key = agent, hash(sealed)
        if key in self._expiries:
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        del self._expiries[key]
        mine = self._of[key[0]]
        mine.discard(key[1])
        if not mine:
            del self._of[key[0]]
