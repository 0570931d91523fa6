"""Fair queue: one queue for each agent, served in rotation (deficit round robin, Shreedhar and Varghese 1995).

Pure module. Weights are equal and every call costs the same, so a turn is one call and no deficit is carried over: how
long a call will take is not known when it is admitted. An agent with five hundred calls in the queue waits for its own;
one with a single call waits for at most one call of each other agent.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")
"""Hashable by identity."""


class _AgentQueue(Generic[Waiter]):
    """The calls of one agent, in their order, with the time until which each waits. Never empty in the ring."""

    __slots__ = ("agent", "waiting")

    def __init__(self, agent: Hashable) -> None:
        self.agent = agent
        self.waiting: OrderedDict[Waiter, float] = OrderedDict()


class FairQueue(Generic[Waiter]):
    """Fair queue of waiting calls. A waiter is in it once."""

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
