"""Child processes that speak MCP over their standard streams: framing, launching, stopping.

MCP's stdio transport is one message per line of UTF-8 on stdin and stdout; stderr is the server's log. This module
handles lines and processes; JSON-RPC is read elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec

from fairlead_mcp import processes
from fairlead_mcp.containers import ContainerRun
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, TooLarge
from fairlead_mcp.printed import LINE_WIDTH, printable
from fairlead_mcp.programs import folder_problem, missing_program, program_problem
from fairlead_mcp.surroundings import INHERITED
from fairlead_mcp.waiting import wait_until_set

MAX_LINE: Final = 16 << 20
MAX_BACKLOG: Final = 8 << 20
"""Bytes that a child may leave unread before requests are refused."""
FETCHED_BYTES: Final = 64 << 10
"""Bytes written by a process from which it counts as downloading; a waiting process writes less."""
LAST_WORDS_SECONDS: Final = 0.25
"""How long to read on after a process has ended, as its last answer may still be in the pipe."""
MUTE_SECONDS: Final = 1.0
"""How long a process may live on after it closed its output."""


_NPM_COMMAND: Final = re.compile(r"(?:^|[\s/;&|])np[mx](?:\s|$)")
"""Matches a command, or a line of a shell, that runs npm or npx."""
_CONSENT: Final = "npm_config_yes"
_LOGS: Final = "npm_config_logs_max"
NPM_LOGS: Final = 200
"""Logs that npm keeps of the runs that Fairlead starts. With npm's default, ten, runs that fail delete the log of one
that still fetches.
"""


class ChildSpec(msgspec.Struct, frozen=True):
    """Process to run. `env` is added to the `INHERITED` variables. Equal specs can share one process."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    secret: str = ""
    """Name of a variable whose value is never shown, whatever it is called; empty: none."""

    def __repr__(self) -> str:
        return f"ChildSpec({self.command!r}, {len(self.args)} arguments)"

    def with_secret(self, name: str, value: str) -> ChildSpec:
        """A copy with one more variable, whose value is never shown."""
        env = tuple(sorted({**dict(self.env), name: value}.items()))
        return msgspec.structs.replace(self, env=env, secret=name)

    @classmethod
    def of(
        cls,
        command: str,
        args: tuple[str, ...] | list[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ChildSpec:
        return cls(command, tuple(args), tuple(sorted((env or {}).items())), cwd)

    def environment(self, own_environment: Mapping[str, str]) -> dict[str, str]:
        """Make the environment of the process from the environment of Fairlead (`own_environment`)."""
        variables = {name: own_environment[name] for name in INHERITED if name in own_environment}
        if self._installs and not any(name.lower() == _CONSENT for name, _ in self.env):
            # npx would ask before it installs a package, and read MCP's messages as the answer; the option --no still
            # forbids to install
            variables[_CONSENT] = "true"
        if self._installs and not any(name.lower() == _LOGS for name, _ in self.env):
            variables[_LOGS] = str(NPM_LOGS)
        return variables | dict(self.env)

    @property
    def _installs(self) -> bool:
        return any(_NPM_COMMAND.search(word) for word in (self.command, *self.args))


class ProcessObserver(Protocol):
    """Callbacks of a process to its owner. `on_exit` is the last call; `ending` is like `exited with code 1`."""

    def on_line(self, line: bytes) -> None: ...

    def on_stderr(self, line: str) -> None: ...

    def on_step(self, step: str) -> None:
        """Preparation before the program starts, such as `fetching x with npx`; empty when it is done."""
        ...

    def on_fault(self, error: McpError) -> None:
        """The process violated the protocol; its owner should stop it."""
        ...

    def on_exit(self, ending: str) -> None: ...


class Process(Protocol):
    """A started process."""

    @property
    def pid(self) -> int: ...

    @property
    def program(self) -> str:
        """Name or path of the program that was started, which may be another one than that of the command."""
        ...

    @property
    def written_bytes(self) -> int:
        """Bytes that the process and its descendants have written to files and pipes; 0 if the system does not say."""
        ...

    def write(self, line: bytes) -> None:
        """Send a line, which is dropped after the end. Raises PoolFull when the process does not read its input."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop the process: close stdin, after `grace` seconds send SIGTERM, after `grace` more SIGKILL.

        Kills what is left of its descendants and its container. Idempotent.
        """
        ...


class Launcher(Protocol):
    """Starts processes."""

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        """Start a process. Raises ConnectFailed (CommandNotFound, StartFailed)."""
        ...

    async def aclose(self) -> None: ...


class LineBuffer:
    """Splits chunks into lines, without blank ones. Raises TooLarge for a line longer than `limit` bytes."""

    __slots__ = ("_pieces", "_size", "limit")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            line = b"".join([*self._pieces, piece]).strip()
            self._pieces.clear()
            self._size = 0
            self._check_size(len(line))
            if line:
                lines.append(line)
        if rest:
            self._size += len(rest)
            self._check_size(self._size)
            self._pieces.append(rest)
        return lines

    def _check_size(self, size: int) -> None:
        if size > self.limit:
            self._pieces.clear()
            raise TooLarge(f"the server's process wrote a line of more than {self.limit} bytes")


class LogBuffer:
    """Splits chunks of standard error into lines, with their indentation, without blank ones.

    A long line is cut, not refused: Node.js prints the source line of an error, which in a bundle may be a megabyte.
    """

    __slots__ = ("_partial_line", "limit")

    def __init__(self, limit: int = LINE_WIDTH * 4) -> None:
        self.limit = limit
        self._partial_line = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *complete, rest = chunk.split(b"\n")
        lines = []
        for piece in complete:
            lines.append(self._cut(self._partial_line + piece[: self.limit]))
            self._partial_line = b""
        self._partial_line = (self._partial_line + rest)[: self.limit]
        return [line for line in lines if line]

    def rest(self) -> bytes:
        """Return and clear the text after the last line break, when the process has ended."""
        line, self._partial_line = self._cut(self._partial_line), b""
        return line

    def _cut(self, line: bytes) -> bytes:
        visible = line.rstrip().rpartition(b"\r")[2]  # a progress bar overwrites its line: its last state counts
        return visible[: self.limit]


class SubprocessLauncher:
    """Starts processes, each in its own session, that end with this process (see `fairlead_mcp.processes`).

    `thread` starts the processes instead of the main thread; they end when the thread ends.
    """

    def __init__(self, thread: threading.Thread | None = None) -> None:
        self._guard = processes.GroupGuard()
        self._thread = thread

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        environment = spec.environment(os.environ)
        container = ContainerRun.of(spec.command, spec.args, environment)
        argv = (spec.command, *spec.args) if container is None else container.argv
        return await self.start(argv, environment, spec.cwd, events, container)

    async def start(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        cwd: str | None,
        events: ProcessObserver,
        container: ContainerRun | None = None,
    ) -> Process:
        """Run `argv` with exactly `environment`; `container` is the container that it runs. Raises ConnectFailed, as
        `launch` does.
        """
        await self._guard.start()
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Streams(events),
                *argv,
                env=dict(environment),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=processes.make_parent_death_hook(self._thread),
            )
        except (OSError, ValueError) as error:
            raise _start_failure(error, argv[0], cwd) from error
        self._guard.add(transport.get_pid(), "" if container is None else container.kill_line())
        return _Subprocess(argv[0], transport, protocol, self._guard, container)

    async def aclose(self) -> None:
        await self._guard.aclose()


def _start_failure(error: OSError | ValueError, program: str, cwd: str | None) -> ConnectFailed:
    """Explain why the system did not start a program, naming the program and its folder.

    The errors of asyncio and uvloop differ in what they name, so they are not shown alone.
    """
    if problem := folder_problem(cwd) or program_problem(program, cwd):
        return ConnectFailed(f"{program} cannot be started: {problem}", reason="StartFailed")
    if isinstance(error, FileNotFoundError) and Path(program).is_file():
        return ConnectFailed(
            f"{program} cannot be started: the interpreter that its first line (#!) names does not exist",
            reason="StartFailed",
        )
    if isinstance(error, FileNotFoundError):
        return ConnectFailed(missing_program(program, cwd), reason="CommandNotFound")
    return ConnectFailed(f"{program} cannot be started ({error})", reason="StartFailed")


class _Streams(asyncio.SubprocessProtocol):
    """Standard streams of one process. Reports the end when process and output have ended, or
    `LAST_WORDS_SECONDS` after the process.
    """

    def __init__(self, events: ProcessObserver) -> None:
        self._events = events
        self._lines = LineBuffer()
        self._log = LogBuffer()
        self._open = {1, 2}
        self._end_reported = False
        self.transport: asyncio.SubprocessTransport | None = None
        self.exited = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's
        self.transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            for line in self._log.feed(data):
                self._events.on_stderr(printable(line))
            return
        try:
            for line in self._lines.feed(data):
                self._events.on_line(line)
        except TooLarge as error:
            self._events.on_fault(error)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if self.exited.is_set():
            if not self._open:
                self._report_end()
        elif fd == 1:
            asyncio.get_running_loop().call_later(MUTE_SECONDS, self._report_closed_output)

    def process_exited(self) -> None:
        self.exited.set()
        if self._open:  # output may still be in the pipe, or a grandchild holds the pipe open
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._report_end)
        else:
            self._report_end()

    def _report_closed_output(self) -> None:
        if not self.exited.is_set():
            self._events.on_fault(ConnectionLost("the server's process closed its output but still runs", sent=True))

    def _report_end(self) -> None:
        if not self._end_reported:
            self._end_reported = True
            last_text = self._log.rest()
            if last_text:
                self._events.on_stderr(printable(last_text))
            code = self.transport.get_returncode() if self.transport is not None else None
            self._events.on_exit(describe_exit(code))


