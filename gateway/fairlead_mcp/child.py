"""MCP server as a child process of ours: started at once, kept running, and started again after its end.

`fairlead_mcp.host.ChildHost` makes it for operator and gateway at the same time. `Program` opens the streams: it starts
the process, keeps what it prints, and finds in that why it ended. All else is a `StreamClient`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Final, Literal

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from fairlead_mcp.masking import Mask
from fairlead_mcp.printed import PrintedLines, printable
from fairlead_mcp.refusals import advise, is_permanent
from fairlead_mcp.stdio import FETCHED_BYTES, ChildSpec, Launcher, Process
from fairlead_mcp.stream_client import (
    NO_CLIENT_SIDE,
    ClientSide,
    StreamClient,
    StreamConnection,
    StreamOpener,
    StreamPolicy,
    with_name,
)

logger = logging.getLogger(__name__)

START_SECONDS: Final = 120.0
"""From start to handshake. What `npx` or `uvx` finds and fetches before has a limit of its own (`direct`)."""
STOP_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 10.0
"""From start on; a process that wrote nothing at all for so long is spoken of."""
_SILENT_GRACE: Final = 0.5
"""`initialize` goes out that late where a server ignores what comes before it, and is answered within this time."""
_EXITED_WELL: Final = "exited with code 0"
BEFORE_ANSWERING: Final = "before it answered, and a server runs until its input ends"
"""Said of a start whose program ended well, such as one that defines a server and never runs it."""


class Child(StreamClient):
    """MCP server as a child process."""

    def __init__(
        self,
        program: Program,
        *,
        side: ClientSide = NO_CLIENT_SIDE,
        start_seconds: float = START_SECONDS,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        policy = StreamPolicy(eager=True, open_seconds=start_seconds)
        super().__init__(program.name, program, policy, side=side, backoff=Backoff(random), clock=clock)
        self.program = program


class Program(StreamOpener):
    """Program of a child process, started once for each stream. `printed` gets the lines that its processes print,
    without the secrets of their environment; `after` is awaited before the first start: the end of what ran before in
    its place.
    """

    closed = "%s was stopped"
    starts_process = True

    def __init__(
        self,
        name: str,
        spec: ChildSpec,
        launcher: Launcher,
        printed: PrintedLines,
        *,
        stop_seconds: float = STOP_SECONDS,
        after: asyncio.Task[None] | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.printed = printed
        self.silent = False
        """Whether it was started `SILENT_SECONDS` ago and has written nothing since, to output or standard error."""
        self.step = ""
        """Work before it is started, such as `fetching x with npx`; empty when there is none."""
        self.on_state: Callable[[], None] | None = None
        """Called in the loop when `silent` or `step` has changed; may not raise."""
        self.stop_seconds = stop_seconds
        self._launcher = launcher
        self._after = after
        self._mask = Mask.of_process(spec.args, dict(spec.env))
        self._run: ProgramRun | None = None

    @property
    def pid(self) -> int | None:
        """Process id, while it runs."""
        process = None if self._run is None else self._run.process
        return None if process is None else process.pid

    async def open(self, connection: StreamConnection) -> ProgramRun:
        """Start a process. Raises ConnectFailed (CommandNotFound, StartFailed, StartTimeout)."""
        if self._after is not None:
            await asyncio.wait([self._after])
        self.printed.began()
        run = self._run = ProgramRun(self, connection)
        try:
            run.process = await self._launcher.launch(self.spec, run)
        except McpError as error:  # no program that could say anything was started
            self.printed.add("run", f"was not started: {error}")
            raise
        run.watch_silence(SILENT_SECONDS + _SILENT_GRACE)
        return run

    def explain(self, error: McpError, seconds: float) -> ConnectFailed:
        """Implements StreamOpener, with what was printed."""
        if isinstance(error, ConnectFailed):
            return error
        reason = error.reason
        what = str(error)
        if isinstance(error, Timeout):
            words = self.printed.telling()
            reason = "StartTimeout"
            what = f"did not answer the handshake within {seconds:g} s" + (f"; it printed: {words}" if words else "")
        elif isinstance(error, ConnectionLost):
            reason = "StartFailed"
            what = what.replace(_EXITED_WELL, f"{_EXITED_WELL} {BEFORE_ANSWERING}", 1)
        failure = ConnectFailed(with_name(self.name, what, " "), reason=reason)
        failure.__cause__ = error
        return failure

    def is_permanent(self, failure: McpError) -> bool:
        """Implements StreamOpener."""
        return failure.reason != "StartTimeout" and is_permanent(self.printed.telling())

    def report(self, *, silent: bool = False, step: str = "") -> None:
        """Take in how far the start of its process is."""
        if (silent, step) != (self.silent, self.step):
            self.silent = silent
            self.step = step
            if self.on_state is not None:
                self.on_state()

    def log(self, line: str, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        """Keep a line other than an MCP message."""
        line = self._mask.text(line)
        self.printed.add(stream, line)
        logger.debug("%s: %s", self.name, line)


class ProgramRun:
    """One run of a program: a `MessageStream` over its process, whose events it receives (`ProcessObserver`)."""

    def __init__(self, program: Program, connection: StreamConnection) -> None:
        self.process: Process | None = None
        """Set when it is started, until it is stopped."""
        self._program = program
        self._connection = connection
        self._heard = False
        """Whether it wrote anything."""
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

    def watch_silence(self, seconds: float, before: int = 0) -> None:
        """Speak of it where it has written nothing in `seconds`, not even `FETCHED_BYTES` more than `before` to files:
        npx or uvx in front of it fetches.
        """
        if not self._heard:
            self._watch = asyncio.get_running_loop().call_later(seconds, self._look_at_silence, before)

    def on_line(self, line: bytes) -> None:
        self._hear()
        if not self._connection.on_line(line):
            self._program.log(printable(line), "stdout")

    def on_stderr(self, line: str) -> None:
        self._hear()
        self._program.log(line)

    def on_step(self, what: str) -> None:
        self._program.report(step=what)

    def on_fault(self, error: McpError) -> None:
        self._end(error)

    def on_exit(self, how: str) -> None:
        program = self._program
        program.printed.add("run", how)
        words = program.printed.telling(recent=self._connection.negotiated is not None)
        ended = f"{program.name} {how}"
        error = f"{ended}: {advise(words)}" if words else ended
        self._end(ConnectionLost(error, sent=True, reason="ProcessExited"))

    def _end(self, error: McpError) -> None:
        self._end_watch()
        self._connection.on_end(error)

    def _hear(self) -> None:
        if not self._heard:
            self._heard = True
            self._end_watch()
            self._program.report(step=self._program.step)

    def _look_at_silence(self, before: int) -> None:
        written = 0 if self.process is None else self.process.written
        if written >= before + FETCHED_BYTES:
            self.watch_silence(SILENT_SECONDS, written)
            return
        logger.warning("%s", silence(self._program.name, SILENT_SECONDS))
        self._program.report(silent=True, step=self._program.step)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def silence(name: str, seconds: float) -> str:
    """Sentence about a process that was started and has written nothing since, with what to do."""
    return (
        f"{name} has said nothing for {seconds:g} s: no answer to initialize, no line on standard error. A first start "
        "through npx or uvx may still be downloading; else run its command in a terminal, to see whether it waits for "
        "input, or serves HTTP and not stdio"
    )
