"""`fairlead` commands as processes that are forked from one interpreter, which has imported their modules before.

    process = await fork_command("tools", "--url", url, cwd=folder, env=environment)
    out, err = await process.communicate()

A short command spends most of its time on imports. The first command of a test process starts the server, which ends
with the test process. Other programs, such as a shell, start a command by `program_words`. `can_fork` is false in
nightly runs, with coverage, and with environment variables that an interpreter reads at its start. The caller then has
to start an interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import marshal
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from select import select
from typing import IO, Final

from examples import NIGHTLY
from forkedprogram import FOLDER

PRELOADED: Final = (
    "encodings.idna",
    "fairlead_app.compose",
    "fairlead_cli.__main__",
    "fairlead_cli.about",
    "fairlead_cli.calling.call",
    "fairlead_cli.calling.tools",
    "fairlead_cli.hidden_tools",
    "fairlead_cli.models.printed_tools",
    "fairlead_cli.servers.showing",
    "fairlead_cli.servers.starting",
    "fairlead_cli.up.command",
    "h11",
    "httpcore2",
    "httpx2",
    "idna",
    "importlib.resources.readers",
    "truststore",
    "typer.main",
)
"""Modules that import most of what verbs need."""
_SDK: Final = "mcp.server.mcpserver"
_LATER: Final = {
    "bridge": "fairlead_cli.bridging.relay",
    "fairlead_cli.demo": _SDK,
    "fairlead_operator": "fairlead_operator.app",
    "operator": "fairlead_operator.app",
    "serve": "fairlead_servers.definition",
}
"""Modules that the server imports before the first program of a verb or module that needs long for them. Scripts are
servers with the SDK.
"""
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
"""Prefixes of environment variables that an interpreter reads at its start."""
_UTF8: Final = "C.UTF-8"
_OF_NO_EFFECT: Final = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONNODEBUGRANGES",
    "PYTHONUNBUFFERED",
    "PYTHON_KEYRING_BACKEND",
)
_NEVER_FORKED: Final = ("COVERAGE", "FAIRLEAD_COVERAGE", "FAIRLEAD_UNGUARDED")
"""Prefixes of environment variables with which another module is imported before the command."""
_REQUEST_BYTES: Final = 1 << 20
_REPORT_BYTES: Final = 64
_LIMIT: Final = 1 << 22

FORKED: Final = [sys.executable, "-I", "-S", str(Path(__file__).with_name("forkedprogram.py"))]
"""Words with which another program starts a script as a forked process, once `start_server` was called."""

spent_s = 0.0
"""Processor seconds of the forked processes whose end was read, and of their children."""


def processor_s() -> float:
    """Processor seconds of all forked processes that have ended, and of their children. The kernel does not count them
    as children of this process, because the server forks them.
    """
    return spent_s + (_server().spent_by_programs() if _server.cache_info().currsize else 0.0)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that an interpreter reads at its start, without those that make no difference to a command. Where no
    locale is set, an interpreter takes UTF-8, and sets LC_CTYPE.
    """
    read = {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
    if read.get("LC_CTYPE") == _UTF8:
        del read["LC_CTYPE"]
    return {"LANG": _UTF8, **{name: value for name, value in read.items() if name not in _OF_NO_EFFECT}}


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a command with this environment behaves the same when it is forked as in a new interpreter."""
    if NIGHTLY in os.environ or _is_never_forked(environment):
        return False
    return _read_at_start(environment) == _server().environment


def _is_never_forked(environment: Mapping[str, str]) -> bool:
    return any(name.startswith(_NEVER_FORKED) for name in environment)


def start_server() -> None:
    """Start the server, for programs that other programs start: not by night, and not while coverage is measured."""
    can_fork(os.environ)


def program_words() -> list[str]:
    """Words with which another program starts `fairlead`: as a forked process, or by night and with coverage as an
    interpreter.
    """
    return FORKED if can_fork(os.environ) else [sys.executable, "-m", "fairlead_cli"]


class ForkedProcess:
    """A process with those methods of `asyncio.subprocess.Process` that tests use. Its standard input is empty, or the
    data passed to `communicate`.
    """

    def __init__(
        self,
        pid: int,
        report: asyncio.StreamReader,
        stdin: int,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: asyncio.StreamReader | None = stdout
        self.stderr: asyncio.StreamReader | None = stderr
        self._stdin = stdin
        self._ended = asyncio.ensure_future(self._read_end(report))

    async def _read_end(self, report: asyncio.StreamReader) -> int:
        global spent_s
        line = await report.read()
        assert line, "the fork server ended before this process did"
        ended = json.loads(line)
        spent_s += ended["cpu_s"]
        self.returncode = int(ended["code"])
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def communicate(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Wait for the end, and return standard output and standard error. `data` has to fit into a pipe."""
        assert self.stdout is not None
        assert self.stderr is not None
        if data:
            os.write(self._stdin, data)
        self.close_stdin()
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err

    def close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def send_signal(self, number: int) -> None:
        """Raises ProcessLookupError after the end of the process."""
        if self.returncode is not None:
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """This process's side of the interpreter that forks."""

    def __init__(self) -> None:
        self.environment = _read_at_start(os.environ)
        self._spent_s = 0.0
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        programs = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        Path(FOLDER).mkdir(mode=0o700, exist_ok=True)
        self._addresses = [Path(FOLDER) / str(os.getpid())]
        self._addresses[0].unlink(missing_ok=True)  # of an earlier process with this id
        programs.bind(str(self._addresses[0]))
        programs.listen()
        with theirs, programs:
            files = [theirs.fileno(), programs.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, files)], pass_fds=files, stdin=subprocess.DEVNULL
            )
        self._addresses.append(Path(FOLDER) / str(self._process.pid))
        self._addresses[1].unlink(missing_ok=True)
        self._addresses[1].symlink_to(self._addresses[0])
        atexit.register(self._end)

    def _end(self) -> None:
        for address in self._addresses:
            address.unlink(missing_ok=True)
        self._socket.close()
        self._process.wait()

    def spent_by_programs(self) -> float:
        """Processor seconds of the commands that other programs started, which the server reports at their end."""
        with contextlib.suppress(BlockingIOError):
            while report := self._socket.recv(_REPORT_BYTES, socket.MSG_DONTWAIT):
                self._spent_s += float(report)
        return self._spent_s

    def fork(self, request: bytes, files: Sequence[int]) -> None:
        socket.send_fds(self._socket, [request], files)