class _Subprocess:
    """`Process` that `SubprocessLauncher` starts."""

    def __init__(
        self,
        program: str,
        transport: asyncio.SubprocessTransport,
        streams: _Streams,
        guard: processes.GroupGuard,
        container: ContainerRun | None,
    ) -> None:
        self.pid = transport.get_pid()
        self.program = program
        self._transport = transport
        self._streams = streams
        self._guard = guard
        self._container = container
        self._input = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
        self._stopped = False

    @property
    def written_bytes(self) -> int:
        return processes.written_bytes(self.pid)

    def write(self, line: bytes) -> None:
        pipe = self._input
        if pipe is None or pipe.is_closing():
            return
        if pipe.get_write_buffer_size() > MAX_BACKLOG:
            raise PoolFull("the server's process does not read its input")
        pipe.write(line + b"\n")

    async def stop(self, grace: float) -> None:
        if self._stopped:
            return
        self._stopped = True
        strays = processes.descendants(self.pid)
        if self._input is not None:
            self._input.close()
        if not await self._wait_end(grace):
            strays = processes.descendants(self.pid)
            processes.signal_group(self.pid, signal.SIGTERM)
            if not await self._wait_end(grace):
                processes.signal_group(self.pid, signal.SIGKILL)
                await self._wait_end(grace)
        processes.signal_group(self.pid, signal.SIGKILL)
        processes.kill_all(strays)
        if self._container is not None:
            await self._container.kill()
        self._guard.discard(self.pid)
        self._transport.close()
        for _ in range(10):
            if processes.reap(self.pid, strays):
                break
            await asyncio.sleep(0.02)

    async def _wait_end(self, seconds: float) -> bool:
        return await wait_until_set(self._streams.exited, seconds)


def describe_exit(code: int | None) -> str:
    """Describe an exit code: `exited with code 1`, `was killed by SIGKILL`."""
    if code is None:
        return "ended"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with code {code}"
