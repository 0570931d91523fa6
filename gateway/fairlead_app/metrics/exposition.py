"""Prometheus metrics of calls, clients and the catalog, and the text format of all metrics.

A scrape reads recorded numbers and formats them in a thread, so that it never delays calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.source import SnapshotStore
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.core.ports import Gauges
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_gateway.limits.shares import ConnectionLimiter
from fairlead_gateway.telemetry import BOUNDS, Histogram, MetricsRegistry
from fairlead_tools.version import COMPILED, VERSION

DURATION: Final = "mcp_server_operation_duration_seconds"
"""`mcp.server.operation.duration` of the OpenTelemetry semantic conventions, in its Prometheus form."""
MAX_SERVERS: Final = 500
"""Maximum number of servers with their own series. In a larger catalog, only the first servers by name have series."""


class GatewayCollector(Collector):
    """Metrics of one gateway's calls, clients, catalog and connections."""

    def __init__(
        self,
        metrics: MetricsRegistry,
        snapshots: SnapshotStore,
        upstreams: Callable[[], dict[ServerKey, Gauges]],
        connections: Callable[[], int],
        connection_limiter: ConnectionLimiter,
    ) -> None:
        self._metrics = metrics
        self._snapshots = snapshots
        self._upstreams = upstreams
        self._connections = connections
        self._connection_limiter = connection_limiter

    def collect(self) -> Iterable[Metric]:
        yield self._durations()
        yield from self._counts()
        yield from self._catalog()
        yield from self._pools()
        text = "Always 1; the labels are the release, and whether the path of a call is compiled"
        build = GaugeMetricFamily("fairlead_build_info", text, labels=["version", "compiled"])
        build.add_metric([VERSION, "true" if COMPILED else "false"], 1)
        yield build

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            DURATION,
            "Duration of MCP requests until the gateway's answer, in seconds",
            labels=["mcp_method_name", "gen_ai_tool_name", "fairlead_server", "error_type"],
        )
        for labels, series in self._metrics.histograms():
            family.add_metric(list(labels), *cumulative_buckets(series))
        return family

    def _counts(self) -> Iterable[Metric]:
        metrics = self._metrics
        text = "Observations counted under the label value `other`, because the limit on label sets was reached"
        yield _counter("fairlead_metric_label_sets_overflowed", text, metrics.overflowed)
        yield _gauge("fairlead_calls_in_flight", "Requests to servers that are not answered yet", metrics.in_flight)
        yield _gauge("fairlead_client_connections", "Open connections of clients", self._connections())
        text = "Connections of clients rejected because of a limit"
        yield _counter("fairlead_client_connections_refused", text, self._connection_limiter.rejected)
        rejected = CounterMetricFamily(
            "fairlead_requests_rejected",
            "Requests answered with an error before any server was called, by status",
            labels=["code"],
        )
        for status, count in list(metrics.rejected.items()):
            rejected.add_metric([str(status)], count)
        yield rejected
        meta = CounterMetricFamily(
            "fairlead_router_calls",
            "Calls of the gateway's own tools: search_tools, execute_tool, retrieve_context, read_result",
            labels=["tool"],
        )
        for name, count in list(metrics.meta_calls.items()):
            meta.add_metric([name], count)
        yield meta
        text = "Results shortened because of a limit on tokens, by whether the original was stored for read_result"
        shortened = CounterMetricFamily("fairlead_long_results", text, labels=["kept"])
        for recorded, count in list(metrics.shortened_results.items()):
            shortened.add_metric(["true" if recorded else "false"], count)
        yield shortened
        text = "Tokens removed from results because of a limit on tokens"
        yield _counter("fairlead_long_result_tokens_withheld", text, metrics.tokens_withheld)
        text = "Results of execute_tool, by whether they were stored for retrieve_context"
        results = CounterMetricFamily("fairlead_context_results", text, labels=["kept"])
        for recorded, count in list(metrics.stored_results.items()):
            results.add_metric(["true" if recorded else "false"], count)
        yield results
        yield from self._grants()
        yield from _searches(metrics.search)
        text = "Turns of conversations with models whose tier differs from that of the turn before, by the new tier"
        changes = CounterMetricFamily("fairlead_llm_tier_changes", text, labels=["tier"])
        for tier, count in list(metrics.llm.tier_changes.items()):
            changes.add_metric([tier], count)
        yield changes
        yield from _pages(metrics.console)
        text = "Connections, streams and other resources refused at a limit per agent or gateway, or evicted (gave_way)"
        shares = CounterMetricFamily("fairlead_shares_reached", text, labels=["kind", "outcome"])
        for (kind, outcome), count in list(metrics.shares.outcomes.items()):
            shares.add_metric([kind, outcome], count)
        yield shares

    def _grants(self) -> Iterable[Metric]:
        counts = self._metrics.grants
        listed_servers = set(sorted({server for server, _ in list(counts.by_outcome)})[:MAX_SERVERS])
        text = "Access tokens granted for a server (outcome ok), and calls that got none, by cause"
        outcomes = CounterMetricFamily("fairlead_server_grants", text, labels=["fairlead_server", "outcome"])
        for (server, outcome), count in list(counts.by_outcome.items()):
            if server in listed_servers:
                outcomes.add_metric([str(server), outcome], count)
        yield outcomes
        text = "Time to obtain access tokens for a server, and time that calls waited for tokens in vain, in seconds"
        seconds = CounterMetricFamily("fairlead_server_grant_seconds", text, labels=["fairlead_server"])
        for server, spent in list(counts.seconds.items()):
            if server in listed_servers:
                seconds.add_metric([str(server)], spent)
        yield seconds

    def _catalog(self) -> Iterable[Metric]:
        snapshots = self._snapshots
        snapshot = snapshots.snapshot
        text = "Seconds since the last contact with the source of the catalog"
        age = GaugeMetricFamily("fairlead_catalog_age_seconds", text, labels=[])
        if snapshots.seen_at is not None:
            age.add_metric([], time.time() - snapshots.seen_at)
        yield age
        yield _gauge("fairlead_catalog_stale", "1 while the source of the catalog cannot be reached", snapshots.stale)
        yield _gauge("fairlead_catalog_servers", "Servers in the catalog", len(snapshot.servers))
        tools = sum(len(server.tools) for server in snapshot.servers.values())
        yield _gauge("fairlead_catalog_tools", "Tools in the catalog", tools)
        text = (
            "Tools, prompts, resources, resource templates and skills that are not listed because another server "
            "exposes the same name or URI"
        )
        yield _gauge("fairlead_catalog_name_collisions", text, len(snapshot.collisions))
        yield _gauge(
            "fairlead_documents_broken",
            "Documents from the operator that currently cannot be parsed",
            len(snapshots.broken),
        )
        yield _counter(
            "fairlead_documents_broken_seen",
            "Failed attempts to parse a document from the operator",
            snapshots.broken_total,
        )
        yield _counter("fairlead_catalog_swaps", "Activations of snapshots of the catalog", snapshots.swaps)
        yield _counter(
            "fairlead_catalog_swap_seconds",
            "Time spent on activations of snapshots of the catalog",
            snapshots.swap_seconds,
        )

    def _pools(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "fairlead_upstream_connections",
            "Connections to a server, by state: busy, idle; `waiting`: calls that wait for a connection",
            labels=["fairlead_server", "state"],
        )
        upstreams = list(self._upstreams().items())[:MAX_SERVERS]
        for key, gauges in upstreams:
            for state in ("busy", "idle", "waiting"):
                family.add_metric([str(key), state], getattr(gauges, state))
        yield family
        text = "Pods of a server with several pods, by state: serving, or ejected because they do not answer (left)"
        pods = GaugeMetricFamily("fairlead_server_pods", text, labels=["fairlead_server", "state"])
        for key, gauges in upstreams:
            if gauges.pods_serving or gauges.pods_left:
                pods.add_metric([str(key), "serving"], gauges.pods_serving)
                pods.add_metric([str(key), "left"], gauges.pods_left)
        yield pods


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _searches(counts: SearchCounts) -> Iterable[Metric]:
    for name, text, label, counts_by_value in (
        (
            "fairlead_searches",
            "Searches of tools, by ranking: bm25, hybrid or filters",
            "ranking",
            counts.searches,
        ),
        (
            "fairlead_search_hits_executed",
            "Tools called by execute_tool after a search found them, by their rank in the search",
            "place",
            counts.executed,
        ),
        (
            "fairlead_search_changes",
            "Changes of tools in the search index: added, removed or modified",
            "change",
            counts.changes,
        ),
        (
            "fairlead_context_compressions",
            "Compressions of stored results by a model, by outcome",
            "outcome",
            counts.compressed,
        ),
    ):
        family = CounterMetricFamily(name, text, labels=[label])
        for value, count in list(counts_by_value.items()):
            family.add_metric([value], count)
        yield family


