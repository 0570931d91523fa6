"""Garbage collections and memory of a gateway, with all its processes."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass

from gateway.gateways import Target
from rig.harness import Unmeasurable
from rig.processes import memory, process_tree, shared_once


@dataclass(frozen=True)
class Collections:
    """Full (generation 2) garbage collections since the start of a process, and their time."""

    full: int = 0
    seconds: float = 0.0

    def __sub__(self, other: Collections) -> Collections:
        return Collections(self.full - other.full, self.seconds - other.seconds)


@dataclass(frozen=True)
class Footprint:
    """RAM in bytes: of the process that serves MCP, and of all processes with shared pages counted once (PSS)."""

    serving: int
    together: int


def collections_of(target: Target) -> Collections:
    """Garbage collections according to the target's metrics; zeros for a target without such metrics, for example
    nginx.
    """
    if not target.metrics:
        return Collections()
    page = metrics_of(target)
    full = page.get('python_gc_collections_total{generation="2"}', 0)
    return Collections(int(full), page.get("fairlead_gc_full_collection_seconds_total", 0))


def metrics_of(target: Target) -> dict[str, float]:
    """Values of /metrics by name and labels. Raises Unmeasurable."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{target.metrics}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
    except OSError as error:
        raise Unmeasurable(f"{target.name} shows no metrics: {error}") from error
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def footprint_of(target: Target) -> Footprint:
    """Footprint of the gateway's process and its children."""
    return Footprint(memory(target.pid).now, sum(shared_once(pid) for pid in process_tree(target.pid)))
