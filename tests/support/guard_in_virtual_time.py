"""A guard with a clock that the test advances, and callers that wait for admission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead_gateway.upstream.guard import PLAIN, QUEUED, Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import ConnectionLost, McpError

LOST = ConnectionLost("it hung up", sent=True)


class World:
    """A guard whose clock a test advances."""

    def __init__(self, **bounds: Any) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self.guard = Guard(
            "a/x", AdmissionLimits(**{"limit": 2, **bounds}), Timing(self._later, lambda: self.now, lambda: 0.0)
        )

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        self._timers.append((self.now + delay, action))

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((at, i) for i, (at, _) in enumerate(self._timers) if at <= end):
            at, index = due[0]
            action = self._timers.pop(index)[1]
            self.now = at
            action()
        self.now = end

    def caller(self, seconds: float = 60.0, agent: str = "ada") -> Caller:
        return Caller(self.now + seconds, agent)

    def fail(self, times: int = 1, error: McpError = LOST) -> None:
        for _ in range(times):
            assert self.guard.enter_now()
            self.guard.leave(PLAIN, error, self.guard.responses_seen)

    def state(self) -> str:
        return self.guard.state


class Caller:
    def __init__(self, deadline: float, agent: str) -> None:
        self.deadline = deadline
        self.agent = agent
        self.ticket = QUEUED
        self.error: McpError | None = None

    def proceed(self, ticket: int) -> None:
        self.ticket = ticket

    def reject(self, error: McpError) -> None:
        self.error = error
