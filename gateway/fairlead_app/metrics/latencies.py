"""Prometheus metrics of measured latency, health of tools, and tiers.

The metrics are computed at scrape time, in a thread, from the served snapshot. The first MAX_TOOLS tools of the
snapshot have their own series; all other tools are aggregated under the label value `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_api.documents.state import Quantiles, ToolState
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_app.metrics.exposition import MAX_SERVERS, cumulative_buckets
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.telemetry import OTHER, MetricsRegistry

MAX_TOOLS: Final = 500
MAX_TIERS: Final = 5
"""Maximum number of tiers with a series for each tool. All tiers have series for the numbers of shown and hidden tools.
"""
HEALTHY: Final = "Healthy"
_TOOL: Final = ("gen_ai_tool_name", "fairlead_server")
_TIER: Final = "fairlead_tier"

MeasuredTool = tuple[str, str, ToolState]
"""Labels of tool and server, and the state of the tool."""


class LatencyCollector(Collector):
    """Latency metrics of one gateway.

    `last_fetch` returns the time at which an operator last fetched samples, or None. It and `clock` are in seconds
    since the epoch.
    """

    def __init__(
        self,
        selection: Callable[[], Selection],
        metrics: MetricsRegistry,
        last_fetch: Callable[[], float | None],
        clock: Callable[[], float],
    ) -> None:
        self._selection = selection
        self._metrics = metrics
        self._last_fetch = last_fetch
        self._since = clock()
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        selection = self._selection()
        yield from self._ages(selection)
        yield from self._tiers(selection)
        yield from self._waits()
        yield from _servers(selection)
        yield from _tools(selection)

    def _ages(self, selection: Selection) -> Iterable[Metric]:
        now = self._clock()
        decided_at = selection.snapshot.decided_at
        text = (
            "Seconds since the oldest of the operator's decisions about tiers; may be hours while latencies are steady"
        )
        age = GaugeMetricFamily("fairlead_decisions_age_seconds", text, labels=[])
        if decided_at:
            age.add_metric([], max(0.0, now - datetime.fromisoformat(decided_at).timestamp()))
        yield age
        text = "Seconds since an operator last fetched latencies, or since the start; tiers change only after a fetch"
        last_fetch = self._last_fetch()
        silence = now - (self._since if last_fetch is None else last_fetch)
        yield GaugeMetricFamily("fairlead_pull_age_seconds", text, value=max(0.0, silence))

    def _tiers(self, selection: Selection) -> Iterable[Metric]:
        snapshot = selection.snapshot
        limits = GaugeMetricFamily("fairlead_tier_limit_seconds", "Latency limit of a tier", labels=[_TIER])
        shown_gauge = GaugeMetricFamily("fairlead_tier_tools", "Tools that a tier shows", labels=[_TIER])
        text = "Tools that a tier hides, by the first word of the reason"
        hidden_gauge = GaugeMetricFamily("fairlead_tier_hidden_tools", text, labels=[_TIER, "reason"])
        tool_count = sum(len(server.tools) for server in snapshot.servers.values())
        for tier in snapshot.rules.tiers:
            if tier.name not in self._metrics.waits:
                continue  # beyond the number of tiers with metrics
            if tier.max_latency_ms is not None:
                limits.add_metric([tier.name], tier.max_latency_ms / 1000)
            hidden_tools = selection.hidden[tier.name]
            shown_gauge.add_metric([tier.name], tool_count - len(hidden_tools))
            for reason, count in Counter(
                decision.reason.partition(" ")[0] for decision in hidden_tools.values()
            ).items():
                hidden_gauge.add_metric([tier.name, reason], count)
        yield from (limits, shown_gauge, hidden_gauge)

    def _waits(self) -> Iterable[Metric]:
        text = "Duration of tool calls for agents of a tier, including queues and retries, in seconds"
        durations = HistogramMetricFamily("fairlead_tier_call_duration_seconds", text, labels=[_TIER])
        text = "Tool calls that took longer than the limit of the agent's tier"
        breaches = CounterMetricFamily("fairlead_tier_budget_breaches", text, labels=[_TIER])
        for tier, wait in list(self._metrics.waits.items()):
            durations.add_metric([tier], *cumulative_buckets(wait.series))
            breaches.add_metric([tier], wait.breaches)
        yield from (durations, breaches)


class QuantileFamily(Metric):
    """Metric of type summary with quantiles, without count and sum, which the client library does not support."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        super().__init__(name, documentation, "summary")
        self._labelnames = (*labels, "quantile")

    def add_metric(self, labels: Sequence[str], quantile: str, value: float) -> None:
        """Add the value of one quantile, such as `0.95`, for a set of label values."""
        self.add_sample(self.name, dict(zip(self._labelnames, (*labels, quantile), strict=True)), value)


