"""Facts about servers that run as child processes of this process: restarts, memory, last output.

Servers run as child processes of the gateway only in `fairlead up`, where gateway and operator share a process.
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
    """Facts about the process of one server."""

    restarts: int
    """Number of starts after the first."""
    pid: int | None
    last_words: str
    """Most informative output line of the last run; while the process is being restarted, of the previous run. Empty if
    there is no output.
    """


def collect_facts(children: ChildHost | None, servers: Collection[ServerKey]) -> dict[ServerKey, ProcessFacts]:
    """Collect facts about the servers that are child processes. Must be called in the event loop."""
    child_of = {key: children.find(key) for key in servers} if children is not None else {}
    return {key: _facts_of(child) for key, child in child_of.items() if child is not None}


def measure_memory(facts: Mapping[ServerKey, ProcessFacts]) -> dict[ServerKey, int]:
    """Resident memory of each server's processes in bytes. Must not be called in the event loop, as it reads /proc or
    runs `ps`.
    """
    pids = {key: process.pid for key, process in facts.items() if process.pid is not None}
    if not pids:
        return {}
    sizes = resident_bytes([*pids.values()], processes())
    return {key: sizes[pid] for key, pid in pids.items() if pid in sizes}


def _facts_of(child: Child) -> ProcessFacts:
    printed = child.program.printed
    line = printed.find_failure_line()
    if not line and child.state is not StreamState.RUNNING:
        # the server is still shown as failed, for a reason that the previous run printed
        line = printed.find_failure_line(back=1)
    return ProcessFacts(max(child.starts - 1, 0), child.program.pid, line)
