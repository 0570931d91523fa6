"""Counts open tasks by agent, to limit the work that one agent can leave running at servers.

Each replica of the gateway counts the tasks that were created through it. A task counts until the replica sees the
task's end, or until its `ttlMs` has passed. The count only decides whether further calls may become tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_COUNTED: Final = 65_536
"""Limit on the counted tasks of all agents; beyond it the oldest task counts no more."""
MAX_OPEN_SECONDS: Final = 86_400.0
"""Longest time in seconds for which a task counts as open, if its end is not seen."""


class OpenTasks:
    """Counter of open tasks by agent. `limit` is the number per agent, 0 for no limit; `clock` is in seconds."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._expiries: OrderedDict[tuple[str, int], float] = OrderedDict()
        """Time at which a task ceases to count, by agent and hash of the sealed task id; the oldest task first."""
        self._by_agent: dict[str, set[int]] = {}
        """Hashes of the sealed task ids by agent."""

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
        """Record the end of a task; no-op if the task is not counted here."""
        key = agent, hash(sealed)
        if key in self._expiries:
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        del self._expiries[key]
        agent_tasks = self._by_agent[key[0]]
        agent_tasks.discard(key[1])
        if not agent_tasks:
            del self._by_agent[key[0]]
