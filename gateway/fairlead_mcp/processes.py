"""System calls that end child processes together with this process.

These mechanisms work even when this process is killed with SIGKILL and cannot clean up:

- A direct child gets SIGKILL by PR_SET_PDEATHSIG. The kernel sends the signal when the *thread* that started the child
  ends, so children are started from the main thread, or from another thread that outlives them.
- A child's descendants (`uv tool run` and `npx` stay as parents of the server) are in its process group, which the
  guard kills. The guard is a small shell that reads a pipe from this process and acts when the pipe closes.
- Containers are not descendants of this process: the guard stops them by the client of their engine
  (`fairlead_mcp.containers`).
- A process that left the group by `setsid` gets the end of its standard input, as this process has the only writing
  end. A server that also ignores the end of its input survives.

When a child is stopped or dies while this process lives, its group is killed. Descendants that had left the group are
found in /proc and killed by process ID; `become_subreaper` makes such orphans children of this process, so that they
can be reaped.

Without prctl (macOS, BSD) only the guard and the end of standard input remain.
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
_prctl: Final = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)  # a forked child must not import

_GUARD: Final = """\
trap '' INT TERM HUP QUIT
last=
while read -r line; do last=$line; done
eval "$last"
"""


def become_subreaper() -> None:
    """Make orphaned descendants children of this process; call it once per process. Raises OSError."""
    if _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def make_parent_death_hook(long_lived: threading.Thread | None = None) -> Callable[[], None]:
    """Make a `preexec_fn` that ends the new process when the current thread ends.

    Raises RuntimeError unless the current thread is the main thread or `long_lived`, a thread that outlives the
    process.
    """
    if threading.current_thread() not in (threading.main_thread(), long_lived):
        raise RuntimeError(
            "child processes must be started from a long-lived thread, such as the main thread, because a child ends "
            "with the thread that started it"
        )
    parent = os.getpid()
    prctl = _prctl

    def preexec() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call of prctl
            os._exit(1)

    return preexec


class Stray(NamedTuple):
    """Descendant of a child process, by process ID and start time (clock ticks since boot). The start time tells it
    from a later process with the same ID.
    """

    pid: int
    start_time: int


def descendants(pid: int) -> list[Stray]:
    """Return the living descendants of a process by /proc; empty without /proc."""
    strays: list[Stray] = []
    pending = [pid]
    while pending:
        for children in _children(pending.pop()):
            strays += [Stray(child, started_at(child)) for child in children]
            pending += children
    return strays


def _children(pid: int) -> Iterator[list[int]]:
    """Yield the children of each thread of a process; uv starts the server from another thread than the first."""
    with contextlib.suppress(OSError):  # the folder may vanish while it is listed
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError, ValueError):
                yield [int(child) for child in path.read_text().split()]


def started_at(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def written_bytes(pid: int) -> int:
    """Return the bytes that a process and its descendants have written to files and pipes (proc_pid_io(5)).

    Includes children that have ended; 0 if the system does not say.
    """
    return sum(_written_bytes(each) for each in (pid, *(stray.pid for stray in descendants(pid))))


def _written_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return next(int(line.partition(":")[2]) for line in lines if line.startswith("wchar:"))
    except (OSError, ValueError, StopIteration):
        return 0


def signal_group(pgid: int, number: signal.Signals) -> None:
    """Signal a process group; no-op if it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def kill_all(strays: list[Stray]) -> None:
    """Kill the given processes that still run, but no later processes with the same IDs."""
    for stray in strays:
        if stray.start_time and started_at(stray.pid) == stray.start_time:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stray.pid, signal.SIGKILL)


def reap(pgid: int, strays: list[Stray]) -> bool:
    """Reap the ended children of this process among a group and `strays`. True if none is left.

    Only for a group whose leader asyncio has reaped already, as asyncio would miss its exit code.
    """
    still_runs = [_reap_one(target) for target in (-pgid, *(stray.pid for stray in strays))]
    return not any(still_runs)


def _reap_one(target: int) -> bool:
    """Reap the ended children that match a `waitpid` target. True if a matching child still runs."""
    while True:
        try:
            if os.waitpid(target, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


class GroupGuard:
    """Shell process that kills the process groups of this process's children when this process ends; started on demand.

    The guard reads a line of shell after each change of the groups, and runs the last line when its input ends. Without
    /bin/sh grandchildren may survive this process.
    """

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        """Line of shell that stops a group's container, by group; empty without a container."""
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the guard, also again after it was killed. Idempotent."""
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
                self._send_groups()

    def add(self, pgid: int, kill_line: str = "") -> None:
        """Add a group to kill, with a line of shell to run after that."""
        self._groups[pgid] = kill_line
        self._send_groups()

    def discard(self, pgid: int) -> None:
        self._groups.pop(pgid, None)
        self._send_groups()

    async def aclose(self) -> None:
        """End the guard, which kills the groups that were not discarded."""
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

    def _send_groups(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                kills = [f"kill -s KILL -- -{group} 2>/dev/null" for group in sorted(self._groups)]
                kill_lines = [line for line in self._groups.values() if line]
                self._process.stdin.write("; ".join([*kills, *kill_lines]).encode() + b"\n")
