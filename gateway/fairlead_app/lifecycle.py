"""Whether a gateway should get traffic, and the loop that it runs in: what its probes and its metrics ask."""

from __future__ import annotations

import asyncio

from fairlead_gateway.catalog.source import SnapshotStore
from fairlead_web.guard import Readiness


class GatewayLifecycle:
    """Begins in the loop of the gateway, and drains once."""

    def __init__(self, snapshots: SnapshotStore) -> None:
        self._snapshots = snapshots
        self._draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Remember the loop: it is this one."""
        self._loop = asyncio.get_running_loop()

    def drain(self) -> bool:
        """Be not ready from now on. Whether this is the first time."""
        was_draining, self._draining = self._draining, True
        return not was_draining

    def readiness(self) -> Readiness:
        """Whether this gateway should get traffic, and why not."""
        if self._draining:
            return Readiness(False, "stopping")
        if not self._snapshots.first_snapshot.is_set():
            return Readiness(False, "no catalog yet")
        return Readiness(True, "serving", stale=self._snapshots.stale)

    def tasks(self) -> int:
        """Tasks of the loop. Scrapes are answered in a thread, which has no loop of its own to ask."""
        return len(asyncio.all_tasks(self._loop)) if self._loop is not None else 0
