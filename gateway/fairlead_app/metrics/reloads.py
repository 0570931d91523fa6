"""Prometheus metrics of the reloading of configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class ReloadCollector(Collector):
    """Reloads of the file of routes, models and providers."""

    def __init__(self, failed: Callable[[], bool], reloads: Callable[[], int]) -> None:
        self._failed = failed
        self._reloads = reloads

    def collect(self) -> Iterable[Metric]:
        text = "1 while the file of routes and providers is invalid, and the previous configuration is in use"
        yield GaugeMetricFamily("fairlead_config_reload_failed", text, value=float(self._failed()))
        text = "Changes of the file of routes and providers that were applied"
        yield CounterMetricFamily("fairlead_config_reloads", text, value=float(self._reloads()))
