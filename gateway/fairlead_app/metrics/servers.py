"""Prometheus metrics of failed and starting servers, and of restarts of child processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_api.documents.servers import FAILED, INSTALLING, STARTING, WAITING
from fairlead_api.meta import ServerKey
from fairlead_app.metrics.exposition import MAX_SERVERS
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.unready_servers import unready_entries
from fairlead_mcp.host import ChildHost

STATES: Final = (WAITING, INSTALLING, STARTING, FAILED)


class ServerCollector(Collector):
    """Metrics of the servers and child processes of one gateway."""

    def __init__(self, selection: Callable[[], Selection], children: ChildHost | None) -> None:
        self._selection = selection
        self._children = children

    def collect(self) -> Iterable[Metric]:
        text = "Declared servers without a catalog, by state: waiting, installing, starting or failed"
        states = Counter(entry.state for entry in unready_entries(self._selection()))
        family = GaugeMetricFamily("fairlead_servers_unready", text, labels=["state"])
        for state in STATES:
            family.add_metric([state], float(states[state]))
        yield family
        text = "Restarts of a server's child process, with `fairlead up` only"
        restarts = CounterMetricFamily("fairlead_server_restarts", text, labels=["fairlead_server"])
        children = self._children.children() if self._children is not None else {}
        of_servers = {str(key): child for key, child in children.items() if isinstance(key, ServerKey)}
        for name, child in sorted(of_servers.items())[:MAX_SERVERS]:
            restarts.add_metric([name], float(max(child.starts - 1, 0)))
        yield restarts
