"""Prometheus metrics of the work in the event loop other than calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_gateway.heap import Heap


class EventLoopCollector(Collector):
    """Metrics of asyncio tasks, waiting conversions and garbage collections.

    `tasks` returns the present number of tasks, `conversions` the number of waiting conversions and embeddings.
    """

    def __init__(self, tasks: Callable[[], int], conversions: Callable[[], int], heap: Heap) -> None:
        self._tasks = tasks
        self._conversions = conversions
        self._heap = heap

    def collect(self) -> Iterable[Metric]:
        text = "Conversions of tool lists and embeddings of tools for search that wait because tool calls have priority"
        yield GaugeMetricFamily("fairlead_conversions_waiting", text, value=float(self._conversions()))
        text = "Tasks of the event loop; a number that grows from day to day is a leak"
        yield GaugeMetricFamily("fairlead_tasks", text, value=float(self._tasks()))
        text = "Time in which full garbage collections paused all calls; python_gc_collections_total counts them"
        yield CounterMetricFamily("fairlead_gc_full_collection_seconds", text, value=self._heap.full_seconds)
