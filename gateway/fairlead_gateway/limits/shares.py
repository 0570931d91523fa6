"""Shares limited resources between agents, so that no agent can use all of a resource.

Pure module. Each agent has a fixed share of resources that are held for long, such as sockets (`Shares`). One agent may
use all resources that can be taken back, until another agent needs some of them (`oldest_of_largest`). Waiting calls
are in a queue per agent, and the queues are served in rotation (`FairQueue`). Connections of clients are limited in
total, and per address (`ConnectionLimiter`): a connection beyond a limit is rejected with an HTTP response, and without
one if many connections are being rejected.
"""

from __future__ import annotations

import contextlib
import heapq
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from fairlead_gateway.core.share_counts import Bound, Kind, ShareCounts
from fairlead_mcp.addresses import client_of

Key = TypeVar("Key")
Waiter = TypeVar("Waiter")
"""Hashable by identity."""
DEFAULT_PARTS: Final = 4
"""Number of equal parts of a resource, of which an agent's share is one by default."""
MAX_ANSWERED: Final = 256
"""Maximum number of rejected connections that are open to get a response; further rejected connections are closed
without a response."""


class ShareTaken(Exception):
    """The limit of an agent, or the limit of all agents together, is reached."""

    def __init__(self, bound: Bound, limit: int) -> None:
        holder = "one agent" if bound == "agent" else "all agents together"
        super().__init__(f"{limit} are in use already, which is the limit for {holder}")
        self.bound: Final[Bound] = bound
        self.limit: Final = limit
        """The limit that was reached."""


