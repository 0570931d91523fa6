"""Names and descriptions of all metrics of the operator."""

from __future__ import annotations

import contextlib
import time
from collections import Counter as Count
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_api.meta import ServerKey
from fairlead_api.reports import RUNNING, Report
from fairlead_api.v1alpha1.causes import cause_of
from fairlead_api.v1alpha1.common import Condition
from fairlead_operator.enforcement.probe_answer import DIRECTIONS, Enforcement
from fairlead_operator.latency.ledger import Move
from fairlead_operator.latency.samples import AttemptOutcome
from fairlead_operator.server.catalog_changes import ToolChanges

LAG_BOUNDS: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)
NOT_MEASURED: Final = "none"
"""Value of the label `outcome` for a probe that did not measure its tool."""
ANSWERING: Final = "answering"
SILENT: Final = "silent"


class Telemetry:
    """The metrics of one operator and its process, in a registry of their own. `clock` returns seconds since the
    epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = registry = CollectorRegistry()
        self._clock = clock
        self.reconciles = Counter(
            "fairlead_operator_reconciles", "Reconciles of one McpServer, by outcome.", ["outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "fairlead_operator_reconcile_duration_seconds",
            "Duration of one reconcile of one McpServer.",
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
            registry=registry,
        )
        self.errors = Counter(
            "fairlead_operator_errors",
            "Reconciles with another outcome than Done, by cause.",
            ["cause"],
            registry=registry,
        )
        self.queue_depth = Gauge(
            "fairlead_operator_queue_depth", "McpServers that wait for a worker.", registry=registry
        )
        self.servers = Gauge("fairlead_operator_servers", "McpServers that exist.", registry=registry)
        self.held_definitions = Gauge(
            "fairlead_held_definitions",
            "Definitions of a server with pin: true that are held back until approved.",
            ["namespace", "server"],
            registry=registry,
        )
        self.leader = Gauge("fairlead_operator_leader", "1 while this replica leads.", registry=registry)
        self.writes = Counter(
            "fairlead_operator_api_writes",
            "Requests to the API server that may change something.",
            ["verb", "resource"],
            registry=registry,
        )
        self.undone_writes = Counter(
            "fairlead_operator_undone_writes",
            "Writes that were repeated because another client had changed or deleted the written object.",
            ["resource"],
            registry=registry,
        )
        self._moves = Counter(
            "fairlead_operator_tier_moves",
            "Tools that left a tier (down) or returned to it (up).",
            ["fairlead_tier", "direction"],
            registry=registry,
        )
        self._probes = Counter(
            "fairlead_operator_probes",
            "Calls of the operator to measure a tool: ok, bad, unreadable, or none if the call measured nothing.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (AttemptOutcome.OK, AttemptOutcome.BAD, AttemptOutcome.UNREADABLE):
            self._probes.labels(outcome.value)
        self._probes.labels(NOT_MEASURED)
        self._samples = Counter(
            "fairlead_operator_samples",
            "Attempts of calls that gateways reported, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self._lag = Histogram(
            "fairlead_operator_sample_lag_seconds",
            "Time from the end of an attempt at a gateway until the operator receives it, by the clocks of both.",
            buckets=LAG_BOUNDS,
            registry=registry,
        )
        self._pulls = Counter(
            "fairlead_operator_pulls",
            "Requests to gateways for their reports, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.publish_failures = Counter(
            "fairlead_operator_publish_failures",
            "Failed writes of documents and statuses, which are retried.",
            ["what"],
            registry=registry,
        )
        self._tool_changes = Counter(
            "fairlead_operator_tool_changes",
            "Tools added, removed or modified when the catalog of their server was published.",
            ["change"],
            registry=registry,
        )
        for change in ToolChanges._fields:
            self._tool_changes.labels(change)
        self.policies_enforced = Gauge(
            "fairlead_operator_network_policies_enforced",
            "1 if a probe found that the cluster enforces NetworkPolicies in a direction, 0 if not; absent if unknown.",
            ["direction"],
            registry=registry,
        )
        self.scraped = ScrapedGauges()
        registry.register(self.scraped)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def forget(self) -> None:
        """Drop what is known of servers, gateways and the network, when this process stops leading."""
        self.scraped.forget()
        for gauge in (self.held_definitions, self.policies_enforced):
            gauge.clear()
        for gauge in (self.servers, self.queue_depth):
            gauge.set(0)

    def show_held_back(self, key: ServerKey, held_count: int | None) -> None:
        """Set the number of a server's definitions that are held back; None for a server that is not pinned, or was
        deleted.
        """
        if held_count is not None:
            self.held_definitions.labels(*key).set(held_count)
        else:
            with contextlib.suppress(KeyError):
                self.held_definitions.remove(*key)

    def count_tool_changes(self, changes: ToolChanges) -> None:
        """Count the changes of tools in a published catalog."""
        for change, number in changes._asdict().items():
            self._tool_changes.labels(change).inc(number)

    def show_enforcement(self, answer: Enforcement) -> None:
        """Set the gauges to the answer of the last network probe."""
        for direction in DIRECTIONS:
            if (is_enforced := answer.of(direction)) is not None:
                self.policies_enforced.labels(direction).set(is_enforced)
            else:
                with contextlib.suppress(KeyError):
                    self.policies_enforced.remove(direction)

    def count_move(self, move: Move) -> None:
        """Count the tiers that a tool has left or entered."""
        for tier in set(move.tiers_before) - set(move.tiers_after):
            self._moves.labels(tier, "down").inc()
        for tier in set(move.tiers_after) - set(move.tiers_before):
            self._moves.labels(tier, "up").inc()

    def count_probe(self, outcome: AttemptOutcome | None) -> None:
        """Count a probe. `outcome` is None for a probe that did not measure its tool."""
        self._probes.labels(NOT_MEASURED if outcome is None else outcome.value).inc()

    def count_attempts(self, report: Report) -> None:
        """Count the attempts in a gateway's report. Lags of its first report are ignored, because they may be old."""
        now = self._clock()
        has_reported = report.replica in self.scraped.reporting
        self.scraped.reporting.add(report.replica)
        for tool in report.tools:
            for attempt in tool.attempts:
                if attempt.outcome != RUNNING:
                    self._samples.labels(attempt.outcome).inc()
                    if has_reported:
                        self._lag.observe(max(0.0, now - attempt.at))

    def show_ready(self, key: ServerKey, condition: Condition | None) -> None:
        """Store a server's condition Ready as its status shows it; None for a deleted server."""
        if condition is None:
            self.scraped.ready.pop(key, None)
        else:
            self.scraped.ready[key] = condition.status, condition.reason, str(cause_of(condition)[0] or "")

    def count_poll(self, *, answered: bool) -> None:
        """Count one request for a gateway's report."""
        self._pulls.labels("answered" if answered else "failed").inc()


