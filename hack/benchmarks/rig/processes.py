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
    """Fields of /proc/PID/stat after the name (which may hold spaces); empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def process_tree(root: int) -> list[int]:
    """`root` and all its descendants."""
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
    """Bytes that a process holds in RAM, now and at most so far."""

    now: int
    peak: int


def memory(pid: int) -> Memory:
    """Memory of one process, without its children; zeros for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return Memory(0, 0)
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    now, peak = (int(fields.get(name, "0").split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return Memory(now, peak)


def shared_once(pid: int) -> int:
    """Bytes of RAM of one process, what it shares divided by its users (PSS); 0 for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def tree_memory(root: int) -> int:
    """Bytes that a process tree holds in RAM; what its processes share is counted for each."""
    return sum(memory(pid).now for pid in process_tree(root))


def machine_time() -> float:
    """Busy seconds of all cores since boot: what a benchmark's own processes do not explain is `foreign` work."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS


def cores() -> tuple[int, int]:
    """(for what is measured, for load and upstream): two cores where there are two."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1 % len(usable)]


def leave_on_sigterm() -> None:
    """Leave every Stage when this process is ended: what they started would go on without it, on the same cores."""
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
        """Start `command` on `core` (None = any), its output in `NAME.log` of the scratch folder unless `options` says
        otherwise.
        """
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        options = {"stdout": log, "stderr": subprocess.STDOUT, **options}
        words = [*(pinned(core) if core is not None else ()), *map(str, command)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder, **options)
        self._stack.callback(_end, process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End one before the rest."""
        _end(process)

    def wait_listening(self, name: str, process: subprocess.Popen[bytes], port: int, seconds: float = 30) -> None:
        """Until something accepts on `port`; Unmeasurable with the end of the log when it ended or took too long."""
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
        """Until GET `path` is answered with 200; Unmeasurable as for `wait_listening`."""
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
    """Give this process real-time priority, and with it everything started from here on. Raises Unmeasurable."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError as error:
        raise Unmeasurable("--realtime needs the right to real-time priority: run as root") from error


def become_ordinary(pid: int) -> None:
    """Take real-time priority from a process that has it, with all its threads; it stays the first among others."""
    for thread in [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]:
        if os.sched_getscheduler(thread) != os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, -20)


@contextmanager
def ordinary() -> Iterator[None]:
    """Within, this thread does without the real-time priority that it may have, and so does what it starts; they stay
    the first among others.
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
    """Let the first thread of a real-time process go before its others, as it would if all were ordinary: among equals
    on one core, each waits for 100 ms of the other.
    """
    for thread in [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]:
        if os.sched_getscheduler(thread) == os.SCHED_RR:
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(2 if thread == pid else 1))


def pinned(core: int) -> list[str]:
    """The words before a command that keep it on `core`, where the machine has `taskset`."""
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
