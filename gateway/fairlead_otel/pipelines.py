"""OpenTelemetry's pipelines of one process: providers of traces and logs, an exporter of metrics, and what they lost.

Items wait in bounded queues and are sent by threads of the SDK; a call that makes a span never waits for a collector.
The SDK's own variables hold (`OTEL_BSP_…`, `OTEL_BLRP_…`, `OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk._logs import LoggerProvider, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fairlead_otel.deliveries import (
    CountedLogs,
    CountedMetrics,
    CountedSpans,
    Delivered,
    Deliveries,
    ExporterReasons,
    body_size,
    quiet_exporters,
)
from fairlead_otel.environment import Protocol, Signal, endpoint
from fairlead_otel.events import EmitEvent
from fairlead_otel.exporters import log_exporter, metric_exporter, span_exporter
from fairlead_otel.log_records import OtlpEvents, OtlpLogHandler
from fairlead_tools.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CLOSE_SECONDS: Final = 3.0
"""Time in which what waits is sent at the end; the rest is lost."""
QUEUE: Final = 2048
"""Items of a signal that may wait, unless OTEL_BSP_MAX_QUEUE_SIZE or OTEL_BLRP_MAX_QUEUE_SIZE says otherwise."""
_BATCH: Final = 512
INTERVAL_S: Final = 60.0
"""Seconds between two readings of the metrics, unless OTEL_METRIC_EXPORT_INTERVAL says otherwise, in milliseconds."""
SCOPE: Final = "fairlead"
"""Name of the instrumentation scope."""
AUDIT_SCOPE: Final = "fairlead.audit"
"""Name of the audit log's."""


class _BoundedSpans(BatchSpanProcessor):
    """Queues spans while there is room, and drops the newest where there is none."""

    def __init__(self, exporter: CountedSpans, deliveries: Deliveries, capacity: int, batch: int) -> None:
        super().__init__(exporter, max_queue_size=capacity, max_export_batch_size=batch)
        self._deliveries = deliveries

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and span.context.trace_flags.sampled and self._deliveries.admit():
            super().on_end(span)


class _BoundedLogs(BatchLogRecordProcessor):
    """Queues log records while there is room, and drops the newest where there is none."""

    def __init__(self, exporter: CountedLogs, deliveries: Deliveries, capacity: int, batch: int) -> None:
        super().__init__(exporter, max_queue_size=capacity, max_export_batch_size=batch)
        self._deliveries = deliveries

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if self._deliveries.admit(body_size(log_record.log_record.body)):
            super().on_emit(log_record)


