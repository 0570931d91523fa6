"""The processes that a benchmark measures: starting them on a core, reading their CPU time, ending them.

Linux only (`/proc`). Everything started by a `Stage` ends with it, by process group.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from rig.harness import Unmeasurable

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTime:
    """Seconds of processor time."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, other: CpuTime) -> CpuTime:
        return CpuTime(self.user - other.user, self.system - other.system)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name (which may contain spaces); empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def process_tree(root: int) -> list[int]:
    """Ids of `root` and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    pids, todo = [], [root]
    while todo:
        pids.append(pid := todo.pop())
        todo.extend(children.get(pid, []))
    return pids


def cpu_time(root: int) -> CpuTime:
    """Processor time of a process tree so far, children that ended included; resolution 10 ms."""
    user = system = 0
    for pid in process_tree(root):
        if fields := _stat(pid):
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
    return CpuTime(user / _TICKS, system / _TICKS)


@dataclass(frozen=True)
class Memory:
    """Bytes of RAM of a process: current and peak."""

    now: int
    peak: int


def memory(pid: int) -> Memory:
    """Memory of one process, without its children; zeros if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return Memory(0, 0)
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    now, peak = (int(fields.get(name, "0").split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return Memory(now, peak)


def shared_once(pid: int) -> int:
    """RAM of one process in bytes, with shared pages divided among their users (PSS); 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def tree_memory(root: int) -> int:
    """RAM of a process tree in bytes; shared pages count once for each process."""
    return sum(memory(pid).now for pid in process_tree(root))


def machine_time() -> float:
    """Busy seconds of all cores since boot. Time that the benchmark's own processes do not explain is `foreign`
    work.
    """
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS


def cores() -> tuple[int, int]:
    """Core for the measured process, and core for load and upstream; they differ if there are two cores."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1 % len(usable)]


def leave_on_sigterm() -> None:
    """Close every Stage when this process receives SIGTERM. Otherwise their processes would continue on the same
    cores.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class Stage:
    """A scratch folder and the processes of one benchmark; leaving it ends them all."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(
        self, name: str, command: list[str | Path], *, core: int | None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start `command` on `core` (None for any). Its output goes to `NAME.log` in the scratch folder unless
        `options` redirect it.
        """
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        options = {"stdout": log, "stderr": subprocess.STDOUT, **options}
        words = [*(pinned(core) if core is not None else ()), *map(str, command)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder, **options)
        self._stack.callback(_end, process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End one process before the stage ends."""
        _end(process)

    def wait_listening(self, name: str, process: subprocess.Popen[bytes], port: int, seconds: float = 30) -> None:
        """Wait until a process accepts connections on `port`. Raises Unmeasurable with the end of the log if the
        process ended or took too long.
        """
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        self._give_up(name, process, "does not listen")

    def wait_ready(
        self, name: str, process: subprocess.Popen[bytes], port: int, path: str, seconds: float = 30
    ) -> None:
        """Wait until GET `path` is answered with 200. Raises Unmeasurable as `wait_listening` does."""
        end = time.monotonic() + seconds
        self.wait_listening(name, process, port, seconds)
        while process.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
                    return
            except OSError:
                time.sleep(0.05)
        self._give_up(name, process, f"does not answer {path} with 200")

    def _give_up(self, name: str, process: subprocess.Popen[bytes], complaint: str) -> NoReturn:
        log = (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]
        state = complaint if process.poll() is None else f"ended with {process.returncode}"
        raise Unmeasurable(f"{name} {state}:\n{log}")


def become_realtime() -> None:
    """Give this process and its future children real-time priority. Raises Unmeasurable."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError as error:
        raise Unmeasurable("--realtime needs the right to real-time priority: run as root") from error


def become_ordinary(pid: int) -> None:
    """Take real-time priority from all threads of a process. Among ordinary processes it still has the highest
    priority.
    """
    for thread in [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]:
        if os.sched_getscheduler(thread) != os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, -20)


@contextmanager
def ordinary() -> Iterator[None]:
    """Suspend real-time priority of this thread and of the processes that it starts within the context. Among ordinary
    processes they still have the highest priority.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    if policy == os.SCHED_OTHER:
        yield
        return
    thread = threading.get_native_id()
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, thread, -20)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, thread, niceness)
        os.sched_setscheduler(0, policy, parameters)


def put_ahead(pid: int) -> None:
    """Give the first thread of a real-time process priority over its other threads. Threads of equal real-time priority
    on one core wait 100 ms for each other; ordinary ones do not.
    """
    for thread in [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]:
        if os.sched_getscheduler(thread) == os.SCHED_RR:
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(2 if thread == pid else 1))


def pinned(core: int) -> list[str]:
    """Words before a command that pin it to `core`; empty if the machine has no `taskset`."""
    taskset = shutil.which("taskset")
    return [taskset, "-c", str(core)] if taskset else []


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=5)
    if process.stdout:
        process.stdout.close()
