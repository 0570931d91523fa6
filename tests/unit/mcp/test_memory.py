"""Memory of process trees: which processes belong to a tree, and the memory of a real process."""

from __future__ import annotations

import os
import subprocess
import sys

from fairlead_mcp.memory import ProcessMemory, processes, resident_bytes

TREE = [
    ProcessMemory(pid=10, parent=1, session=10, resident=100),
    ProcessMemory(pid=11, parent=10, session=10, resident=20),
    ProcessMemory(pid=12, parent=11, session=10, resident=3),
    ProcessMemory(pid=13, parent=1, session=10, resident=5),  # its parent has ended
    ProcessMemory(pid=14, parent=12, session=14, resident=7),  # has left the session
    ProcessMemory(pid=20, parent=1, session=20, resident=1000),
]


def test_a_tree_has_what_a_process_started_and_what_its_session_left_behind() -> None:
    assert resident_bytes([10], TREE) == {10: 135}
    assert resident_bytes([10, 20], TREE) == {10: 135, 20: 1000}


def test_a_process_that_is_gone_has_no_size() -> None:
    assert resident_bytes([99], TREE) == {}


def test_processes_that_are_each_others_parents_are_counted_once() -> None:
    loop = [ProcessMemory(1, 2, 0, 10), ProcessMemory(2, 1, 0, 10)]
    assert resident_bytes([1], loop) == {1: 20}


def test_a_real_process_and_its_child_are_found_with_their_sizes() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the grandchild still runs
        sizes = resident_bytes([process.pid, os.getpid()], processes())
        process.communicate(b"\n")
    assert sizes[process.pid] > 2 * 4_000_000, "two interpreters"
    assert sizes[os.getpid()] > sizes[process.pid], "this one has them below it"
