"""Resident memory of process trees: what child processes and everything that they started take up.

Reads /proc, and asks `ps` where there is none (macOS, BSD). A moment's picture: pages that processes share are counted
for each of them, as `ps` does.
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
    """One process."""

    pid: int
    parent: int
    session: int
    """Id of its session, which is the pid of the process that began it; 0 where that is not known."""
    resident: int
    """Bytes."""


def processes() -> list[ProcessMemory]:
    """Every process that may be looked at. Blocks for some milliseconds; empty where nothing can be read."""
    return [*_from_proc()] if (_PROC / "self" / "stat").exists() else [*_from_ps()]


def resident_bytes(roots: Collection[int], living: Collection[ProcessMemory]) -> Mapping[int, int]:
    """By root: the resident bytes of the process, of all below it, and of those of its session that have lost their
    parents. A root that is not living is left out.
    """
    children: dict[int, list[ProcessMemory]] = {}
    for process in living:
        children.setdefault(process.parent, []).append(process)
    sizes = {}
    for root in roots:
        tree = {process.pid: process for process in living if root in (process.pid, process.session)}
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
            continue  # it is gone


def _from_ps() -> Iterator[ProcessMemory]:
    command = ("ps", "-axo", "pid=,ppid=,rss=")
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in told.splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            yield ProcessMemory(int(words[0]), int(words[1]), 0, int(words[2]) * 1024)
