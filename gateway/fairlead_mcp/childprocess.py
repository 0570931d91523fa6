"""One process of a child: its message stream, what it writes, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, Protocol

from fairlead_mcp.errors import ConnectionLost, McpError
from fairlead_mcp.multiplex import Multiplexer, Offering
from fairlead_mcp.printed import printable
from fairlead_mcp.stdio import Process

logger = logging.getLogger(__name__)


class Supervisor(Protocol):
    """Starts the process anew when it ends, and keeps what it says."""

    name: str
    clock: Callable[[], float]
    offering: Offering | None

    def spoke(self) -> None:
        """The process wrote its first line."""
        ...

    def prepares(self, what: str) -> None:
        """Work before the program is started; empty when it is done."""
        ...

    def logged(self, line: str, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        """The process wrote a line that is no MCP message."""
        ...

    def exited(self, how: str) -> str:
        """Full sentence for `how` the process ended."""
        ...

    def notified(self, method: str, line: bytes) -> None:
        """The server sent a notification."""
        ...


class ChildProcess:
    """Receives the events of a `Process`; `end` is done with the reason once it is over."""

    def __init__(self, child: Supervisor) -> None:
        self.process: Process | None = None
        on_request = None if child.offering is None else child.offering.on_request
        self.stream = Multiplexer(self._write, on_notification=child.notified, on_request=on_request, clock=child.clock)
        self.end: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self.heard = False
        """Whether it wrote anything."""
        self._child = child
        self._skipped = 0

    def _write(self, line: bytes) -> None:
        if self.end.done():
            raise self.end.result()
        assert self.process is not None
        self.process.write(line)

    def on_line(self, line: bytes) -> None:
        if not self.heard:
            self._hear()
        if not self.stream.feed(line):
            self._skipped += 1
            self._child.logged(printable(line), "stdout")
            if self._skipped <= 10:
                logger.warning("%s wrote to its output what is not MCP: %.80r", self._child.name, line)

    def on_stderr(self, line: str) -> None:
        if not self.heard:
            self._hear()
        self._child.logged(line)

    def on_step(self, what: str) -> None:
        self._child.prepares(what)

    def _hear(self) -> None:
        self.heard = True
        self._child.spoke()

    def on_fault(self, error: McpError) -> None:
        self.over(error)

    def on_exit(self, how: str) -> None:
        self.over(ConnectionLost(self._child.exited(how), sent=True, reason="ProcessExited"))

    def over(self, error: McpError) -> None:
        """End it, for that reason unless it has ended for another."""
        if not self.end.done():
            self.end.set_result(error)
            self.stream.fail_all(error)
