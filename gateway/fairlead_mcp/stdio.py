"""Child processes that speak MCP over their standard streams: framing, launching, stopping.

Knows lines and processes, nothing of JSON-RPC. MCP's stdio transport is one message per line of UTF-8 on stdin and
stdout; stderr is the server's log.
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
from fairlead_mcp.programs import folder_problem
from fairlead_mcp.surroundings import INHERITED
from fairlead_mcp.waiting import wait_until_set

MAX_LINE: Final = 16 << 20
MAX_BACKLOG: Final = 8 << 20
"""Bytes that a child may leave unread before further requests are refused."""
FETCHED_BYTES: Final = 64 << 10
"""Bytes written by a process that show that it fetches; what merely waits writes wake-ups and messages."""
LAST_WORDS_SECONDS: Final = 0.25
"""How long to read on after a process ended: its last answer may still be in the pipe."""
MUTE_SECONDS: Final = 1.0
"""How long a process may live on after it closed its output."""


_INSTALLS: Final = re.compile(r"(?:^|[\s/;&|])np[mx](?:\s|$)")
"""A command, or a line of a shell, that runs npm or npx."""
_CONSENT: Final = "npm_config_yes"


class ChildSpec(msgspec.Struct, frozen=True):
    """Process to run. `env` is added to the `INHERITED` variables. Two equal specs need only one process."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None

    @classmethod
    def of(
        cls,
        command: str,
        args: tuple[str, ...] | list[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ChildSpec:
        return cls(command, tuple(args), tuple(sorted((env or {}).items())), cwd)

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process, given ours."""
        inherited = {name: ours[name] for name in INHERITED if name in ours}
        if self._installs and not any(name.lower() == _CONSENT for name, _ in self.env):
            # npx asks before it installs, and nobody answers: its input is the protocol's. --no still forbids it.
            inherited[_CONSENT] = "true"
        return inherited | dict(self.env)

    @property
    def _installs(self) -> bool:
        return any(_INSTALLS.search(word) for word in (self.command, *self.args))


class ProcessObserver(Protocol):
    """Owner of a process, as it is notified. `on_exit` is the last call, with a description of the end."""

    def on_line(self, line: bytes) -> None: ...

    def on_stderr(self, line: str) -> None: ...

    def on_step(self, what: str) -> None:
        """Work before the program is started, such as `fetching x with npx`; empty when it is done."""
        ...

    def on_fault(self, error: McpError) -> None:
        """The process does what it may not; its owner should stop it."""
        ...

    def on_exit(self, how: str) -> None: ...


class Process(Protocol):
    """A started process."""

    @property
    def pid(self) -> int: ...

    @property
    def written(self) -> int:
        """Bytes that it and what it started have written to files and pipes; 0 where that cannot be told."""
        ...

    def write(self, line: bytes) -> None:
        """Raises PoolFull when the process does not read its input. After its end the line is dropped."""
        ...

    async def stop(self, grace: float) -> None:
        """End it: stdin closed, `grace` seconds, SIGTERM, `grace` seconds, SIGKILL to all that is left, and the end of
        the container that it ran. Idempotent.
        """
        ...


class Launcher(Protocol):
    """Starts processes; tests have one that starts none."""

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        """Raises ConnectFailed (CommandNotFound, StartFailed)."""
        ...

    async def aclose(self) -> None: ...


class LineBuffer:
    """Chunks in, lines out. Blank lines are dropped. Raises TooLarge for a line longer than `limit` bytes."""

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
            self._bound(len(line))
            if line:
                lines.append(line)
        if rest:
            self._size += len(rest)
            self._bound(self._size)
            self._pieces.append(rest)
        return lines

    def _bound(self, size: int) -> None:
        if size > self.limit:
            self._pieces.clear()
            raise TooLarge(f"the server's process wrote a line of more than {self.limit} bytes")


class LogBuffer:
    """Chunks of standard error in, lines out, indented as they were. A long line is cut and not refused: Node.js shows
    the line where it threw, and that of a bundle may be a megabyte. Blank lines are dropped.
    """

    __slots__ = ("_held", "limit")

    def __init__(self, limit: int = LINE_WIDTH * 4) -> None:
        self.limit = limit
        self._held = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *complete, rest = chunk.split(b"\n")
        lines = []
        for piece in complete:
            lines.append(self._cut(self._held + piece[: self.limit]))
            self._held = b""
        self._held = (self._held + rest)[: self.limit]
        return [line for line in lines if line]

    def rest(self) -> bytes:
        """Take the text after the last line break, which a process that has ended will not complete."""
        line, self._held = self._cut(self._held), b""
        return line

    def _cut(self, line: bytes) -> bytes:
        shown = line.rstrip().rpartition(b"\r")[2]  # a progress bar writes over itself
        return shown[: self.limit]


class SubprocessLauncher:
    """Starts real processes, each in a session of its own and tied to our life (see `fairlead_mcp.processes`).

    `thread` starts them instead of the main thread, and has to last as long as they shall.
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
        """Run `argv` with `environment` and nothing else; `container` is what it runs beside itself. Raises as `launch`
        does.
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
                preexec_fn=processes.dying_with_parent(self._thread),
            )
        except (OSError, ValueError) as error:
            raise _start_failure(error, argv[0], cwd) from error
        self._guard.add(transport.get_pid(), "" if container is None else container.last_will())
        return _Subprocess(transport, protocol, self._guard, container)

    async def aclose(self) -> None:
        await self._guard.aclose()


def _start_failure(error: OSError | ValueError, program: str, cwd: str | None) -> ConnectFailed:
    """Reason that the system gave for not starting a program. It names neither the program nor its folder alike on all
    event loops.
    """
    if problem := folder_problem(cwd):
        return ConnectFailed(f"{program} cannot be started: {problem}", reason="StartFailed")
    if isinstance(error, FileNotFoundError) and Path(program).is_file():
        return ConnectFailed(
            f"{program} cannot be started: the interpreter that its first line (#!) names does not exist",
            reason="StartFailed",
        )
    if isinstance(error, FileNotFoundError):
        return ConnectFailed(f"{program} does not exist", reason="CommandNotFound")
    return ConnectFailed(f"{program} cannot be started ({error})", reason="StartFailed")


class _Streams(asyncio.SubprocessProtocol):
    """The streams of one process. Tells its end when both it and its output have ended, or soon after the former."""

    def __init__(self, events: ProcessObserver) -> None:
        self._events = events
        self._lines = LineBuffer()
        self._log = LogBuffer()
        self._open = {1, 2}
        self._told = False
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
                self._tell()
        elif fd == 1:
            asyncio.get_running_loop().call_later(MUTE_SECONDS, self._mute)

    def process_exited(self) -> None:
        self.exited.set()
        if self._open:  # its last words are on the way, or a grandchild holds the pipe
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._tell)
        else:
            self._tell()

    def _mute(self) -> None:
        if not self.exited.is_set():
            self._events.on_fault(ConnectionLost("the server's process closed its output but lives on", sent=True))

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            words = self._log.rest()
            if words:
                self._events.on_stderr(printable(words))
            code = self.transport.get_returncode() if self.transport is not None else None
            self._events.on_exit(describe_exit(code))


class _Subprocess:
    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        streams: _Streams,
        guard: processes.GroupGuard,
        container: ContainerRun | None,
    ) -> None:
        self.pid = transport.get_pid()
        self._transport = transport
        self._streams = streams
        self._guard = guard
        self._container = container
        self._input = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
        self._stopped = False

    @property
    def written(self) -> int:
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
    """`exited with code 1`, `was killed by SIGKILL`."""
    if code is None:
        return "ended"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with code {code}"
