"""Facts about servers that run as child processes of this one: restarts, memory, last words.

Only a gateway that shares its children with the operator knows it (`fairlead up`); elsewhere there are no such facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_mcp.child import Child
from fairlead_mcp.host import ChildHost
from fairlead_mcp.memory import processes, resident_bytes
from fairlead_mcp.stream_client import StreamState


class ProcessFacts(msgspec.Struct, frozen=True):
    """One server's process."""

    restarts: int
    """Starts after the first."""
    pid: int | None
    last_words: str
    """The line that says most of what its last run printed, or the one before it while it is started again; empty where
    none does.
    """


def running(children: ChildHost | None, servers: Collection[ServerKey]) -> dict[ServerKey, ProcessFacts]:
    """Facts about each server that is a child process. Called in the loop."""
    processes = {key: children.find(key) for key in servers} if children is not None else {}
    return {key: _of(child) for key, child in processes.items() if child is not None}


def resident(facts: Mapping[ServerKey, ProcessFacts]) -> dict[ServerKey, int]:
    """Bytes that the processes of each server take up. Not in the loop: it reads /proc, or asks `ps`."""
    pids = {key: process.pid for key, process in facts.items() if process.pid is not None}
    if not pids:
        return {}
    sizes = resident_bytes([*pids.values()], processes())
    return {key: sizes[pid] for key, pid in pids.items() if pid in sizes}


def _of(child: Child) -> ProcessFacts:
    printed = child.program.printed
    words = printed.find_failure_line()
    if not words and child.state is not StreamState.RUNNING:
        words = printed.find_failure_line(back=1)  # it is still shown as failed, and nobody reads why in an empty line
    return ProcessFacts(max(child.starts - 1, 0), child.program.pid, words)
