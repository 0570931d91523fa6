"""Prometheus metrics of what the event loop has to do beside calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_gateway.heap import Heap


class EventLoopCollector(Collector):
    """Tasks, conversions that wait for their turn, and garbage collections. `tasks` and `conversions` count them."""

    def __init__(self, tasks: Callable[[], int], conversions: Callable[[], int], heap: Heap) -> None:
        self._tasks = tasks
        self._conversions = conversions
        self._heap = heap

    def collect(self) -> Iterable[Metric]:
        text = "Conversions that wait until their share of the loop's time lets them begin, as tools are called"
        yield GaugeMetricFamily("fairlead_conversions_waiting", text, value=float(self._conversions()))
        text = "Tasks of the event loop; more of them every day are a leak"
        yield GaugeMetricFamily("fairlead_tasks", text, value=float(self._tasks()))
        text = "Time that calls stood still for full garbage collections; python_gc_collections_total counts them"
        yield CounterMetricFamily("fairlead_gc_full_collection_seconds", text, value=self._heap.full_seconds)
