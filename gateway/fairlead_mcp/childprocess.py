"""One process of a child: its message stream, what it writes, and how it ended."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from fairlead_mcp.errors import ConnectionLost, McpError
from fairlead_mcp.printed import printable
from fairlead_mcp.stdio import Process
from fairlead_mcp.stream_client import StreamClient, StreamConnection


class Supervisor(StreamClient[Process]):
    """Starts the process again when it ends, and keeps what it says."""

    @abstractmethod
    def spoke(self) -> None:
        """The process wrote its first line."""

    @abstractmethod
    def prepares(self, what: str) -> None:
        """Work before the program is started; empty when it is done."""

    @abstractmethod
    def logged(self, line: str, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        """The process wrote a line other than an MCP message."""

    @abstractmethod
    def exited(self, how: str) -> str:
        """Full sentence for `how` the process ended."""


class ChildProcess(StreamConnection[Process]):
    """Receives the events of a `Process`, which is its pipe."""

    sends = "wrote to its output"

    def __init__(self, child: Supervisor) -> None:
        super().__init__(child)
        self.heard = False
        """Whether it wrote anything."""
        self._child = child

    def on_line(self, line: bytes) -> None:
        if not self.heard:
            self._hear()
        super().on_line(line)

    def on_stray_line(self, line: bytes) -> None:
        self._child.logged(printable(line), "stdout")

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
        self.on_end(error)

    def on_exit(self, how: str) -> None:
        self.on_end(ConnectionLost(self._child.exited(how), sent=True, reason="ProcessExited"))