class ScrapedGauges(Collector):
    """Gauges that are computed when they are scraped."""

    def __init__(self) -> None:
        self.ready: dict[ServerKey, tuple[str, str, str]] = {}
        """Status, reason and cause of each server's condition Ready."""
        self.reporting: set[str] = set()
        """Gateway processes that have reported before."""
        self.gateways: Callable[[], Mapping[str, bool]] = dict
        """Returns for each gateway replica whether its last request was answered."""

    def forget(self) -> None:
        """Drop the state when this process stops leading."""
        self.ready.clear()
        self.reporting.clear()
        self.gateways = dict

    def collect(self) -> Iterable[Metric]:
        text = "McpServers by their condition Ready, its reason, and the exact cause."
        servers = GaugeMetricFamily("fairlead_operator_servers_ready", text, labels=["ready", "reason", "cause"])
        for labels, count in Count(list(self.ready.values())).items():
            servers.add_metric(labels, count)
        yield servers
        text = "Gateway replicas that are polled for latencies, by whether they answered the last request."
        gateways = GaugeMetricFamily("fairlead_operator_gateways", text, labels=["state"])
        answers = list(self.gateways().values())
        gateways.add_metric([ANSWERING], sum(answers))
        gateways.add_metric([SILENT], len(answers) - sum(answers))
        yield gateways
