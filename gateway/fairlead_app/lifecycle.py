"""Readiness of a gateway, and access to its event loop for metrics."""

from __future__ import annotations

import asyncio

from fairlead_gateway.catalog.source import SnapshotStore
from fairlead_web.guard import Readiness


class GatewayLifecycle:
    """Readiness of a gateway, and the number of tasks in its event loop."""

    def __init__(self, snapshots: SnapshotStore) -> None:
        self._snapshots = snapshots
        self._draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Store the running loop; to be called in the gateway's event loop."""
        self._loop = asyncio.get_running_loop()

    def drain(self) -> bool:
        """Report from now on that the gateway is not ready. Returns True only on the first call."""
        was_draining, self._draining = self._draining, True
        return not was_draining

    def readiness(self) -> Readiness:
        """Whether the gateway should get traffic, with the reason."""
        if self._draining:
            return Readiness(False, "the gateway is stopping")
        if not self._snapshots.first_snapshot.is_set():
            return Readiness(False, "the gateway has not read the catalog yet")
        return Readiness(True, "serving", stale=self._snapshots.stale)

    def tasks(self) -> int:
        """Number of asyncio tasks in the gateway's loop. Scrapes run in a thread, so the loop has to be stored."""
        return len(asyncio.all_tasks(self._loop)) if self._loop is not None else 0
