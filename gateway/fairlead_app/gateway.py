"""A complete gateway, which can be started and stopped. `compose` creates it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from prometheus_client import CollectorRegistry

from fairlead_app.lifecycle import GatewayLifecycle
from fairlead_app.parts import GatewayParts
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.endpoint.listener import Listener, PortTaken
from fairlead_web.guard import Readiness

CATALOG_SECONDS: Final = 5.0
"""Maximum time that the start waits for the first catalog, before the gateway accepts clients without a catalog."""


class Gateway:
    """A gateway, to be started and stopped once. `port` and `metrics_port` are known after the start."""

    def __init__(
        self,
        parts: GatewayParts,
        lifecycle: GatewayLifecycle,
        listener: Listener,
        operations: Listener,
        metrics: CollectorRegistry,
    ) -> None:
        shared, models = parts.shared, parts.models
        self.settings = shared.settings
        self.snapshots = parts.snapshots
        self.registry = parts.registry
        self.endpoint = parts.path.endpoint
        self.grants = shared.grants
        """Grants that users made for servers; None if none can be stored."""
        self.call_metrics = shared.metrics
        self.rest = parts.rest
        self.events = shared.events
        """Events of servers and tools, for subscribers."""
        self.models = models.configured
        self.governance = shared.governance
        self.outbox = parts.outbox
        """Latency report that the operator fetches."""
        self.metrics = metrics
        """Registry of all metrics at /metrics."""
        self.upkeep = parts.upkeep
        self.sign_ins = parts.sign_ins
        """Sign-ins of users at servers."""
        self._listings = parts.listings
        self.authorization = parts.authorization
        """Authorization server in front of the providers; None if it is not configured."""
        self._heap = shared.heap
        self._lifecycle = lifecycle
        self._llm = models.llm
        self._speech = models.speech
        self._listener = listener
        self._operations = operations

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def metrics_port(self) -> int:
        return self._operations.port

    @property
    def snapshot(self) -> Snapshot:
        """The served snapshot."""
        return self.endpoint.selection.snapshot

    def readiness(self) -> Readiness:
        return self._lifecycle.readiness()

    async def start(self) -> None:
        """Wait for the first catalog, for at most CATALOG_SECONDS, then accept clients.

        Raises endpoint.listener.PortTaken, after releasing all resources.
        """
        self._lifecycle.begin()
        await self._listener.bind()
        try:
            await self._operations.bind()
        except PortTaken:
            await self._listener.stop(0)
            raise
        await self._operations.serve()
        self._heap.start()
        self.governance.start(self.metrics)
        await self.endpoint.identities.start()
        await self.snapshots.start()
        self.upkeep.start()
        self.sign_ins.start()
        self._listings.start()
        if self.authorization is not None:
            await self.authorization.start()
        self.models.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATALOG_SECONDS):
                await self.snapshots.first_snapshot.wait()
        await self._listener.serve()

    async def stop(self, grace: float | None = None) -> None:
        """Drain, stop accepting, wait up to `grace` seconds for calls in flight, cancel the rest, and close everything.

        Draining takes `settings.listening.drain` seconds, in which the gateway is not ready and closes each connection
        after a response. A second call does not drain again.
        """
        drain = self.settings.listening.drain
        if self._lifecycle.drain() and drain:
            self._listener.retire()
            await asyncio.sleep(drain)
        self.endpoint.streams.close()
        self.rest.records.end_streams()
        grace = self.settings.listening.grace if grace is None else grace
        if self._speech is not None:
            await self._speech.drain(grace)
        await self._listener.stop(grace)
        await self.rest.services.aclose()
        if self._llm is not None:
            await self._llm.aclose()
        if self._speech is not None:
            await self._speech.aclose()
        await self.models.stop()
        await self.snapshots.stop()
        await self.endpoint.identities.aclose()
        await self.endpoint.context.subscriptions.aclose()
        self.endpoint.context.bridge.close()
        if self.authorization is not None:
            await self.authorization.aclose()
        await self._listings.aclose()
        await self.sign_ins.aclose()
        await self.registry.aclose(0)
        await self.upkeep.aclose()
        if self.grants is not None:
            await self.grants.aclose()
        await self.governance.stop()
        await self.rest.services.results.recorder.aclose()
        await self._operations.stop(0)
        await self._heap.stop()
