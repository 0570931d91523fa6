"""Exports the metrics of a Prometheus registry as OpenTelemetry metrics, periodically in a thread.

Values are counted only in the registry, so the export causes no additional work during calls. Names and labels are
those of `/metrics`, without the suffix `_total`, which a Prometheus behind the collector adds again. Exemplars are
exported too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.samples import Sample

from fairlead_otel.deliveries import CountedMetrics
from fairlead_tools.version import VERSION

log = logging.getLogger(__name__)

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_SCOPE: Final = InstrumentationScope("fairlead", VERSION)
_BUCKET: Final = "le"


class MetricReadings:
    """Exports the metrics of one registry periodically until `close`."""

    def __init__(
        self, registry: CollectorRegistry, exporter: CountedMetrics, resource: Resource, interval_s: float
    ) -> None:
        """Start the thread; `interval_s` is the time between two readings in seconds."""
        self._registry = registry
        self._exporter = exporter
        self._resource = resource
        self._interval_s = interval_s
        self._began = time.time_ns()
        self._end_event = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="otel-metrics")
        self._thread.start()

    def close(self) -> None:
        """Send a last reading, then end the thread. Blocks until the reading is sent or has failed."""
        self._end_event.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._end_event.wait(self._interval_s):
            self._send()
        self._send()

    def _send(self) -> None:
        try:
            self._exporter.export(metrics_data(self._registry.collect(), self._resource, self._began, time.time_ns()))
        except Exception:
            log.exception("OpenTelemetry: metrics cannot be read or exported")


def metrics_data(families: Iterable[Family], resource: Resource, began: int, now: int) -> MetricsData:
    """Convert all metrics; `began` and `now` are in nanoseconds since the epoch."""
    metrics = [metric for family in families if (metric := _metric(family, began, now)) is not None]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, metrics, "")], "")])


def _metric(family: Family, began: int, now: int) -> Metric | None:
    """Convert one metric; None if it has no samples."""
    data: Sum | Gauge | Histogram
    if family.type == "histogram":
        points = _histograms(family, began, now)
        if not points:
            return None
        return Metric(family.name, family.documentation, "", Histogram(points, _CUMULATIVE))
    is_counter = family.type == "counter"
    samples = [sample for sample in family.samples if sample.name.endswith("_total") or not is_counter]
    if not samples:
        return None
    numbers = [NumberDataPoint(sample.labels, began, now, float(sample.value)) for sample in samples]
    data = Sum(numbers, _CUMULATIVE, is_monotonic=True) if is_counter else Gauge(numbers)
    return Metric(family.name if is_counter else samples[0].name, family.documentation, "", data)


def _histograms(family: Family, began: int, now: int) -> list[HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        key = tuple((name, value) for name, value in sample.labels.items() if name != _BUCKET)
        series.setdefault(key, []).append(sample)
    return [_histogram(dict(labels), samples, began, now) for labels, samples in series.items()]


def _histogram(labels: Mapping[str, str], samples: list[Sample], began: int, now: int) -> HistogramDataPoint:
    counts: list[int] = []
    bounds: list[float] = []
    exemplars: list[Exemplar] = []
    count = 0
    sum_of_values = 0.0
    for sample in samples:
        if _BUCKET in sample.labels:
            counts.append(
                int(sample.value) - count
            )  # Prometheus counts all values up to a bound, OTLP those between two
            count = int(sample.value)
            bounds.append(float(sample.labels[_BUCKET]))
            exemplars += _exemplars(sample)
        elif sample.name.endswith("_sum"):
            sum_of_values = sample.value
    no_value: Any = None  # smallest and largest value: optional in OTLP, but not in the SDK's types
    return HistogramDataPoint(
        labels, began, now, count, sum_of_values, counts, bounds[:-1], no_value, no_value, exemplars
    )


def _exemplars(sample: Sample) -> list[Exemplar]:
    exemplar = sample.exemplar
    if exemplar is None:
        return []
    at = int(float(exemplar.timestamp or 0) * 1e9)
    trace_id, span_id = int(exemplar.labels["trace_id"], 16), int(exemplar.labels["span_id"], 16)
    return [Exemplar({}, exemplar.value, at, span_id, trace_id)]
