"""Limits the bytes of responses that the gateway buffers, in total and per agent.

Pure module. A response is *arriving* while its server sends it, *held* while other responses of the same request are
incomplete, and *unread* while its client does not read it. Arriving and unread responses may each take half of a
budget. Beyond that, the gateway stops reading from servers (back-pressure) and refuses new requests; no result of an
executed call is lost.

The budget per agent keeps an agent that does not read from taking the memory of others. Small responses are not
counted: a connection buffers at most 64 KiB of an arriving response (`fairlead_mcp.http.exchange.SMALL`) and `UNREAD`
bytes that its client has not read.
"""

from __future__ import annotations

from typing import Final, Protocol, Self

UNREAD: Final = 16 << 10
"""Maximum number of bytes that a client may leave unread without being counted: the high-water mark of its
connection.
"""


class Pausable(Protocol):
    """A connection to a server."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Budget:
    """Bytes of responses that are buffered for the whole gateway or for one agent. `max_bytes` 0 means unlimited."""

    __slots__ = ("arriving", "half", "max_bytes", "readers", "unread")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.half = max(1, max_bytes // 2)
        self.arriving = 0
        """Bytes of arriving and held responses."""
        self.unread = 0
        self.readers = 0
        """Arriving responses that are not paused."""

    @property
    def full(self) -> bool:
        """Whether new requests are refused."""
        return self.max_bytes > 0 and (self.unread >= self.half or self.arriving + self.unread >= self.max_bytes)

    @property
    def idle(self) -> bool:
        return not (self.arriving or self.unread or self.readers)

    def may_read(self, others: int) -> bool:
        """Whether the gateway may continue to read a response while it reads `others` other responses. While clients
        read, one response may always continue; otherwise incomplete responses would wait for each other forever.
        """
        return not self.max_bytes or (self.unread < self.half and (self.arriving < self.half or not others))

    def fits(self, size: int) -> bool:
        return not self.max_bytes or self.arriving + self.unread + size <= self.max_bytes


class ArrivingAnswer:
    """A response that is being read from its server. The reader calls `grow` with each chunk, and `close` at the end or
    when it aborts."""

    __slots__ = ("_buffers", "_source", "agent", "budget", "paused", "size")

    def __init__(self, buffers: AnswerBuffers, agent: str, budget: Budget, source: Pausable) -> None:
        self._buffers = buffers
        self._source = source
        self.agent = agent
        self.budget = budget
        self.paused = False
        self.size = 0

    def grow(self, size: int) -> None:
        """Count `size` more bytes; pause the connection if the budget is exhausted."""
        self.size += size
        self._buffers.count_growth(self, size)

    def hand_over(self) -> None:
        """Stop counting the bytes received so far: the response is complete, and its buffer counts them."""
        size, self.size = self.size, 0
        self._buffers.release(self.agent, size)

    def close(self) -> None:
        self._buffers.end_arrival(self)
        self.size = 0
        if self.paused:
            self._source.resume_reading()

    def pause(self) -> None:
        self.paused = True
        self._source.pause_reading()

    def resume(self) -> None:
        self.paused = False
        self._source.resume_reading()


class HeldResponses:
    """Complete responses that are buffered until the other responses of their request are complete. It is a context
    manager that releases their bytes at the end.
    """

    __slots__ = ("_agent", "_buffers", "_size")

    def __init__(self, buffers: AnswerBuffers, agent: str) -> None:
        self._buffers = buffers
        self._agent = agent
        self._size = 0

    def add(self, size: int) -> bool:
        """Count a response of `size` bytes. Returns False if the budget has no room, and the response has to be
        dropped."""
        if not self._buffers.hold(self._agent, size):
            return False
        self._size += size
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buffers.release(self._agent, self._size)


class AnswerBuffers:
    """Budgets of buffered response bytes. `max_bytes` is for the whole gateway and `max_bytes_each` for each agent, in
    bytes; 0 means unlimited.
    """

    def __init__(self, max_bytes: int = 0, max_bytes_each: int = 0) -> None:
        self.whole = Budget(max_bytes)
        self._max_bytes_each = max_bytes_each
        self._budgets: dict[str, Budget] = {}
        self._paused_answers: dict[ArrivingAnswer, None] = {}
        """Paused responses in the order in which they were paused."""
        self._full_agents: set[str] = set()
        self.refuses_requests = False
        """Whether requests of at least one agent are refused. While this is False, `refusal` need not be called."""
        self.refused = {"gateway": 0, "agent": 0}
        """Number of requests refused so far, by the budget that was exhausted."""

    @property
    def paused_responses(self) -> int:
        """Number of responses whose connections are paused."""
        return len(self._paused_answers)

    @property
    def agents(self) -> int:
        """Number of agents with buffered bytes."""
        return len(self._budgets)

    def refusal(self, agent: str) -> tuple[int, str] | None:
        """HTTP status and message with which a new request of `agent` is refused; None if it is accepted."""
        if self.whole.full:
            self.refused["gateway"] += 1
            return 503, (
                f"{self.whole.arriving + self.whole.unread} bytes of responses are in transit or not read by clients, "
                "which is the maximum that the gateway buffers; try again later"
            )
        if agent in self._full_agents:
            self.refused["agent"] += 1
            budget = self._budgets[agent]
            return 429, (
                f"{budget.arriving + budget.unread} bytes of your responses are in transit or not read, which is the "
                "maximum that the gateway buffers for one agent; read them first"
            )
        return None

    def arrival(self, agent: str, source: Pausable) -> ArrivingAnswer:
        """Begin to count a response for `agent`."""
        arrival = ArrivingAnswer(self, agent, self._budget_of(agent), source)
        arrival.budget.readers += 1
        self.whole.readers += 1
        return arrival

    def hold_responses(self, agent: str) -> HeldResponses:
        return HeldResponses(self, agent)

    def add_unread(self, agent: str, change: int) -> None:
        """Add `change`, which may be negative, to the number of bytes that clients of `agent` have not read."""
        budget = self._budget_of(agent)
        budget.unread += change
        self.whole.unread += change
        self._apply(agent, budget, is_smaller=change < 0)

    # Methods for `ArrivingAnswer` and `HeldResponses`

    def count_growth(self, arrival: ArrivingAnswer, size: int) -> None:
        budget = arrival.budget
        budget.arriving += size
        self.whole.arriving += size
        self._update_paused(arrival.agent, budget)
        if not arrival.paused and not self._may_read(arrival):
            self._count(arrival, -1)
            self._paused_answers[arrival] = None
            arrival.pause()
            self._resume_paused()  # this may have been the only response that was being read

    def end_arrival(self, arrival: ArrivingAnswer) -> None:
        if arrival.paused:
            del self._paused_answers[arrival]
        else:
            self._count(arrival, -1)
        self.release(arrival.agent, arrival.size)

    def hold(self, agent: str, size: int) -> bool:
        budget = self._budget_of(agent)
        fits = budget.fits(size) and self.whole.fits(size)
        if fits:
            budget.arriving += size
            self.whole.arriving += size
        self._apply(agent, budget)
        return fits

    def release(self, agent: str, size: int) -> None:
        """Subtract `size` bytes of arriving or held responses."""
        budget = self._budget_of(agent)
        budget.arriving -= size
        self.whole.arriving -= size
        self._apply(agent, budget, is_smaller=True)

    # Internals

    def _budget_of(self, agent: str) -> Budget:
        budget = self._budgets.get(agent)
        if budget is None:
            budget = self._budgets[agent] = Budget(self._max_bytes_each)
        return budget

    def _apply(self, agent: str, budget: Budget, *, is_smaller: bool = False) -> None:
        """Apply a changed budget: decide whether new requests are refused. If it became smaller, resume paused
        responses."""
        self._update_paused(agent, budget)
        if is_smaller and self._paused_answers:
            self._resume_paused()
        if budget.idle:
            self._budgets.pop(agent, None)

    def _update_paused(self, agent: str, budget: Budget) -> None:
        if budget.full:
            self._full_agents.add(agent)
        else:
            self._full_agents.discard(agent)
        self.refuses_requests = bool(self._full_agents) or self.whole.full

    def _resume_paused(self) -> None:
        """Resume paused responses for which there is room again, in the order in which they were paused."""
        for arrival in [*self._paused_answers]:
            if self._may_read(arrival):
                del self._paused_answers[arrival]
                self._count(arrival, 1)
                arrival.resume()

    def _may_read(self, arrival: ArrivingAnswer) -> bool:
        is_counted = not arrival.paused
        return all(budget.may_read(budget.readers - is_counted) for budget in (self.whole, arrival.budget))

    def _count(self, arrival: ArrivingAnswer, readers: int) -> None:
        arrival.budget.readers += readers
        self.whole.readers += readers