class Shares:
    """Counts a resource that agents hold. All agents together may hold `limit`, and each agent `each`; `each` 0 means
    one of `parts` equal parts.

    The agent "" is the gateway itself, which has no limit of its own. `kind` is the label of refusals in `counts`.
    """

    def __init__(
        self, kind: Kind, limit: int, each: int = 0, counts: ShareCounts | None = None, *, parts: int = DEFAULT_PARTS
    ) -> None:
        self._kind: Final = kind
        self.limit: Final = limit
        self.each: Final = min(each or -(-limit // parts), limit)
        self.total = 0
        self._counts = counts
        self._amounts: dict[str, int] = {}

    def of(self, agent: str) -> int:
        """Amount that an agent holds."""
        return self._amounts.get(agent, 0)

    def bound(self, agent: str, weight: int = 1) -> ShareTaken | None:
        """The limit that `weight` more would exceed, after counting a refusal; None if `weight` more are allowed."""
        if agent and self.each < self.limit and self.of(agent) + weight > self.each:
            exceeded = ShareTaken("agent", self.each)
        elif self.total + weight > self.limit:  # also if the limit of one agent is as high as the total limit
            exceeded = ShareTaken("gateway", self.limit)
        else:
            return None
        if self._counts is not None:
            self._counts.count(self._kind, exceeded.bound)
        return exceeded

    def take(self, agent: str, weight: int = 1) -> None:
        """Count `weight` for an agent until `give_back`. Raises ShareTaken."""
        exceeded = self.bound(agent, weight)
        if exceeded is not None:
            raise exceeded
        self.add(agent, weight)

    def add(self, agent: str, weight: int = 1) -> None:
        """Count `weight` for an agent until `give_back`, without checking limits."""
        self.total += weight
        self._amounts[agent] = self.of(agent) + weight

    def give_back(self, agent: str, weight: int = 1) -> None:
        """Subtract `weight` from the amount of an agent."""
        self.total -= weight
        remaining = self._amounts[agent] - weight
        if remaining:
            self._amounts[agent] = remaining
        else:
            del self._amounts[agent]

    @contextlib.contextmanager
    def hold(self, agent: str, weight: int = 1) -> Iterator[None]:
        """Count `weight` for an agent within a context. Raises ShareTaken."""
        self.take(agent, weight)
        try:
            yield
        finally:
            self.give_back(agent, weight)


def oldest_of_largest(entries: Iterable[tuple[Key, str, int]], excess: int) -> list[Key]:
    """Select entries to drop, until their total weight is at least `excess`, and return their keys. Each step selects
    the oldest entry of the agent whose remaining entries weigh most. `entries` are key, agent and weight, oldest first.
    """
    queues: dict[str, deque[tuple[Key, int]]] = {}
    totals: dict[str, int] = {}
    for key, agent, weight in entries:
        queues.setdefault(agent, deque()).append((key, weight))
        totals[agent] = totals.get(agent, 0) + weight
    heap = [(-total, agent) for agent, total in totals.items()]
    heapq.heapify(heap)
    keys: list[Key] = []
    while excess > 0 and heap:
        total, agent = heap[0]
        key, weight = queues[agent].popleft()
        keys.append(key)
        excess -= weight
        if queues[agent]:
            heapq.heapreplace(heap, (total + weight, agent))
        else:
            heapq.heappop(heap)
    return keys


class _AgentQueue(Generic[Waiter]):
    """Waiting calls of one agent in order, each with its deadline. An empty queue is removed from the rotation."""

    __slots__ = ("agent", "deadlines")

    def __init__(self, agent: Hashable) -> None:
        self.agent = agent
        self.deadlines: OrderedDict[Waiter, float] = OrderedDict()


class FairQueue(Generic[Waiter]):
    """Fair queue of waiting calls (deficit round robin, Shreedhar and Varghese 1995). Each waiter is in the queue at
    most once.

    All calls have the same cost, because their duration is unknown when they are admitted. So each turn is one call,
    and no deficit is carried over. An agent with 500 queued calls delays its own calls; an agent with a single call
    waits for at most one call of each other agent.
    """

    def __init__(self) -> None:
        self.ring: deque[_AgentQueue[Waiter]] = deque()
        """Queues of the waiting agents. The first queue is served next."""
        self._queues: dict[Hashable, _AgentQueue[Waiter]] = {}
        self._queue_of: dict[Waiter, _AgentQueue[Waiter]] = {}

    def __len__(self) -> int:
        return len(self._queue_of)

    def add(self, agent: Hashable, waiter: Waiter, deadline: float) -> None:
        queue = self._queues.get(agent)
        if queue is None:
            queue = self._queues[agent] = _AgentQueue(agent)
            self.ring.append(queue)
        queue.deadlines[waiter] = deadline
        self._queue_of[waiter] = queue

    def next(self) -> Waiter:
        """Remove and return the next waiter. Raises IndexError if the queue is empty."""
        queue = self.ring.popleft()
        waiter, _ = queue.deadlines.popitem(last=False)
        del self._queue_of[waiter]
        if queue.deadlines:
            self.ring.append(queue)
        else:
            del self._queues[queue.agent]
        return waiter

    def remove(self, waiter: Waiter) -> bool:
        """Remove a waiter. Returns False if it is not in the queue."""
        queue = self._queue_of.pop(waiter, None)
        if queue is None:
            return False
        del queue.deadlines[waiter]
        if not queue.deadlines:
            del self._queues[queue.agent]
            self.ring.remove(queue)
        return True

    def give_way(self, agent: Hashable) -> Waiter | None:
        """Make room for a call of `agent`: remove and return the last waiter of the agent with the most waiting calls.
        None if that agent does not have more waiting calls than `agent` would have.
        """
        longest_queue = max(self.ring, key=lambda queue: len(queue.deadlines), default=None)
        agent_queue = self._queues.get(agent)
        if (
            longest_queue is None
            or len(longest_queue.deadlines) <= (0 if agent_queue is None else len(agent_queue.deadlines)) + 1
        ):
            return None
        waiter = next(reversed(longest_queue.deadlines))
        self.remove(waiter)
        return waiter

    def take_late(self, now: float) -> list[Waiter]:
        """Remove and return the waiters whose deadline has passed."""
        deadlines = (item for queue in self.ring for item in queue.deadlines.items())
        late_waiters = [waiter for waiter, deadline in deadlines if deadline <= now]
        for waiter in late_waiters:
            self.remove(waiter)
        return late_waiters

    def take_all(self) -> Iterator[Waiter]:
        """Remove all waiters, in the order of their turns."""
        while self.ring:
            yield self.next()

    def first_end(self) -> float:
        """The earliest deadline of all waiters. Raises ValueError if the queue is empty."""
        return min(deadline for queue in self.ring for deadline in queue.deadlines.values())


class Admission(msgspec.Struct, frozen=True):
    """Decision about one connection. Pass it to `ConnectionLimiter.leave` at the end of the connection."""

    client: str
    """Address or network for which the connection is counted; empty if it counts only for the total."""
    admitted: bool = False
    rejection: tuple[int, str] | None = None
    """HTTP status and message of the rejection; None if the connection is admitted, or closed without a response."""


CLOSED: Final = Admission("")
"""Decision that a connection is closed without a response."""


class ConnectionLimiter:
    """Counts and limits open connections.

    `limit` is the limit on all connections; 0 sets no limit. `limit_each` is the limit per address; 0 stands for three
    quarters of `limit`. With 0, addresses for which `many_share` is true, such as trusted proxies, have no limit of
    their own. `counts` counts rejections.
    """

    def __init__(
        self,
        limit: int = 0,
        limit_each: int = 0,
        many_share: Callable[[str], bool] = lambda address: False,
        counts: ShareCounts | None = None,
    ) -> None:
        self._shares = Shares(
            "connections", limit or sys.maxsize, limit_each or -(-limit * 3 // 4) or sys.maxsize, counts
        )
        self._many_share = many_share
        self._exempts_shared_addresses = limit > 0 and limit_each == 0
        """Whether addresses shared by many clients are exempt from the limit per address."""
        self._open_rejections = 0
        """Number of rejected connections that are getting a response."""
        self.rejected = 0
        """Number of connections rejected so far."""

    @property
    def admitted(self) -> int:
        """Number of admitted connections that are open."""
        return self._shares.total

    def enter(self, address: str) -> Admission:
        """Admit or reject a new connection from an address."""
        client = "" if self._exempts_shared_addresses and self._many_share(address) else client_of(address)
        exceeded = self._shares.bound(client)
        if exceeded is not None:
            self.rejected += 1
            if self._open_rejections >= MAX_ANSWERED:
                return CLOSED
            self._open_rejections += 1
            return Admission(client, rejection=_rejection_of(exceeded))
        self._shares.add(client)
        return Admission(client, admitted=True)

    def leave(self, admission: Admission) -> None:
        """Record the end of a connection."""
        self._open_rejections -= admission.rejection is not None
        if admission.admitted:
            self._shares.give_back(admission.client)


def _rejection_of(exceeded: ShareTaken) -> tuple[int, str]:
    if exceeded.bound == "agent":
        return 429, f"{exceeded.limit} connections from this address are open, the limit for one address"
    return 503, f"{exceeded.limit} connections are open, the limit of this gateway"
