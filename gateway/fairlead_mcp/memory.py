"""Resident memory of child processes with their descendants.

Reads /proc, or runs `ps` where there is none (macOS, BSD). Pages that processes share are counted for each of them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PS_SECONDS: Final = 5.0
_PROC: Final = Path("/proc")


class ProcessMemory(NamedTuple):
    """Memory and relations of one process."""

    pid: int
    parent: int
    session: int
    """Session ID, which is the process ID of the session's leader; 0 if unknown."""
    resident: int
    """Resident set size in bytes."""


def processes() -> list[ProcessMemory]:
    """Return all processes that can be read. Blocks for some milliseconds; empty if none can be read."""
    return [*_from_proc()] if (_PROC / "self" / "stat").exists() else [*_from_ps()]


def resident_bytes(roots: Collection[int], running_processes: Collection[ProcessMemory]) -> Mapping[int, int]:
    """Sum the resident bytes of each root process, its descendants and the other processes of its session.

    Roots that have ended are left out.
    """
    children: dict[int, list[ProcessMemory]] = {}
    for process in running_processes:
        children.setdefault(process.parent, []).append(process)
    sizes = {}
    for root in roots:
        tree = {process.pid: process for process in running_processes if root in (process.pid, process.session)}
        pending = [*tree]
        while pending:
            for child in children.get(pending.pop(), ()):
                if child.pid not in tree:
                    tree[child.pid] = child
                    pending.append(child.pid)
        if root in tree:
            sizes[root] = sum(process.resident for process in tree.values())
    return sizes


def _from_proc() -> Iterator[ProcessMemory]:
    page = os.sysconf("SC_PAGE_SIZE")
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # the name in parentheses may hold anything, blanks and parentheses too
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield ProcessMemory(int(folder.name), int(fields[1]), int(fields[3]), int(fields[21]) * page)
        except (OSError, ValueError, IndexError):
            continue  # the process has ended


def _from_ps() -> Iterator[ProcessMemory]:
    command = ("ps", "-axo", "pid=,ppid=,rss=")
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            yield ProcessMemory(int(words[0]), int(words[1]), 0, int(words[2]) * 1024)