@functools.cache
def _server() -> _Server:
    return _Server()


async def fork_command(*words: str, cwd: Path | None = None, env: Mapping[str, str]) -> ForkedProcess:
    """Start `fairlead WORDS` in a folder, this one by default, with an environment for which `can_fork` is true."""
    theirs_in, stdin = os.pipe()
    stdout, theirs_out = os.pipe()
    stderr, theirs_err = os.pipe()
    report, theirs_report = os.pipe()
    theirs = [theirs_in, theirs_out, theirs_err, theirs_report]
    request = json.dumps({"words": words, "cwd": str(cwd or Path.cwd()), "env": {**env}}).encode()
    _server().fork(request, theirs)
    for file in theirs:
        os.close(file)
    out, err, told = [await _reader(file) for file in (stdout, stderr, report)]
    pid = int(await told.readline())
    return ForkedProcess(pid, told, stdin, out, err)


class _Pipe(asyncio.StreamReaderProtocol):
    """Closes its end of a pipe when the other is closed, on uvloop too."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _reader(file: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: _Pipe(reader), os.fdopen(file, "rb", 0))
    return reader


def serve(requests: socket.socket, programs: socket.socket | None = None) -> None:
    """Fork a process for each request until the socket is closed, and for each program that connects. Returns in each
    forked process, which then runs its command, and in the server at the end.
    """
    server = _Forking(requests, programs)
    signal.set_wakeup_fd(server.wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the tests end first
    while not server.fork_next():
        pass


class _Forking:
    """The interpreter that forks."""

    def __init__(self, requests: socket.socket, programs: socket.socket | None) -> None:
        self._requests = requests
        self._programs = programs
        self._reports: dict[int, int] = {}
        self._connected: dict[socket.socket, int] = {}
        self._awake, self.wakes = os.pipe()
        os.set_blocking(self.wakes, False)

    def fork_next(self) -> bool:
        """Wait for the next event, and act on it. Returns whether this is a forked process."""
        sockets = [self._requests, *self._connected, *([self._programs] if self._programs else ())]
        readable, _, _ = select([self._awake, *sockets], [], [])
        if self._awake in readable:
            os.read(self._awake, 1 << 10)
            self._report_ended()
        for connection in self._connected.keys() & {*readable}:
            os.kill(self._connected.pop(connection), signal.SIGKILL)  # its program was killed
            connection.close()
        if self._programs is not None and self._programs in readable and self._fork_for_program(self._programs):
            return True
        return self._requests in readable and self._fork_for_request()

    def _fork_for_request(self) -> bool:
        request, files, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, 4)
        if not request:
            os._exit(0)
        *streams, report = files
        if (pid := os.fork()) == 0:
            _become(json.loads(request), streams)
            return True
        os.write(report, b"%d\n" % pid)
        self._reports[pid] = report
        for file in streams:
            os.close(file)
        return False

    def _fork_for_program(self, programs: socket.socket) -> bool:
        connection, _ = programs.accept()
        request, streams, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
        pid = 0
        if request:
            words, folder, environment = marshal.loads(request)  # a program of these tests wrote it
            read = _read_at_start({**_folders_of_modules(), **environment})
            if not _is_never_forked(environment) and read == _read_at_start(os.environ):
                if (module := _needed_by(words)) and module not in sys.modules:
                    importlib.import_module(module)
                    gc.collect()
                    gc.freeze()
                if (pid := os.fork()) == 0:
                    _become({"words": words, "cwd": folder, "env": environment}, streams)
                    return True
                self._connected[connection] = pid
        with contextlib.suppress(OSError):  # a program that is gone: its end is noticed like any other
            connection.send(b"%d" % pid)
        if not pid:
            connection.close()
        for stream in streams:
            os.close(stream)
        return False

    def _report_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                code = os.waitstatus_to_exitcode(status)
                cpu_s = usage.ru_utime + usage.ru_stime
                if pid in self._reports:
                    report = self._reports.pop(pid)
                    os.write(report, json.dumps({"code": code, "cpu_s": cpu_s}).encode())
                    os.close(report)
                    continue
                with contextlib.suppress(OSError):  # nobody has read the reports for a long time
                    self._requests.send(b"%f" % cpu_s, socket.MSG_DONTWAIT)
                for connection in [each for each, forked in self._connected.items() if forked == pid]:
                    del self._connected[connection]
                    with contextlib.suppress(OSError), connection:
                        connection.send(b"%d" % code)


def _become(request: Mapping[str, object], streams: Sequence[int]) -> None:
    """Give this process the arguments, streams, folder and environment of a newly started interpreter."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    os.closerange(3, 1 << 10)
    words, folder, environment = request["words"], request["cwd"], request["env"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    os.chdir(str(folder))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = ["fairlead", *words]
    sys.stdin = _text(0, "r", sys.stdin)
    sys.stdout = _text(1, "w", sys.stdout)
    sys.stderr = _text(2, "w", sys.stderr)


def _folders_of_modules() -> dict[str, str]:
    """PYTHONPATH of this process, which names the compiled path: a program that was given none may have it too."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def _needed_by(words: Sequence[str]) -> str | None:
    name = next((word for word in words if word != "-m"), "")
    return _SDK if name.endswith(".py") else _LATER.get(name)


def _is_script(words: Sequence[str]) -> bool:
    return bool(words) and words[0].endswith((".py", "-m"))


def _text(file: int, mode: str, as_is: IO[str]) -> io.TextIOWrapper:
    """A standard stream that is not a terminal."""
    binary = open(file, mode + "b", closefd=False)  # noqa: SIM115  # open as long as the process
    assert isinstance(as_is, io.TextIOWrapper)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    return io.TextIOWrapper(
        binary, encoding=as_is.encoding, errors=as_is.errors, line_buffering=file == 2, write_through=unbuffered
    )


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    from fairlead_cli.__main__ import main as fairlead

    _build_what_commands_build()
    gc.collect()
    gc.freeze()
    sockets = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    serve(*sockets)
    for each in sockets:
        each.detach()  # its number may be that of another file now
    words = sys.argv[1:]
    if not _is_script(words):
        _end(fairlead)
    elif words[0] == "-m":
        sys.argv = words[1:]
        _end(lambda: runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True))
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).parent)
        _end(lambda: runpy.run_path(words[0], run_name="__main__"))


def _build_what_commands_build() -> None:
    """Build the command line and the validators of all kinds, which each command would build again: 65 ms and 75 ms.
    Modules live as long as a command, so its first full collection need not look through them, for another 75 ms.
    """
    import fairlead_cli.tree
    from fairlead_api.v1alpha1.common import Model

    command = fairlead_cli.tree.tree()
    vars(fairlead_cli.tree)["tree"] = lambda: command
    models: list[type[Model]] = [Model]
    while models:
        model = models.pop()
        model.model_rebuild()
        models += model.__subclasses__()

    def keep_modules_frozen() -> None:
        vars(gc)["unfreeze"] = unfreeze

    unfreeze = gc.unfreeze
    vars(gc)["unfreeze"] = keep_modules_frozen


def _end(program: Callable[[], object]) -> None:
    """Run a program, and end this process as an interpreter does, but without taking its thousands of modules apart."""
    code: object = None
    try:
        program()
    except SystemExit as end:
        code = end.code
    except Exception:  # noqa: BLE001  # an interpreter prints it
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an interpreter does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            code = 120
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
