"""Creates the Prometheus collectors of a gateway."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry

from fairlead_app.lifecycle import GatewayLifecycle
from fairlead_app.metrics.event_loop import EventLoopCollector
from fairlead_app.metrics.exposition import GatewayCollector, registry_of
from fairlead_app.metrics.grants import GrantCollector
from fairlead_app.metrics.guards import GuardCollector
from fairlead_app.metrics.latencies import LatencyCollector
from fairlead_app.metrics.reloads import ReloadCollector
from fairlead_app.metrics.servers import ServerCollector
from fairlead_app.metrics.sign_ins import SignInCollector
from fairlead_app.parts import GatewayParts
from fairlead_gateway.custom.exposition import CustomCollector
from fairlead_gateway.endpoint.listener import Listener


def gateway_metrics(parts: GatewayParts, lifecycle: GatewayLifecycle, listener: Listener) -> CollectorRegistry:
    """Registry with the collectors of all components."""
    shared, rest, models = parts.shared, parts.rest, parts.models
    served, configured = shared.served, models.configured
    endpoint = parts.path.endpoint
    gateway = GatewayCollector(
        shared.metrics,
        parts.snapshots,
        parts.registry.gauges,
        lambda: len(listener.connections),
        endpoint.connection_limiter,
    )
    guards = GuardCollector(
        shared.checks,
        lambda: parts.registry.guards,
        endpoint,
        lambda: len(rest.administration.issuers.ambiguous_policies(served.get().snapshot.rules.policies)),
    )
    return registry_of(
        gateway,
        EventLoopCollector(lifecycle.tasks, lambda: parts.tools.work.throttle.waiting, shared.heap),
        guards,
        LatencyCollector(served.get, shared.metrics, lambda: parts.outbox.asked_at, time.time),
        ServerCollector(served.get, rest.records.children),
        CustomCollector(parts.custom),
        shared.governance,
        models.requests,
        models.sessions,
        GrantCollector(shared.grants),
        SignInCollector(None if parts.authorization is None else parts.authorization.parts.counts),
        ReloadCollector(lambda: configured.reload_failed, lambda: configured.reloads),
    )
