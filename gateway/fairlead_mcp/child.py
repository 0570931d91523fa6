"""MCP server as a child process: started at once, kept running, and restarted after its end.

A `Child` is a `StreamClient` whose streams are processes. `Program` starts the processes, stores what they print, and
finds in their output why a process ended. `fairlead_mcp.host.ChildHost` shares a child between operator and gateway.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Final, Literal

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.masking import Mask
from fairlead_mcp.printed import PrintedLines, printable
from fairlead_mcp.refusals import advise, is_permanent
from fairlead_mcp.stdio import FETCHED_BYTES, ChildSpec, Launcher, Process
from fairlead_mcp.stream_client import StreamClient, with_name
from fairlead_mcp.streams import NO_CLIENT_SIDE, ClientSide, StreamConnection, StreamOpener, StreamPolicy

logger = logging.getLogger(__name__)

START_SECONDS: Final = 120.0
"""Limit from the start to the end of the handshake. The time in which `npx` or `uvx` fetches a package is not included;
`fairlead_mcp.direct` limits it.
"""
STOP_SECONDS: Final = 2.0
"""Time for a process to end after its input was closed, and again after SIGTERM."""
SILENT_SECONDS: Final = 10.0
"""Time after the start from which a process that has written nothing is reported as silent."""
_SILENT_GRACE: Final = 0.5
"""Seconds added to SILENT_SECONDS: a server that ignores `server/discover` gets `initialize` after `PROBE_SECONDS`, and
needs time to answer it.
"""
_FETCHERS: Final = frozenset(
    {"bun", "bunx", "deno", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"}
)
"""Programs that fetch a server before they start it."""
_EXIT_0: Final = "exited with code 0"
BEFORE_ANSWERING: Final = "before it answered: an MCP server has to run until its input ends"
"""Explanation for a program that exits with code 0 at once, such as one that defines a server but never runs it."""


class Child(StreamClient):
    """MCP server as a child process."""

    def __init__(
        self,
        program: Program,
        *,
        side: ClientSide = NO_CLIENT_SIDE,
        start_seconds: float = START_SECONDS,
        logs_delays: bool = True,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        policy = StreamPolicy(eager=True, logs_delays=logs_delays, open_seconds=start_seconds)
        super().__init__(program.name, program, policy, side=side, backoff=Backoff(random), clock=clock)
        self.program = program


class Program(StreamOpener):
    """Program of a child process, started once per stream.

    `printed` stores the lines that the process prints, with the secrets of its environment masked. `predecessor_stop`,
    the task that stops a predecessor, is awaited before the first start.
    """

    closed_message = "%s was stopped"
    starts_process = True

    def __init__(
        self,
        name: str,
        spec: ChildSpec,
        launcher: Launcher,
        printed: PrintedLines,
        *,
        stop_seconds: float = STOP_SECONDS,
        predecessor_stop: asyncio.Task[None] | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.printed = printed
        self.silent = False
        """Whether the process has written nothing to output or standard error in its first `SILENT_SECONDS`."""
        self.step = ""
        """Preparation before the start, such as `fetching x with npx`; empty if there is none."""
        self.on_state: Callable[[], None] | None = None
        """Called in the event loop after each change of `silent` or `step`; may not raise."""
        self.stop_seconds = stop_seconds
        self._launcher = launcher
        self._predecessor_stop = predecessor_stop
        self._mask = Mask.of_process(spec.args, dict(spec.env))
        if spec.secret:
            self._mask = self._mask.with_value(dict(spec.env)[spec.secret])
        self._run: ProgramRun | None = None

    @property
    def pid(self) -> int | None:
        """Process ID; None while no process runs."""
        process = None if self._run is None else self._run.process
        return None if process is None else process.pid

    async def open(self, connection: StreamConnection) -> ProgramRun:
        """Start a process. Raises ConnectFailed (CommandNotFound, StartFailed, StartTimeout)."""
        if self._predecessor_stop is not None:
            await asyncio.wait([self._predecessor_stop])
        self.printed.record_start()
        run = self._run = ProgramRun(self, connection)
        try:
            run.process = await self._launcher.launch(self.spec, run)
        except McpError as error:  # without a process there is no other line in the log
            self.printed.add("run", f"was not started: {error}")
            raise
        run.watch_silence(SILENT_SECONDS + _SILENT_GRACE)
        return run

    def explain(self, error: McpError, seconds: float) -> ConnectFailed:
        """Implements StreamOpener; adds what the process printed. Masks secrets that the server quoted, as the failure
        is logged.
        """
        error = self._mask.error(error)
        if isinstance(error, ConnectFailed):
            return error
        reason = error.reason
        problem = str(error)
        if isinstance(error, Timeout):
            failure_line = self.printed.find_failure_line()
            reason = "StartTimeout"
            output = f"; it printed: {failure_line}" if failure_line else ""
            problem = f"did not answer the handshake within {seconds:g} s{output}"
        elif isinstance(error, ConnectionLost):
            reason = "StartFailed"
            problem = problem.replace(_EXIT_0, f"{_EXIT_0} {BEFORE_ANSWERING}", 1)
        separator = ": " if problem.startswith("the server ") else " "
        failure = ConnectFailed(with_name(self.name, problem, separator), reason=reason)
        failure.__cause__ = error
        return failure

    def is_permanent(self, failure: McpError) -> bool:
        """Implements StreamOpener."""
        return failure.reason != "StartTimeout" and is_permanent(self.printed.find_failure_line())

    def silence(self) -> str:
        """Message about a process that has written nothing since its start, with advice."""
        process = None if self._run is None else self._run.process
        program = PurePath(self.spec.command if process is None else process.program).name
        fetch = f"A first start through {program} may still be downloading; else run" if program in _FETCHERS else "Run"
        return (
            f"{self.name} has printed nothing for {SILENT_SECONDS:g} s: no answer to initialize, no line on standard "
            f"error. {fetch} its command in a terminal, to see whether it waits for input, or serves HTTP and not "
            "stdio"
        )

    def report(self, *, silent: bool = False, step: str = "") -> None:
        """Set `silent` and `step` and call `on_state` if they changed."""
        if (silent, step) != (self.silent, self.step):
            self.silent = silent
            self.step = step
            if self.on_state is not None:
                self.on_state()

    def log(self, line: str, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        """Store a printed line that is not an MCP message."""
        line = self._mask.text(line)
        self.printed.add(stream, line)
        logger.debug("%s: %s", self.name, line)


class ProgramRun:
    """One run of a program: the `MessageStream` of its process and the `ProcessObserver` that gets its events."""

    def __init__(self, program: Program, connection: StreamConnection) -> None:
        self.process: Process | None = None
        """The process from its start until it is stopped, else None."""
        self._program = program
        self._connection = connection
        self._has_printed = False
        """Whether the process wrote anything."""
        self._watch: asyncio.TimerHandle | None = None
        program.report()

    def write(self, line: bytes) -> None:
        """Implements MessageStream."""
        if self.process is not None:
            self.process.write(line)

    async def aclose(self) -> None:
        """Implements MessageStream."""
        process = self.process
        self.process = None
        self._end_watch()
        if process is not None:
            await process.stop(self._program.stop_seconds)

    def watch_silence(self, seconds: float, bytes_before: int = 0) -> None:
        """Report the process as silent if it prints nothing within `seconds`.

        A process that has written `FETCHED_BYTES` more than `bytes_before` to files is not silent: npx or uvx is
        fetching a package.
        """
        if not self._has_printed:
            self._watch = asyncio.get_running_loop().call_later(seconds, self._check_silence, bytes_before)

    def on_line(self, line: bytes) -> None:
        self._note_output()
        if not self._connection.on_line(line):
            self._program.log(printable(line), "stdout")

    def on_stderr(self, line: str) -> None:
        self._note_output()
        self._program.log(line)

    def on_step(self, step: str) -> None:
        self._program.report(step=step)

    def on_fault(self, error: McpError) -> None:
        self._end(error)

    def on_exit(self, ending: str) -> None:
        program = self._program
        program.printed.add("run", ending)
        if self._connection.negotiated is None:
            program.printed.drop_repetition()
        failure_line = program.printed.find_failure_line(recent=self._connection.negotiated is not None)
        silence_note = "" if self._has_printed else "; it printed nothing"
        exit_message = f"{program.name} {ending}{silence_note}"
        error = f"{exit_message}: {advise(failure_line)}" if failure_line else exit_message
        self._end(ConnectionLost(error, sent=True, reason="ProcessExited"))

    def _end(self, error: McpError) -> None:
        self._end_watch()
        self._connection.on_end(error)

    def _note_output(self) -> None:
        if not self._has_printed:
            self._has_printed = True
            self._end_watch()
            self._program.report(step=self._program.step)

    def _check_silence(self, bytes_before: int) -> None:
        written = 0 if self.process is None else self.process.written_bytes
        if written >= bytes_before + FETCHED_BYTES:
            self.watch_silence(SILENT_SECONDS, written)
            return
        # a server that failed in an earlier run was already reported, with what it printed
        level = logging.WARNING if self._program.printed.run == 1 else logging.DEBUG
        logger.log(level, "%s", self._program.silence())
        self._program.report(silent=True, step=self._program.step)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
