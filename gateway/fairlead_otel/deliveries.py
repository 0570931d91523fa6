"""Counts the deliveries of one signal to its collector.

The queue in front of the collector is bounded, and lost items are counted. An outage of the collector is logged once,
and so is its end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, Generic, Literal, TypeVar

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger(__name__)

DeliveredSignal = Literal["traces", "metrics", "logs", "audit"]
"""Labels of deliveries: the signals, and the audit log, whose log records have a separate queue."""
QUEUE_FULL: Final = "queue_full"
"""Reason of a loss: the queue was full."""
EXPORT_FAILED: Final = "export_failed"
"""Reason of a loss: the collector accepted the items in none of the attempts."""
MAX_BYTES: Final = 32 << 20
"""Maximum total size of the bodies of queued log records, as counted by `body_size`."""
_LABELS: Final = {"audit": "lines of the audit log"}
_SDK_LOG: Final = "opentelemetry.exporter"
MAX_REASON: Final = 320
"""Maximum number of characters of an exporter's message about a failure; the rest is cut off."""


class Deliveries:
    """Counters of one signal. Its items are spans, log records, or readings, each with all metrics. Threads that queue
    items call `admit`, and the thread that sends them calls `end`.
    """

    def __init__(
        self, signal: DeliveredSignal, endpoint: str, capacity: int = 0, capacity_bytes: int = MAX_BYTES
    ) -> None:
        """Create the counters. `capacity` is the maximum number of queued items, `capacity_bytes` the maximum sum of
        their sizes, if they are admitted with a size.
        """
        self.signal = signal
        self._endpoint = endpoint or "this machine"
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._admitted_count = 0
        """Number of items that were queued."""
        self._bytes_in = 0
        """Bytes of all queued items since the start."""
        self._bytes_out = 0
        """Bytes of all items whose delivery has ended. `_bytes_in` minus this are the bytes in the queue."""
        self.sent = 0
        """Number of items that the collector accepted."""
        self.lost = {QUEUE_FULL: 0, EXPORT_FAILED: 0}
        """Number of lost items by reason."""
        self.failing = False
        """Whether the last delivery failed."""

    def admit(self, size: int = 0) -> bool:
        """Count one more queued item of `size` bytes. Returns False if the queue is full; the item counts as lost."""
        queued_count = self._admitted_count - self.sent - self.lost[EXPORT_FAILED]
        if queued_count >= self._capacity or self._bytes_in - self._bytes_out + size > self._capacity_bytes:
            self.lost[QUEUE_FULL] += 1
            return False
        self._admitted_count += 1
        self._bytes_in += size
        return True

    def end(self, items: int, size: int = 0, *, well: bool, reason: str = "") -> None:
        """Count a finished delivery of `items` items with `size` bytes. The first failure after a success is logged,
        and so is the first success after a failure.
        """
        self._bytes_out += size
        label = _LABELS.get(self.signal, self.signal)
        if well:
            self.sent += items
            if self.failing:
                log.warning("OpenTelemetry: export of %s to %s works again", label, self._endpoint)
        else:
            self.lost[EXPORT_FAILED] += items
            if not self.failing:
                log.warning(
                    "OpenTelemetry: export of %s to %s failed%s. Calls are not affected; lost items are counted, and "
                    "further failures are not logged until an export succeeds",
                    label,
                    self._endpoint,
                    f" ({reason})" if reason else "",
                )
        self.failing = not well


class ExporterReasons(logging.Handler):
    """Log handler for OpenTelemetry's exporters, which log each failed attempt. The handler prints none of these
    messages; it stores the first, to report it as the reason of a failed delivery.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first_message = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._first_message = self._first_message or record.getMessage()[:MAX_REASON]

    def take(self) -> str:
        """Return the first message since the last call of `take`; empty if there is none."""
        message, self._first_message = self._first_message, ""
        return message


def quiet_exporters() -> ExporterReasons:
    """Install the handler that collects the messages of OpenTelemetry's exporters, once per process, and return it."""
    logger = logging.getLogger(_SDK_LOG)
    for handler in logger.handlers:
        if isinstance(handler, ExporterReasons):
            return handler
    reasons = ExporterReasons()
    logger.addHandler(reasons)
    logger.propagate = False
    return reasons


E = TypeVar("E", SpanExporter, LogRecordExporter, MetricExporter)


class _CountingExporter(Generic[E]):
    """Exporter that wraps another exporter and counts its deliveries."""

    def __init__(self, inner: E, deliveries: Deliveries, reasons: ExporterReasons) -> None:
        super().__init__()
        self._inner: E = inner
        self._deliveries = deliveries
        self._reasons = reasons

    def _count(self, items: int, size: int = 0, *, well: bool) -> None:
        self._deliveries.end(items, size, well=well, reason=self._reasons.take())


class CountedSpans(_CountingExporter[SpanExporter], SpanExporter):
    """Exporter of spans that counts deliveries."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            self._count(len(spans), well=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


def body_size(body: object) -> int:
    """Number of characters of a log record's body if it is text; other bodies are small and count as 0."""
    return len(body) if isinstance(body, str) else 0


class CountedLogs(_CountingExporter[LogRecordExporter], LogRecordExporter):
    """Exporter of log records that counts deliveries."""

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = LogRecordExportResult.FAILURE
        try:
            result = self._inner.export(batch)
        finally:
            size = sum(body_size(record.log_record.body) for record in batch)
            self._count(len(batch), size, well=result is LogRecordExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]  # the SDK's method has no annotations

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True  # this exporter has no queue


class CountedMetrics:
    """Exporter of metrics that counts deliveries. Each delivery is one reading of all metrics."""

    def __init__(self, inner: MetricExporter, deliveries: Deliveries, reasons: ExporterReasons) -> None:
        self._inner = inner
        self._deliveries = deliveries
        self._reasons = reasons

    def export(self, reading: MetricsData) -> None:
        """Send one reading. A reading that the collector rejects counts as lost; no error is raised."""
        result: Any = None
        try:
            result = self._inner.export(reading)
        finally:
            self._deliveries.end(1, well=result is MetricExportResult.SUCCESS, reason=self._reasons.take())

    def shutdown(self) -> None:
        """Abort attempts in progress."""
        self._inner.shutdown()
