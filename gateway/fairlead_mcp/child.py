"""MCP server as a child process of ours: started, negotiated with, shared, restarted.

`fairlead_mcp.host.ChildHost` makes it for operator and gateway at the same time. The process is started at once and
kept running: when it ends, all requests in flight fail with ConnectionLost, and it is started again after a delay (see
`fairlead_mcp.backoff`). Each start negotiates again.

`request` passes params as they are: in the modern era the caller adds the envelope (`eras.modern_params`).
Deadlines are absolute, in `Child.clock`.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, Literal

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.childprocess import ChildProcess, Supervisor
from fairlead_mcp.eras import Client
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout, TransportError
from fairlead_mcp.masking import Mask
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.printed import PrintedLines
from fairlead_mcp.refusals import advise, alike, is_permanent
from fairlead_mcp.stdio import FETCHED_BYTES, ChildSpec, Launcher
from fairlead_mcp.stream_client import PROBE_SECONDS, process_name
from fairlead_mcp.waiting import wait_until_set

logger = logging.getLogger(__name__)

START_SECONDS: Final = 120.0
"""From start to handshake. What `npx` or `uvx` finds and fetches before has a limit of its own (`direct`)."""
STOP_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 10.0
"""From start on; a process that wrote nothing at all for so long is spoken of."""
_SILENT_GRACE: Final = 0.5
"""`initialize` goes out that late where a server ignores what comes before it, and is answered within this time."""
FAILED_AFTER: Final = 3
"""Failed starts in a row from which the state is FAILED; it is still tried again."""
REFUSED_SECONDS: Final = 600.0
"""To the next start after one that fails again until somebody changes something (`refusals`)."""


class ChildState(Enum):
    """Where a child process is in its life."""

    STARTING = "starting"
    """Started, or about to be, and not negotiated with yet."""
    RUNNING = "running"
    """Takes requests."""
    BACKOFF = "backoff"
    """Ended; the next start is due in a moment."""
    FAILED = "failed"
    """Several starts in a row failed, or one for good; tried again, but seldom."""
    CLOSED = "closed"
    """Given up by us."""


class Child(Supervisor):
    """MCP server as a child process. `on_state()` is called in the loop and may not raise.

    `after` is awaited before the first start: the end of what ran before in its place.
    """

    def __init__(
        self,
        name: str,
        spec: ChildSpec,
        launcher: Launcher,
        *,
        client: Client | None = None,
        random: Callable[[], float] = randomness.random,
        clock: Callable[[], float] = time.monotonic,
        start_seconds: float = START_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
        on_state: Callable[[], None] | None = None,
        on_notification: Callable[[str, bytes], None] | None = None,
        after: asyncio.Task[None] | None = None,
        offering: Offering | None = None,
        printed: PrintedLines | None = None,
    ) -> None:
        super().__init__(
            name,
            client=client,
            clock=clock,
            offering=offering,
            on_notification=on_notification,
            backoff=Backoff(random),
            probe_seconds=probe_seconds,
        )
        self.spec = spec
        self.state = ChildState.STARTING
        self.silent = False
        """Whether it was started `silent_seconds` ago and has written nothing since, to output or standard error."""
        self.step = ""
        """Work before its program is started, such as `fetching x with npx`; empty when there is none."""
        self._launcher = launcher
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._silent_seconds = silent_seconds
        self._retry = asyncio.Event()
        self._on_state = on_state
        self._after = after
        self.printed = printed or PrintedLines(clock)
        """Lines that its processes printed, without the secrets of their environment."""
        self._mask = Mask.of_process(spec.args, dict(spec.env))
        self._life: ChildProcess | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"child {name}")

    def __repr__(self) -> str:
        return f"<Child {self.name} {self.state.value}, {self.starts} starts>"

    @property
    def connection(self) -> ChildProcess | None:
        return self._life

    @property
    def pid(self) -> int | None:
        """Process id of the running process."""
        process = self._life.pipe if self._life is not None else None
        return process.pid if process is not None else None

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines that it logged, over all its lives."""
        return self.printed.stderr()

    async def connect(self, deadline: float) -> ChildProcess:
        """Wait for a start that goes on. Raises at once while it is down: ConnectFailed with the reason of the cause,
        and Timeout when the deadline comes before a verdict.
        """
        while True:
            if self._life is not None and self._life.negotiated is not None:
                return self._life
            if self.state is not ChildState.STARTING:
                raise self._down()
            try:
                async with asyncio.timeout(deadline - self.clock()):
                    await self._changed.wait()
            except TimeoutError as error:
                raise Timeout(f"{self.name} is still starting", sent=False, reason="Silent") from error

    async def end(self) -> McpError:
        """Wait until the process that runs now has ended; why it did."""
        life = self._life
        return await asyncio.shield(life.end) if life is not None else self._down()

    def retry(self) -> None:
        """Start it now if it waits for its next start, and once more if a start that goes on fails; the delays after
        failures are counted from zero.
        """
        if self.state not in (ChildState.RUNNING, ChildState.CLOSED) and not self._task.done():
            self._backoff.failures = 0
            self.failure = None
            self._retry.set()
            self._enter(ChildState.STARTING)

    async def aclose(self) -> None:
        """Stop the process and the restarts. Bounded; idempotent."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.state is not ChildState.CLOSED:
            await self._bury(ConnectionLost(f"{self.name} was stopped", sent=True))
            self._enter(ChildState.CLOSED)

    # Life after life

    async def _run(self) -> None:
        try:
            await self._supervise()
        except Exception as error:  # the edge of the task: requests that wait for the child must not wait for ever
            logger.exception("%s is given up", self.name)
            self.failure = ConnectFailed(f"{self.name} cannot be run ({error})", reason="StartFailed")
            self._enter(ChildState.FAILED)

    async def _supervise(self) -> None:
        if self._after is not None:
            await asyncio.wait([self._after])
        while True:
            self._retry.clear()
            self._enter(ChildState.STARTING)
            born, failure = self.clock(), await self._live()
            lived = self.clock() - born if self.state is ChildState.RUNNING else 0.0
            if self._retry.is_set():  # what it began before somebody asked says nothing to them
                await self._bury(failure)
                continue
            came_up = self.state is ChildState.RUNNING
            ended = not came_up and failure.reason != "StartTimeout"
            refused = ended and is_permanent(self.printed.telling())
            delay = self._backoff.after(lived)
            if refused:
                delay = REFUSED_SECONDS
            # every start of a server that cannot start would be a line
            repeated = not came_up and self.failure is not None and alike(str(failure), str(self.failure))
            self.failure = failure
            level = logging.DEBUG if repeated else logging.WARNING
            logger.log(level, "%s; next start in %.1f s", _sentence(self.name, failure), delay)
            failed = refused or self._backoff.failures >= FAILED_AFTER
            self._enter(ChildState.FAILED if failed else ChildState.BACKOFF)  # before what may take its time
            await self._bury(failure)
            await wait_until_set(self._retry, delay)

    async def _live(self) -> McpError:
        """One process from start to end; the result is why it ended."""
        life = self._life = ChildProcess(self)
        self.starts += 1
        self.process = process_name()
        self.printed.began()
        watch: asyncio.TimerHandle | None = None
        try:
            life.pipe = await self._launcher.launch(self.spec, life)
            watch = asyncio.get_running_loop().call_later(self._silent_seconds + _SILENT_GRACE, self._unheard, life)
            negotiated = await self.negotiate(life, self.clock() + self._start_seconds)
        except McpError as error:
            if life.pipe is None:  # no program that could say anything was started
                self.printed.add("run", f"was not started: {error}")
            self.alternate(error)
            return self._start_failure(error)
        finally:
            if watch is not None:
                watch.cancel()
        life.negotiated = negotiated
        self._enter(ChildState.RUNNING)
        # shielded, or closing the child would cancel what its last lines still look at
        return await asyncio.shield(life.end)

    async def _bury(self, failure: McpError) -> None:
        life, self._life = self._life, None
        if life is None:
            if self._stopping is not None:
                await self._stopping
            return
        lost = failure if isinstance(failure, TransportError) else ConnectionLost(str(failure), sent=True)
        life.on_end(lost)
        life.stream.fail_all(lost)
        if life.pipe is not None:
            # a cancellation on the way must not leave the process half stopped
            self._stopping = asyncio.get_running_loop().create_task(
                life.pipe.stop(self._stop_seconds), name=f"stop {self.name}"
            )
            await asyncio.shield(self._stopping)

    def _start_failure(self, error: McpError) -> McpError:
        if isinstance(error, Timeout):
            words = self.printed.telling()
            printed = f"; it printed: {words}" if words else ""
            reason, what = "StartTimeout", f"did not answer the handshake within {self._start_seconds:g} s{printed}"
        elif isinstance(error, ConnectionLost):
            reason, what = "StartFailed", str(error)
        else:
            return error
        failure = ConnectFailed(_sentence(self.name, what, " "), reason=reason)
        failure.__cause__ = error
        return failure

    def _down(self) -> ConnectFailed:
        if self.state is ChildState.CLOSED:
            return ConnectFailed(f"{self.name} was stopped", reason="Closed")
        cause = self.failure
        reason = cause.reason if cause is not None else "BackingOff"
        down = ConnectFailed(str(cause) if cause is not None else f"{self.name} is down", reason=reason)
        down.__cause__ = cause
        return down

    def _unheard(self, life: ChildProcess, before: int = 0) -> None:
        """It has had its time to say something; more where it has written `FETCHED_BYTES` since `before`."""
        if life is not self._life or life.heard or life.pipe is None:
            return
        if (written := life.pipe.written) >= before + FETCHED_BYTES:  # npx or uvx in front of it fetches
            asyncio.get_running_loop().call_later(self._silent_seconds, self._unheard, life, written)
            return
        self.silent = True
        logger.warning("%s", silence(self.name, self._silent_seconds))
        self._tell()

    def _enter(self, state: ChildState) -> None:
        self.state = state
        self.silent = False
        self.step = ""
        if state is not ChildState.RUNNING and self._life is not None:
            self._life.negotiated = None
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._tell()

    def _tell(self) -> None:
        if self._on_state is not None:
            self._on_state()

    # Told by the process of a life

    def spoke(self) -> None:
        """The running process wrote its first line."""
        if self.silent:
            self.silent = False
            self._tell()

    def prepares(self, what: str) -> None:
        """The launcher is at work before the program is started."""
        self.step = what
        self._tell()

    def logged(self, line: str, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        line = self._mask.text(line)
        self.printed.add(stream, line)
        logger.debug("%s: %s", self.name, line)

    def exited(self, how: str) -> str:
        """`how` a process ended, with the line that it printed about it."""
        self.printed.add("run", how)
        words = self.printed.telling(recent=self.state is ChildState.RUNNING)
        return f"{self.name} {how}: {advise(words)}" if words else f"{self.name} {how}"


def silence(name: str, seconds: float) -> str:
    """Sentence about a process that was started and has written nothing since, with what to do."""
    return (
        f"{name} has said nothing for {seconds:g} s: no answer to initialize, no line on standard error. A first start "
        "through npx or uvx may still be downloading; else run its command in a terminal, to see whether it waits for "
        "input, or serves HTTP and not stdio"
    )


def _sentence(name: str, what: object, joint: str = ": ") -> str:
    """`what`, with the name of the child in front unless it is there already."""
    text = str(what)
    return text if text.startswith(name) else f"{name}{joint}{text}"
