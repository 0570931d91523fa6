"""OpenTelemetry pipelines of one process: providers of traces and logs, an exporter of metrics, and delivery counters.

Items wait in bounded queues, and threads of the SDK send them; a call never waits for a collector. The environment
variables of the SDK apply (`OTEL_BSP_…`, `OTEL_BLRP_…`, `OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.sdk._logs import LoggerProvider, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fairlead_otel.deliveries import (
    CountedLogs,
    CountedMetrics,
    CountedSpans,
    DeliveredSignal,
    Deliveries,
    ExporterReasons,
    body_size,
    quiet_exporters,
)
from fairlead_otel.encoded_spans import EncodedSpan
from fairlead_otel.environment import SCOPE, Protocol, Signal, endpoint
from fairlead_otel.events import EmitEvent
from fairlead_otel.exporters import log_exporter, metric_exporter, span_exporter
from fairlead_otel.log_records import OtlpEvents, OtlpLogHandler
from fairlead_otel.sampling import Sampling, sampling_of
from fairlead_tools.version import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CLOSE_SECONDS: Final = 3.0
"""Time for sending queued items at the end of the process; the rest is lost."""
QUEUE: Final = 2048
"""Default of OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BLRP_MAX_QUEUE_SIZE: maximum number of queued items of a signal."""
_BATCH: Final = 512
"""Default of OTEL_BSP_MAX_EXPORT_BATCH_SIZE and OTEL_BLRP_MAX_EXPORT_BATCH_SIZE: maximum number of items per
request."""
INTERVAL_S: Final = 60.0
"""Default of OTEL_METRIC_EXPORT_INTERVAL, which is in milliseconds: seconds between two readings of the metrics."""
AUDIT_SCOPE: Final = "fairlead.audit"
"""Name of the instrumentation scope of the audit log."""


class _BoundedSpans(BatchSpanProcessor):
    """Span processor with a bounded queue; if the queue is full, new spans are dropped."""

    def __init__(self, exporter: CountedSpans, deliveries: Deliveries, capacity: int, batch: int) -> None:
        super().__init__(exporter, max_queue_size=capacity, max_export_batch_size=batch)
        self._deliveries = deliveries

    def on_end(self, span: ReadableSpan) -> None:
        if span.context and span.context.trace_flags.sampled and self._deliveries.admit():
            super().on_end(span)

    def put(self, field: bytes) -> None:
        """Queue a span that `encode_span` returned."""
        self.on_end(EncodedSpan(field))


class _BoundedLogs(BatchLogRecordProcessor):
    """Log processor with a bounded queue; if the queue is full, new records are dropped."""

    def __init__(self, exporter: CountedLogs, deliveries: Deliveries, capacity: int, batch: int) -> None:
        super().__init__(exporter, max_queue_size=capacity, max_export_batch_size=batch)
        self._deliveries = deliveries

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if self._deliveries.admit(body_size(log_record.log_record.body)):
            super().on_emit(log_record)


class SpanPipeline(NamedTuple):
    """Pipeline of spans that are encoded at their end."""

    put: Callable[[bytes], None]
    """Queues a sampled span that `encode_span` returned; never blocks."""
    sampling: Sampling
    max_characters: int | None
    """Maximum number of characters of an attribute (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT); None: any number."""


class Pipelines:
    """Pipelines of one process; they have to be closed by `close`."""

    def __init__(self, signals: Mapping[Signal, Protocol], environ: Mapping[str, str], service: str) -> None:
        """Open the pipelines; `service` is the default service name. Raises ImportError if a protocol's package is not
        installed.
        """
        self.resource = _resource(environ, service)
        self.deliveries: list[Deliveries] = []
        self.tracer_provider: TracerProvider | None = None
        """Provider of tracers; None if traces are not exported."""
        self.spans: SpanPipeline | None = None
        """Pipeline of encoded spans, with the same queue; None if traces are not exported."""
        self.logger_provider: LoggerProvider | None = None
        """Provider of loggers; None if logs are not exported."""
        self.metrics: CountedMetrics | None = None
        """Exporter of metrics; None if metrics are not exported."""
        self._interval_s = _number(environ, "OTEL_METRIC_EXPORT_INTERVAL", round(INTERVAL_S * 1000)) / 1000
        self._handler: OtlpLogHandler | None = None
        self._environ = environ
        self._logs_protocol = signals.get("logs")
        self._closings: list[tuple[Callable[[], None], Callable[[], None]]] = []
        """Pairs of functions, one pair per queue: the first sends the queued items, the second aborts the sending."""
        reasons = quiet_exporters()
        if "traces" in signals:
            self._open_traces(signals["traces"], environ, reasons)
        if self._logs_protocol is not None:
            self.logger_provider = self._open_logs("logs", self._logs_protocol)
        if "metrics" in signals:
            self._open_metrics(signals["metrics"], environ, reasons)

    def _open_traces(self, protocol: Protocol, environ: Mapping[str, str], reasons: ExporterReasons) -> None:
        capacity, batch = _limits(environ, "OTEL_BSP")
        deliveries = self._deliveries("traces", environ, capacity)
        exporter = CountedSpans(span_exporter(protocol, self.resource), deliveries, reasons)
        self.tracer_provider = TracerProvider(resource=self.resource, shutdown_on_exit=False)
        processor = _BoundedSpans(exporter, deliveries, capacity, batch)
        self.tracer_provider.add_span_processor(processor)
        self.spans = SpanPipeline(processor.put, sampling_of(environ), SpanLimits().max_span_attribute_length)
        self._closings.append((self.tracer_provider.shutdown, exporter.shutdown))

    def _open_logs(self, signal: DeliveredSignal, protocol: Protocol) -> LoggerProvider:
        """Create a provider of loggers with its own queue."""
        capacity, batch = _limits(self._environ, "OTEL_BLRP")
        deliveries = Deliveries(signal, endpoint(self._environ, "logs"), capacity)
        self.deliveries.append(deliveries)
        exporter = CountedLogs(log_exporter(protocol), deliveries, quiet_exporters())
        provider = LoggerProvider(resource=self.resource, shutdown_on_exit=False)
        provider.add_log_record_processor(_BoundedLogs(exporter, deliveries, capacity, batch))
        self._closings.append((provider.shutdown, exporter.shutdown))
        return provider

    def _open_metrics(self, protocol: Protocol, environ: Mapping[str, str], reasons: ExporterReasons) -> None:
        self.metrics = CountedMetrics(metric_exporter(protocol), self._deliveries("metrics", environ, 1), reasons)

    def _deliveries(self, signal: Signal, environ: Mapping[str, str], capacity: int) -> Deliveries:
        deliveries = Deliveries(signal, endpoint(environ, signal), capacity)
        self.deliveries.append(deliveries)
        return deliveries

    def export_logs(self) -> None:
        """Start to export the process's log. No-op if logs are not exported, or if the export was started already."""
        if self.logger_provider is not None and self._handler is None:
            self._handler = OtlpLogHandler(self.logger_provider.get_logger(SCOPE, VERSION))
            logging.getLogger().addHandler(self._handler)

    def open_audit(self) -> EmitEvent | None:
        """Start to export audit events, with a separate queue. Returns the function that queues an event, or None if
        logs are not exported.
        """
        if self._logs_protocol is None:
            return None
        return OtlpEvents(self._open_logs("audit", self._logs_protocol).get_logger(AUDIT_SCOPE, VERSION)).emit

    def export_metrics(self, registry: CollectorRegistry) -> None:
        """Start to export the metrics of a registry. No-op if metrics are not exported."""
        if self.metrics is None:
            return
        from fairlead_otel.metric_readings import (
            MetricReadings,  # imported here, as tool servers do not have prometheus_client
        )

        readings = MetricReadings(registry, self.metrics, self.resource, self._interval_s)
        self._closings.append((readings.close, self.metrics.shutdown))

    def close(self) -> None:
        """Send queued items for at most CLOSE_SECONDS, then drop the rest. Blocks."""
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
        closings, self._closings = self._closings, []
        threads = [threading.Thread(target=close, daemon=True, name="otel-close") for close, _ in closings]
        for thread in threads:
            thread.start()
        end = time.monotonic() + CLOSE_SECONDS
        for thread, (_, abort) in zip(threads, closings, strict=True):
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                abort()


def _resource(environ: Mapping[str, str], service: str) -> Resource:
    attributes = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    defaults: dict[str, str] = {SERVICE_VERSION: VERSION}
    if not environ.get("OTEL_SERVICE_NAME") and SERVICE_NAME not in attributes:
        defaults[SERVICE_NAME] = service
    if SERVICE_INSTANCE_ID not in attributes:
        defaults[SERVICE_INSTANCE_ID] = str(uuid.uuid4())
    return Resource.create(defaults)


def _limits(environ: Mapping[str, str], prefix: str) -> tuple[int, int]:
    """Maximum number of queued items, and of items per request to the collector."""
    capacity = _number(environ, f"{prefix}_MAX_QUEUE_SIZE", QUEUE)
    return capacity, min(capacity, _number(environ, f"{prefix}_MAX_EXPORT_BATCH_SIZE", _BATCH))


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    """Value of a variable; `default` unless the value is a positive integer."""
    text = environ.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) else default
