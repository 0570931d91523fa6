"""Names and meaning of the operator's metrics, in one place. Written by the controller and the composition root."""

from __future__ import annotations

import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fairlead_api.meta import ServerKey


class Telemetry:
    """The metrics of one operator, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "fairlead_operator_reconciles",
            "Looks at one McpServer, by how they ended.",
            ["outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "fairlead_operator_reconcile_duration_seconds",
            "Duration of one look at one McpServer.",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
            registry=self.registry,
        )
        self.troubles = Counter(
            "fairlead_operator_errors", "Looks that did not end in Done, by reason.", ["reason"], registry=self.registry
        )
        self.depth = Gauge(
            "fairlead_operator_queue_depth", "McpServers that wait for a worker.", registry=self.registry
        )
        self.servers = Gauge("fairlead_operator_servers", "McpServers that exist.", registry=self.registry)
        self.moves = Counter(
            "fairlead_operator_tier_moves",
            "Tools that left a tier (down) or came back to one (up).",
            ["direction"],
            registry=self.registry,
        )
        self.held = Gauge(
            "fairlead_held_definitions",
            "Definitions of a server with pin: true that are held back until approved.",
            ["namespace", "server"],
            registry=self.registry,
        )
        self.leader = Gauge("fairlead_operator_leader", "1 while this replica leads.", registry=self.registry)
        self.writes = Counter(
            "fairlead_operator_api_writes",
            "Requests to the API server that may change something.",
            ["verb", "resource"],
            registry=self.registry,
        )

    def hold_back(self, key: ServerKey, held: int | None) -> None:
        """How many definitions of a server are held back; None for one that is not pinned, or gone."""
        if held is not None:
            self.held.labels(*key).set(held)
        else:
            with contextlib.suppress(KeyError):
                self.held.remove(*key)
