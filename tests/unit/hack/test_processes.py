"""Figures about processes that benchmarks read, tested with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ports import free_port
from rig.harness import Unmeasurable
from rig.processes import Stage, cpu_time, memory, process_tree, shared_once
from waiting import until


def test_a_tree_holds_the_children_of_a_process() -> None:
    with Stage() as stage:
        shell = stage.start("shell", ["sh", "-c", "sleep 30 & wait"], core=0)
        tree = until("the shell's child", lambda: (t := process_tree(shell.pid))[1:] and t)
        assert tree[0] == shell.pid
    until("all of them gone", lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in tree))


def test_a_benchmark_that_is_ended_ends_what_it_started() -> None:
    code = (
        "from rig.processes import Stage, leave_on_sigterm; leave_on_sigterm()\n"
        "with Stage() as stage:\n"
        "    started = stage.start('sleeper', ['sleep', '600'], core=None)\n"
        "    print(started.pid, flush=True)\n"
        "    started.wait()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as benchmark:
        assert benchmark.stdout is not None
        started = Path(f"/proc/{int(benchmark.stdout.readline())}/exe")
        assert started.exists()
        benchmark.terminate()
        assert benchmark.wait(timeout=60) == 128 + signal.SIGTERM
    assert not started.exists()


def test_processor_time_is_counted_for_children_too() -> None:
    with Stage() as stage:
        busy = stage.start("busy", ["sh", "-c", f"{sys.executable} -c 'while True: pass' & wait"], core=0)
        until("some processor time", lambda: cpu_time(busy.pid).user > 0.05)


def test_the_time_of_a_process_that_is_gone_is_nothing() -> None:
    pid = os.posix_spawn("/bin/true", ["/bin/true"], {})
    os.waitpid(pid, 0)
    assert cpu_time(pid).total == 0


def test_memory_that_processes_share_is_counted_once() -> None:
    assert 0 < shared_once(os.getpid()) <= memory(os.getpid()).peak
    pid = os.posix_spawn("/bin/true", ["/bin/true"], {})
    os.waitpid(pid, 0)
    assert shared_once(pid) == 0


def test_a_program_that_ends_instead_of_listening_is_named_with_its_log() -> None:
    with Stage() as stage:
        broken = stage.start("broken", ["sh", "-c", "echo no such option; exit 3"], core=0)
        with pytest.raises(Unmeasurable, match=r"(?s)broken ended with 3:\nno such option"):
            stage.wait_listening("broken", broken, free_port())