class Pipelines:
    """Pipelines of one process. `close` them."""

    def __init__(self, signals: Mapping[Signal, Protocol], environ: Mapping[str, str], service: str) -> None:
        """`service`: name of the resource where the environment gives none. Raises ImportError where a protocol's
        package is not installed.
        """
        self.resource = _resource(environ, service)
        self.deliveries: list[Deliveries] = []
        self.tracer_provider: TracerProvider | None = None
        """None where traces are not exported."""
        self.logger_provider: LoggerProvider | None = None
        """None where logs are not exported."""
        self.metrics: CountedMetrics | None = None
        """Exporter of metrics; None where they are not exported."""
        self._interval_s = _number(environ, "OTEL_METRIC_EXPORT_INTERVAL", round(INTERVAL_S * 1000)) / 1000
        self._handler: OtlpLogHandler | None = None
        self._environ = environ
        self._logs_by = signals.get("logs")
        self._closings: list[tuple[Callable[[], None], Callable[[], None]]] = []
        """For each signal, what sends the rest, and what ends an attempt to."""
        reasons = quiet_exporters()
        if "traces" in signals:
            self._open_traces(signals["traces"], environ, reasons)
        if self._logs_by is not None:
            self.logger_provider = self._opened_logs("logs", self._logs_by)
        if "metrics" in signals:
            self._open_metrics(signals["metrics"], environ, reasons)

    def _open_traces(self, protocol: Protocol, environ: Mapping[str, str], reasons: ExporterReasons) -> None:
        capacity, batch = _limits(environ, "OTEL_BSP")
        deliveries = self._deliveries("traces", environ, capacity)
        exporter = CountedSpans(span_exporter(protocol), deliveries, reasons)
        self.tracer_provider = TracerProvider(resource=self.resource, shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(_BoundedSpans(exporter, deliveries, capacity, batch))
        self._closings.append((self.tracer_provider.shutdown, exporter.shutdown))

    def _opened_logs(self, delivered: Delivered, protocol: Protocol) -> LoggerProvider:
        """Provider of log records with a queue of its own."""
        capacity, batch = _limits(self._environ, "OTEL_BLRP")
        deliveries = Deliveries(delivered, endpoint(self._environ, "logs"), capacity)
        self.deliveries.append(deliveries)
        exporter = CountedLogs(log_exporter(protocol), deliveries, quiet_exporters())
        provider = LoggerProvider(resource=self.resource, shutdown_on_exit=False)
        provider.add_log_record_processor(_BoundedLogs(exporter, deliveries, capacity, batch))
        self._closings.append((provider.shutdown, exporter.shutdown))
        return provider

    def _open_metrics(self, protocol: Protocol, environ: Mapping[str, str], reasons: ExporterReasons) -> None:
        self.metrics = CountedMetrics(metric_exporter(protocol), self._deliveries("metrics", environ, 1), reasons)

    def _deliveries(self, signal: Signal, environ: Mapping[str, str], capacity: int) -> Deliveries:
        made = Deliveries(signal, endpoint(environ, signal), capacity)
        self.deliveries.append(made)
        return made

    def keep_logs(self) -> None:
        """Export the process's log from now on; no-op where logs are not exported, and after the first time."""
        if self.logger_provider is not None and self._handler is None:
            self._handler = OtlpLogHandler(self.logger_provider.get_logger(SCOPE, VERSION))
            logging.getLogger().addHandler(self._handler)

    def open_audit(self) -> EmitEvent | None:
        """Begin to export the events of an audit log, which share no queue with the process's log; None where logs are
        not exported.
        """
        if self._logs_by is None:
            return None
        return OtlpEvents(self._opened_logs("audit", self._logs_by).get_logger(AUDIT_SCOPE, VERSION)).emit

    def read_metrics(self, registry: CollectorRegistry) -> None:
        """Export the metrics of a registry from now on; no-op where metrics are not exported."""
        if self.metrics is None:
            return
        from fairlead_otel.metric_readings import MetricReadings  # a tool server has no Prometheus registry

        readings = MetricReadings(registry, self.metrics, self.resource, self._interval_s)
        self._closings.append((readings.close, self.metrics.shutdown))

    def close(self) -> None:
        """Send what waits, for CLOSE_SECONDS at most. Blocks."""
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
        closings, self._closings = self._closings, []
        threads = [threading.Thread(target=close, daemon=True, name="otel-close") for close, _ in closings]
        for thread in threads:
            thread.start()
        end = time.monotonic() + CLOSE_SECONDS
        for thread, (_, give_up) in zip(threads, closings, strict=True):
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                give_up()


def _resource(environ: Mapping[str, str], service: str) -> Resource:
    attributes = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own: dict[str, str] = {SERVICE_VERSION: VERSION}
    if not environ.get("OTEL_SERVICE_NAME") and SERVICE_NAME not in attributes:
        own[SERVICE_NAME] = service
    if SERVICE_INSTANCE_ID not in attributes:
        own[SERVICE_INSTANCE_ID] = str(uuid.uuid4())
    return Resource.create(own)


def _limits(environ: Mapping[str, str], prefix: str) -> tuple[int, int]:
    """Items that may wait, and those of one request to the collector."""
    capacity = _number(environ, f"{prefix}_MAX_QUEUE_SIZE", QUEUE)
    return capacity, min(capacity, _number(environ, f"{prefix}_MAX_EXPORT_BATCH_SIZE", _BATCH))


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) else default
