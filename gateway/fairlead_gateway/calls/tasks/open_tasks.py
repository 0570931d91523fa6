"""Counts open tasks by agent, to limit the work that one agent can leave running at servers.

Each replica counts the tasks created through it, until it sees their end or their `ttlMs` has passed. The count only
decides whether further calls may become tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_COUNTED: Final = 65_536
"""Limit on the counted tasks of all agents; beyond it the oldest is dropped."""
MAX_OPEN_SECONDS: Final = 86_400.0
"""Seconds for which a task without a known end counts as open."""


class OpenTasks:
    """Open tasks by agent. `limit` is the number per agent, 0 for no limit; `clock` is in seconds."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._expiries: OrderedDict[tuple[str, int], float] = OrderedDict()
        """Expiry time by agent and hash of the sealed id, oldest first."""
        self._by_agent: dict[str, set[int]] = {}
        """Hashes of the sealed ids by agent."""

    def __len__(self) -> int:
        return len(self._expiries)

    def has_room(self, agent: str) -> bool:
        """Whether the agent may open another task."""
        agent_tasks = self._by_agent.get(agent, set())
        if not self.limit or len(agent_tasks) < self.limit:
            return True
        now = self._clock()
        for key in [(agent, task) for task in agent_tasks if self._expiries[agent, task] <= now]:
            self._drop(key)
        return len(agent_tasks) < self.limit

    def add(self, agent: str, sealed: str, ttl_ms: int | None) -> None:
        key = agent, hash(sealed)
        self._by_agent.setdefault(agent, set()).add(key[1])
        seconds = MAX_OPEN_SECONDS if ttl_ms is None else min(max(ttl_ms, 0) / 1000, MAX_OPEN_SECONDS)
        self._expiries[key] = self._clock() + seconds
        if len(self._expiries) > MAX_COUNTED:
            self._drop(next(iter(self._expiries)))

    def remove(self, agent: str, sealed: str) -> None:
        """Record the end of a task; no-op if it is not counted here."""
        key = agent, hash(sealed)
        if key in self._expiries:
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        del self._expiries[key]
        agent_tasks = self._by_agent[key[0]]
        agent_tasks.discard(key[1])
        if not agent_tasks:
            del self._by_agent[key[0]]
