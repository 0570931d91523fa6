"""How agents share what is scarce, so that none leaves nothing to others.

Pure module. What is held for long has a fixed share (`Shares`): nobody can be asked to give a socket back. What can be
dropped gives way (`oldest_of_largest`): an agent may have all of it until another one needs room. What waits for its
turn stands in a queue for each agent (`FairQueue`), served in rotation.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from fairlead_gateway.core.share_counts import Bound, Kind, ShareCounts

Key = TypeVar("Key")
Waiter = TypeVar("Waiter")
"""Hashable by identity."""

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
    def hold(self, agent: str, weight: int = 1) -> Iterator[None]:
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


class _AgentQueue(Generic[Waiter]):
    """The calls of one agent, in their order, with the time until which each waits. Never empty in the ring."""

    __slots__ = ("agent", "waiting")

    def __init__(self, agent: Hashable) -> None:
        self.agent = agent
        self.waiting: OrderedDict[Waiter, float] = OrderedDict()


class FairQueue(Generic[Waiter]):
    """Fair queue of waiting calls (deficit round robin, Shreedhar and Varghese 1995). A waiter is in it once.

    Weights are equal and every call costs the same, so a turn is one call and no deficit is carried over: how long a
    call will take is not known when it is admitted. An agent with five hundred calls in the queue waits for its own;
    one with a single call waits for at most one call of each other agent.
    """

    def __init__(self) -> None:
        self.ring: deque[_AgentQueue[Waiter]] = deque()
        """Agents that wait, the next one first: empty when nobody does."""
        self._lines: dict[Hashable, _AgentQueue[Waiter]] = {}
        self._line_of: dict[Waiter, _AgentQueue[Waiter]] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def add(self, agent: Hashable, waiter: Waiter, until: float) -> None:
        line = self._lines.get(agent)
        if line is None:
            line = self._lines[agent] = _AgentQueue(agent)
            self.ring.append(line)
        line.waiting[waiter] = until
        self._line_of[waiter] = line

    def next(self) -> Waiter:
        """Take out whose turn it is. Raises IndexError where nobody waits."""
        line = self.ring.popleft()
        waiter, _ = line.waiting.popitem(last=False)
        del self._line_of[waiter]
        if line.waiting:
            self.ring.append(line)
        else:
            del self._lines[line.agent]
        return waiter

    def remove(self, waiter: Waiter) -> bool:
        """Whether it stood here."""
        line = self._line_of.pop(waiter, None)
        if line is None:
            return False
        del line.waiting[waiter]
        if not line.waiting:
            del self._lines[line.agent]
            self.ring.remove(line)
        return True

    def give_way(self, agent: Hashable) -> Waiter | None:
        """For a call of `agent`, take out the last one of the agent that has most of them waiting; None where that is
        no other, or would then have fewer than `agent`: the queue is full of equals.
        """
        longest = max(self.ring, key=lambda line: len(line.waiting), default=None)
        own = self._lines.get(agent)
        if longest is None or len(longest.waiting) <= (0 if own is None else len(own.waiting)) + 1:
            return None
        waiter = next(reversed(longest.waiting))
        self.remove(waiter)
        return waiter

    def take_late(self, now: float) -> list[Waiter]:
        """Take out those that waited until now."""
        late = [waiter for line in self.ring for waiter, until in line.waiting.items() if until <= now]
        for waiter in late:
            self.remove(waiter)
        return late

    def take_all(self) -> Iterator[Waiter]:
        """Take out everybody, in turn."""
        while self.ring:
            yield self.next()

    def first_end(self) -> float:
        """The earliest time until which one of them waits. Raises ValueError where nobody does."""
        return min(until for line in self.ring for until in line.waiting.values())
