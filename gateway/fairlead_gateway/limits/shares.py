"""Shares of what agents hold: so much in all, of which one agent gets a part, so that none leaves nothing to others.

Pure module. What is held for long has a fixed share (`Shares`): nobody can be asked to give a socket back. What can be
dropped gives way (`oldest_of_largest`): an agent may have all of it until another one needs room. What waits for its
turn is in `limits.fairqueue`.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from fairlead_gateway.core.share_counts import Bound, Kind, ShareCounts

Key = TypeVar("Key")

QUARTER: Final = 4
"""Agents that it takes to hold everything, where no setting says otherwise."""


class ShareTaken(Exception):
    """An agent has its share, or nothing is left for anybody."""

    def __init__(self, bound: Bound, most: int) -> None:
        super().__init__(f"{most} are held already, the most of {'one agent' if bound == 'agent' else 'all'}")
        self.bound: Final[Bound] = bound
        self.most: Final = most
        """The bound that was reached."""


class Shares:
    """Counts what agents hold of one kind: `most` in all, of which one agent gets `each`; 0: a part of `parts`.

    The agent "" is the gateway itself, which has no share of its own. `kind` is the label of refusals in `counts`.
    """

    def __init__(
        self, kind: Kind, most: int, each: int = 0, counts: ShareCounts | None = None, *, parts: int = QUARTER
    ) -> None:
        self._kind: Final = kind
        self.most: Final = most
        self.each: Final = min(each or -(-most // parts), most)
        self.total = 0
        self._counts = counts
        self._held: dict[str, int] = {}

    def of(self, agent: str) -> int:
        """Weight of what an agent holds."""
        return self._held.get(agent, 0)

    def bound(self, agent: str, weight: int = 1) -> ShareTaken | None:
        """The bound that keeps an agent from holding more, counted as a refusal; None where there is room."""
        if agent and self.each < self.most and self.of(agent) + weight > self.each:
            reached = ShareTaken("agent", self.each)
        elif self.total + weight > self.most:  # also where one agent may have all of it
            reached = ShareTaken("gateway", self.most)
        else:
            return None
        if self._counts is not None:
            self._counts.count(self._kind, reached.bound)
        return reached

    def take(self, agent: str, weight: int = 1) -> None:
        """Count more for an agent, until `give_back`. Raises ShareTaken."""
        reached = self.bound(agent, weight)
        if reached is not None:
            raise reached
        self.add(agent, weight)

    def add(self, agent: str, weight: int = 1) -> None:
        """Count more for an agent, until `give_back`, whatever it holds."""
        self.total += weight
        self._held[agent] = self.of(agent) + weight

    def give_back(self, agent: str, weight: int = 1) -> None:
        """An agent holds less."""
        self.total -= weight
        left = self._held[agent] - weight
        if left:
            self._held[agent] = left
        else:
            del self._held[agent]

    @contextlib.contextmanager
    def held(self, agent: str, weight: int = 1) -> Iterator[None]:
        """Hold it for a while. Raises ShareTaken."""
        self.take(agent, weight)
        try:
            yield
        finally:
            self.give_back(agent, weight)


def oldest_of_largest(entries: Iterable[tuple[Key, str, int]], excess: int) -> list[Key]:
    """Keys of entries to drop, of a total weight of `excess` or a little more: each time the oldest of the agent that
    holds most. `entries` are key, agent and weight, the oldest first.
    """
    queues: dict[str, deque[tuple[Key, int]]] = {}
    totals: dict[str, int] = {}
    for key, agent, weight in entries:
        queues.setdefault(agent, deque()).append((key, weight))
        totals[agent] = totals.get(agent, 0) + weight
    heap = [(-total, agent) for agent, total in totals.items()]
    heapq.heapify(heap)
    dropped: list[Key] = []
    while excess > 0 and heap:
        total, agent = heap[0]
        key, weight = queues[agent].popleft()
        dropped.append(key)
        excess -= weight
        if queues[agent]:
            heapq.heapreplace(heap, (total + weight, agent))
        else:
            heapq.heappop(heap)
    return dropped