def _servers(selection: Selection) -> Iterable[Metric]:
    servers = selection.snapshot.servers
    text = "1 while a server is reachable, 0 while it is offline and its calls are refused"
    up = GaugeMetricFamily("fairlead_server_up", text, labels=["fairlead_server"])
    for key in list(servers)[:MAX_SERVERS]:
        up.add_metric([str(key)], servers[key].catalog.online)
    yield up
    text = "1 for a server with 0 replicas, which is offline on purpose"
    stopped = GaugeMetricFamily("fairlead_server_stopped", text, labels=["fairlead_server"])
    for key in list(servers)[:MAX_SERVERS]:
        if (entry := selection.snapshot.entries.get(key)) is not None and entry.reason == Reason.STOPPED:
            stopped.add_metric([str(key)], 1)
    yield stopped
    text = "Servers of the catalog that are offline, including servers without their own series"
    offline = sum(not server.catalog.online for server in servers.values())
    yield GaugeMetricFamily("fairlead_catalog_servers_offline", text, value=offline)
    text = "Servers without their own series, because the catalog has too many servers"
    yield GaugeMetricFamily("fairlead_metric_servers_overflowed", text, value=max(0, len(servers) - MAX_SERVERS))


def _tools(selection: Selection) -> Iterable[Metric]:
    measured_tools = list(_measured_tools(selection))
    individual, rest = measured_tools[:MAX_TOOLS], [state for _, _, state in measured_tools[MAX_TOOLS:]]
    text = "Measured tools without their own series, which are aggregated under the label value `other`"
    yield GaugeMetricFamily("fairlead_metric_tools_overflowed", text, value=len(rest))
    yield from _latency_metrics(individual, rest)
    yield from _health_metrics(individual, rest)
    text = "1 if a tier shows a measured tool, 0 if it hides the tool"
    member = GaugeMetricFamily("fairlead_tool_in_tier", text, labels=[*_TOOL, _TIER])
    refs = {str(key): key for key in selection.snapshot.servers}
    for tier, hidden in list(selection.hidden.items())[:MAX_TIERS]:
        for tool, server, _ in individual:
            member.add_metric([tool, server, tier], (refs[server], tool) not in hidden)
    yield member


def _latency_metrics(individual: Sequence[MeasuredTool], rest: Sequence[ToolState]) -> Iterable[Metric]:
    text = "Latency quantiles of the last successful attempts of a tool, at most 100, which decide about its tiers"
    latency = QuantileFamily("fairlead_tool_latency_seconds", text, labels=_TOOL)
    samples = GaugeMetricFamily(
        "fairlead_tool_window_samples", "Attempts of a tool from which its latency quantiles are computed", labels=_TOOL
    )
    for tool, server, state in individual:
        if state.quantiles is not None:
            for quantile, seconds in _quantiles(state.quantiles):
                latency.add_metric([tool, server], quantile, seconds)
            samples.add_metric([tool, server], state.quantiles.samples)
    others = [state.quantiles for state in rest if state.quantiles is not None]
    if others:
        for slowest in zip(*map(_quantiles, others), strict=True):
            latency.add_metric([OTHER, OTHER], slowest[0][0], max(seconds for _, seconds in slowest))
        samples.add_metric([OTHER, OTHER], sum(figures.samples for figures in others))
    yield from (latency, samples)


def _health_metrics(individual: Sequence[MeasuredTool], rest: Sequence[ToolState]) -> Iterable[Metric]:
    text = "Health score of a tool, from 100 (all calls succeed) to 0 (degraded); from 25, it is healthy again"
    score = GaugeMetricFamily("fairlead_tool_health_score", text, labels=_TOOL)
    text = "1 while a tool is degraded, and therefore hidden from its fastest tier"
    degraded = GaugeMetricFamily("fairlead_tool_degraded", text, labels=_TOOL)
    for tool, server, state in individual:
        score.add_metric([tool, server], state.health.score)
        degraded.add_metric([tool, server], state.health.state != HEALTHY)
    if rest:
        score.add_metric([OTHER, OTHER], min(state.health.score for state in rest))
        degraded.add_metric([OTHER, OTHER], any(state.health.state != HEALTHY for state in rest))
    yield from (score, degraded)


def _measured_tools(selection: Selection) -> Iterator[MeasuredTool]:
    """Measured tools in the order of the catalog, so that each scrape has series for the same tools."""
    snapshot = selection.snapshot
    for key, server in snapshot.servers.items():
        states = snapshot.states.get(key)
        for tool in server.tools if states else ():
            state = states.get(tool.name) if states else None
            if state is not None:
                yield tool.name, str(key), state


def _quantiles(figures: Quantiles) -> tuple[tuple[str, float], ...]:
    """Pairs of quantile, as a Prometheus label value, and seconds."""
    pairs = (("0.5", figures.p50_ms), ("0.9", figures.p90_ms), ("0.95", figures.p95_ms), ("0.99", figures.p99_ms))
    return tuple((name, milliseconds / 1000) for name, milliseconds in pairs)