def _pages(counts: PageCounts) -> Iterable[Metric]:
    labels = ["page", "status"]
    views = CounterMetricFamily(
        "fairlead_console_views", "Responses with pages of the console, by page and HTTP status", labels=labels
    )
    text = "Duration of requests for pages of the console, from their admission to the end of the response"
    seconds = CounterMetricFamily("fairlead_console_view_seconds", text, labels=labels)
    for (page, status), count in list(counts.by_page.items()):
        views.add_metric([page, str(status)], count.views)
        seconds.add_metric([page, str(status)], count.nanoseconds / 1e9)
    return views, seconds


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=float(value))


Bucket = tuple[str, float] | tuple[str, float, Exemplar]


def cumulative_buckets(series: Histogram) -> tuple[list[Bucket], float]:
    """Cumulative buckets and the sum in seconds of a histogram."""
    buckets: list[Bucket] = []
    total = 0
    for index, (bound, count) in enumerate(zip((*map(str, BOUNDS), "+Inf"), list(series.buckets), strict=True)):
        total += count
        example = series.exemplars.get(index)
        if example is None:
            buckets.append((bound, float(total)))
        else:
            labels = {"trace_id": example.trace_id, "span_id": example.span_id}
            buckets.append((bound, float(total), Exemplar(labels, example.seconds, example.at)))
    return buckets, series.total / 1e9


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """Registry with the given collectors, and the standard collectors for the process, the platform and the GC."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


async def expose_metrics(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Encode the metrics; returns the text and its media type.

    The format is OpenMetrics, with exemplars, if `accept` allows it, otherwise Prometheus' text format.
    """
    try:
        encode, media_type = choose_encoder(accept)
    except (TypeError, ValueError):  # raised for an invalid version in `accept`
        encode, media_type = choose_encoder("")
    return await asyncio.to_thread(encode, registry), media_type
