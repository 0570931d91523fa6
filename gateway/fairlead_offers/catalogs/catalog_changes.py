"""Counts the tools that were added, removed or modified from one snapshot to the next, for the metrics of search.

Two snapshots are first compared by one SHA-256 over all their tools. Only if the SHA-256 differs, the snapshots are
compared by the `searchHash` of each tool.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_gateway.events import SWAPPED, Event, EventLog
from fairlead_offers.problems import Problem
from fairlead_offers.workers.heavy_work import WorkerThread, with_pauses

Hashes: TypeAlias = Mapping[str, str]
"""`searchHash` of each tool of a snapshot, by `namespace/server/tool`."""
RETRY_SECONDS: Final = 1.0
log = logging.getLogger(__name__)


class CatalogChanges:
    """Counts the tools that were added, removed or modified since the gateway's first catalog."""

    def __init__(
        self, events: EventLog, snapshot: Callable[[], Snapshot], worker: WorkerThread, counts: SearchCounts
    ) -> None:
        self._snapshot = snapshot
        self._worker = worker
        self._counts = counts
        self._hashes: Hashes | None = None
        self._catalog_hash = ""
        self._task: asyncio.Task[None] | None = None
        self._has_newer_snapshot = False
        """Whether a snapshot that has not been compared yet was activated."""
        self._unsubscribe = events.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.type != SWAPPED:
            return
        self._has_newer_snapshot = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._follow(), name="changes of what is searched")

    async def _follow(self) -> None:
        while self._has_newer_snapshot:
            self._has_newer_snapshot = False
            snapshot = self._snapshot()
            try:
                catalog_hash, hashes_now = await self._worker.do(partial(hashes, snapshot))
            except Problem:  # too much work is waiting for the thread
                self._has_newer_snapshot = True
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if catalog_hash == self._catalog_hash:
                continue
            previous_hashes, self._hashes, self._catalog_hash = self._hashes, hashes_now, catalog_hash
            if previous_hashes is not None:
                counts = {kind: len(names) for kind, names in differences(previous_hashes, hashes_now).items()}
                for kind, tools in counts.items():
                    self._counts.count_change(kind, tools)
                log.debug("Searched tools changed: %s", counts)

    async def aclose(self) -> None:
        """Unsubscribe from activations of snapshots, and cancel a running comparison."""
        self._unsubscribe()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])


def hashes(snapshot: Snapshot) -> tuple[str, Hashes]:
    """Compute the SHA-256 over the sorted tools of a snapshot, and return it with the `searchHash` of each tool."""
    by_tool = {
        f"{key}/{entry.name}": entry.search_hash
        for key, server in snapshot.servers.items()
        for entry in with_pauses(server.catalog.tools, 64)
    }
    listing = "\n".join(f"{name} {by_tool[name]}" for name in sorted(by_tool))
    return hashlib.sha256(listing.encode("utf-8", "replace")).hexdigest(), by_tool


def differences(old_hashes: Hashes, new_hashes: Hashes) -> dict[str, list[str]]:
    """Names of the tools that were `added`, `removed` and `modified` between two snapshots, by these three words."""
    return {
        "added": [name for name in new_hashes if name not in old_hashes],
        "removed": [name for name in old_hashes if name not in new_hashes],
        "modified": [name for name, new_hash in new_hashes.items() if old_hashes.get(name, new_hash) != new_hash],
    }
