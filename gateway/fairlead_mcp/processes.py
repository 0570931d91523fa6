"""System calls that keep any process from outliving us. Helpers of `fairlead_mcp.stdio`; no MCP in here.

Covered when this process is killed with SIGKILL, without a chance to clean up:

- a direct child dies at once (PR_SET_PDEATHSIG; it fires when the *thread* that started the child ends, hence:
  spawn from the main thread only, or from one thread that is told to last as long as the children shall);
- what it started itself (`uv tool run` and `npx` stay as parents of the server) is in its process group, and the guard
  kills the group: a tiny shell that holds the other end of a pipe to us and wakes up when that closes;
- what the engine of a container runs is not below us at all: the guard ends it by the engine's client
  (`fairlead_mcp.containers`);
- what left the group by `setsid` sees the end of its standard input, as we hold the only writing end. A server that
  ignores that as well survives.

When a child is stopped or dies while we live, its group is killed, and what left the group before that is found in
/proc and killed by pid; `become_subreaper` makes such orphans our children, so that they can be reaped.

Where there is no prctl (macOS, BSD) the guard and the end of standard input do what they do, and nothing else does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_prctl: Final = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)  # here: a forked child must not import

_GUARD: Final = """\
trap '' INT TERM HUP QUIT
last=
while read -r line; do last=$line; done
eval "$last"
"""


def become_subreaper() -> None:
    """Make orphans of our children our own children. Called once by the composition root. Raises OSError."""
    if _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def dying_with_parent(lasting: threading.Thread | None = None) -> Callable[[], None]:
    """A `preexec_fn` that ties the new process to the current thread, which must be the main one or `lasting`: a thread
    that its owner keeps for as long as the process. Raises RuntimeError on any other, see the module.
    """
    if threading.current_thread() not in (threading.main_thread(), lasting):
        raise RuntimeError("child processes are started from the main thread only: they would die with another")
    parent = os.getpid()
    prctl = _prctl

    def preexec() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return preexec


class Stray(NamedTuple):
    """A process, told from a later one of the same number by when it started (clock ticks since boot)."""

    pid: int
    started: int


def descendants(pid: int) -> list[Stray]:
    """All living processes below `pid`, by /proc; a moment's picture, empty where there is no /proc."""
    strays: list[Stray] = []
    pending = [pid]
    while pending:
        for children in _children(pending.pop()):
            strays += [Stray(child, started_at(child)) for child in children]
            pending += children
    return strays


def _children(pid: int) -> Iterator[list[int]]:
    """Children of each thread of a process; uv starts the server from another thread than the first."""
    with contextlib.suppress(OSError):  # the folder itself goes while it is listed
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError, ValueError):
                yield [int(child) for child in path.read_text().split()]


def started_at(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def written_bytes(pid: int) -> int:
    """Bytes that a process, its children that have ended and its living descendants have written to files and pipes; 0
    where that cannot be told (proc_pid_io(5)).
    """
    return sum(_written(each) for each in (pid, *(stray.pid for stray in descendants(pid))))


def _written(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return next(int(line.partition(":")[2]) for line in lines if line.startswith("wchar:"))
    except (OSError, ValueError, StopIteration):
        return 0


def signal_group(pgid: int, number: signal.Signals) -> None:
    """Signal a process group that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def kill_all(strays: list[Stray]) -> None:
    """Kill processes that may be gone, and only these."""
    for stray in strays:
        if stray.started and started_at(stray.pid) == stray.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray.pid, signal.SIGKILL)


def reap(pgid: int, strays: list[Stray]) -> bool:
    """Collect the dead orphans of a group and these processes, as far as they are ours. True when none is left.

    Only for a group whose leader asyncio has collected already: it would miss it otherwise.
    """
    left = [_reap_one(target) for target in (-pgid, *(stray.pid for stray in strays))]
    return not any(left)


def _reap_one(target: int) -> bool:
    """Collect all that is dead under a `waitpid` target. True when something of ours lives on."""
    while True:
        try:
            if os.waitpid(target, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


class GroupGuard:
    """The process that kills the groups of our children once we are gone. Started with the first group.

    It reads lines of shell, one for each state of the groups, and runs the last when we are gone. Without /bin/sh
    the guarantee for grandchildren is lost, nothing else.
    """

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        """Groups, and the line of shell that ends what is not in the group; empty for nothing."""
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Idempotent; restarts a guard that somebody killed."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            try:
                self._process = await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    _GUARD,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                )
            except OSError:
                self._process = None
            else:
                self._tell()

    def add(self, pgid: int, last_will: str = "") -> None:
        """Have a group killed, and then a line of shell run."""
        self._groups[pgid] = last_will
        self._tell()

    def discard(self, pgid: int) -> None:
        self._groups.pop(pgid, None)
        self._tell()

    async def aclose(self) -> None:
        """Let it go; groups that are still known are killed by it."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(2):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _tell(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                kills = [f"kill -s KILL -- -{group} 2>/dev/null" for group in sorted(self._groups)]
                wills = [will for will in self._groups.values() if will]
                self._process.stdin.write("; ".join([*kills, *wills]).encode() + b"\n")
