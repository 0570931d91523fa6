"""Bytes of answers that the gateway holds, in all and for each agent; what waits and what is refused beyond a budget.

Pure module. An answer is *arriving* while its server sends it, *held* while others of its request are not complete, and
*unread* while its client does not take it. What arrives may take half of a budget, and so may what is unread:
beyond that servers are not read (back-pressure), new requests are refused, and nothing that was executed is lost.

Per agent, because one that does not read must not take the room of others. Small answers are not counted: a connection
holds at most 64 KiB of one that arrives (`fairlead_mcp.http.exchange.SMALL`), and UNREAD bytes that its client has not
taken.
"""

from __future__ import annotations

from typing import Final, Protocol, Self

UNREAD: Final = 16 << 10
"""Bytes that a client may leave unread without being counted: the high-water mark of its connection."""


class Pausable(Protocol):
    """A connection to a server."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Budget:
    """Bytes of the whole gateway, or of one agent. 0 as `most` is any number."""

    __slots__ = ("arriving", "half", "most", "readers", "unread")

    def __init__(self, most: int) -> None:
        self.most = most
        self.half = max(1, most // 2)
        self.arriving = 0
        """Held ones included."""
        self.unread = 0
        self.readers = 0
        """Answers that arrive and are not paused."""

    @property
    def full(self) -> bool:
        """Whether new requests are refused."""
        return self.most > 0 and (self.unread >= self.half or self.arriving + self.unread >= self.most)

    @property
    def idle(self) -> bool:
        return not (self.arriving or self.unread or self.readers)

    def may_read(self, others: int) -> bool:
        """Whether an answer may go on arriving beside so many others. One always may while clients read: answers that
        are all half complete would wait for each other.
        """
        return not self.most or (self.unread < self.half and (self.arriving < self.half or not others))

    def fits(self, size: int) -> bool:
        return not self.most or self.arriving + self.unread + size <= self.most


class ArrivingAnswer:
    """One answer that is read from its server. `grow` as it does, `close` when it is complete or given up."""

    __slots__ = ("_buffers", "_source", "agent", "budget", "paused", "size")

    def __init__(self, buffers: AnswerBuffers, agent: str, budget: Budget, source: Pausable) -> None:
        self._buffers = buffers
        self._source = source
        self.agent = agent
        self.budget = budget
        self.paused = False
        self.size = 0

    def grow(self, size: int) -> None:
        """Count so many bytes more; the connection is paused where there is no room for what follows."""
        self.size += size
        self._buffers.count_growth(self, size)

    def close(self) -> None:
        self._buffers.end_arrival(self)
        if self.paused:
            self._source.resume_reading()

    def pause(self) -> None:
        self.paused = True
        self._source.pause_reading()

    def resume(self) -> None:
        self.paused = False
        self._source.resume_reading()


class Holding:
    """Complete answers that wait for others of their request. A context manager that lets go of them."""

    __slots__ = ("_agent", "_buffers", "_size")

    def __init__(self, buffers: AnswerBuffers, agent: str) -> None:
        self._buffers = buffers
        self._agent = agent
        self._size = 0

    def keep(self, size: int) -> bool:
        """Count one; False where there is no room, and it is to be dropped."""
        if not self._buffers.hold(self._agent, size):
            return False
        self._size += size
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buffers.release(self._agent, self._size)


class AnswerBuffers:
    """Budgets of answer bytes in flight. `most` and `most_each` (agent) are in bytes; 0 is any number."""

    def __init__(self, most: int = 0, most_each: int = 0) -> None:
        self.whole = Budget(most)
        self._most_each = most_each
        self._each: dict[str, Budget] = {}
        self._paused: dict[ArrivingAnswer, None] = {}
        """In the order in which they were."""
        self._full: set[str] = set()
        self.pressed = False
        """Whether anybody's requests are refused: then, and only then, `refusal` needs to be asked."""
        self.refused = {"gateway": 0, "agent": 0}
        """Requests so far, by whose budget was exhausted."""

    @property
    def paused(self) -> int:
        """Answers that wait at their servers."""
        return len(self._paused)

    @property
    def agents(self) -> int:
        """Agents with bytes here."""
        return len(self._each)

    def refusal(self, agent: str) -> tuple[int, str] | None:
        """Status and sentence for a new request of `agent`, if it is to be refused."""
        if self.whole.full:
            self.refused["gateway"] += 1
            return 503, (
                f"{self.whole.arriving + self.whole.unread} bytes of answers are on their way or not read by clients, "
                "which is all that the gateway keeps; try again later"
            )
        if agent in self._full:
            self.refused["agent"] += 1
            budget = self._each[agent]
            return 429, (
                f"{budget.arriving + budget.unread} bytes of your answers are on their way or not read, which is all "
                "that the gateway keeps for one agent; read them first"
            )
        return None

    def arrival(self, agent: str, source: Pausable) -> ArrivingAnswer:
        """Begin to count an answer for `agent`."""
        arrival = ArrivingAnswer(self, agent, self._of(agent), source)
        arrival.budget.readers += 1
        self.whole.readers += 1
        return arrival

    def holding(self, agent: str) -> Holding:
        return Holding(self, agent)

    def unread(self, agent: str, more: int) -> None:
        """The client of an answer for `agent` has so many bytes more, or less, that it did not read."""
        budget = self._of(agent)
        budget.unread += more
        self.whole.unread += more
        self._settle(agent, budget, less=more < 0)

    # Of arrivals and holdings

    def count_growth(self, arrival: ArrivingAnswer, size: int) -> None:
        budget = arrival.budget
        budget.arriving += size
        self.whole.arriving += size
        self._judge(arrival.agent, budget)
        if not arrival.paused and not self._may_read(arrival):
            self._count(arrival, -1)
            self._paused[arrival] = None
            arrival.pause()
            self._go_on()  # it may have been the only one that went on, while others waited for it

    def end_arrival(self, arrival: ArrivingAnswer) -> None:
        if arrival.paused:
            del self._paused[arrival]
        else:
            self._count(arrival, -1)
        self.release(arrival.agent, arrival.size)

    def hold(self, agent: str, size: int) -> bool:
        budget = self._of(agent)
        fits = budget.fits(size) and self.whole.fits(size)
        if fits:
            budget.arriving += size
            self.whole.arriving += size
        self._settle(agent, budget)
        return fits

    def release(self, agent: str, size: int) -> None:
        """Give back bytes of answers that were arriving or held."""
        budget = self._of(agent)
        budget.arriving -= size
        self.whole.arriving -= size
        self._settle(agent, budget, less=True)

    # Inside

    def _of(self, agent: str) -> Budget:
        budget = self._each.get(agent)
        if budget is None:
            budget = self._each[agent] = Budget(self._most_each)
        return budget

    def _settle(self, agent: str, budget: Budget, *, less: bool = False) -> None:
        self._judge(agent, budget)
        if less and self._paused:
            self._go_on()
        if budget.idle:
            self._each.pop(agent, None)

    def _judge(self, agent: str, budget: Budget) -> None:
        if budget.full:
            self._full.add(agent)
        else:
            self._full.discard(agent)
        self.pressed = bool(self._full) or self.whole.full

    def _go_on(self) -> None:
        """Read on where there is room again, those first that have waited longest."""
        for arrival in [*self._paused]:
            if self._may_read(arrival):
                del self._paused[arrival]
                self._count(arrival, 1)
                arrival.resume()

    def _may_read(self, arrival: ArrivingAnswer) -> bool:
        own = not arrival.paused
        return all(budget.may_read(budget.readers - own) for budget in (self.whole, arrival.budget))

    def _count(self, arrival: ArrivingAnswer, readers: int) -> None:
        arrival.budget.readers += readers
        self.whole.readers += readers
