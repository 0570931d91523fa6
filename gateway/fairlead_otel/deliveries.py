"""Deliveries of one signal to its collector: what waits is bounded, what is lost is counted, and a collector that does
not answer is one warning, until it answers again.
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

Delivered = Literal["traces", "metrics", "logs", "audit"]
"""Labels of deliveries: the signals, and the audit log, whose log records have a queue of their own."""
QUEUE_FULL: Final = "queue_full"
"""Reason of a loss: as many items, or bytes of them, waited as may wait."""
EXPORT_FAILED: Final = "export_failed"
"""Reason of a loss: the collector did not take them, after all attempts."""
MAX_BYTES: Final = 32 << 20
"""Bytes of the bodies of log records that may wait."""
_WORDS: Final = {"audit": "lines of the audit log"}
_SDK_LOG: Final = "opentelemetry.exporter"
MAX_REASON: Final = 320
"""Characters of what the exporter says of a failure."""


class Deliveries:
    """Counts of one signal: spans, log records, or readings of all metrics. Added to by threads that hand items over
    (`admit`), and by one that sends them (`ended`).
    """

    def __init__(self, signal: Delivered, endpoint: str, capacity: int = 0, capacity_bytes: int = MAX_BYTES) -> None:
        """`capacity`: items that may wait; `capacity_bytes`: bytes of those that are admitted with a size."""
        self.signal = signal
        self._endpoint = endpoint or "this machine"
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._admitted = 0
        self._bytes_in = 0
        self._bytes_out = 0
        self.sent = 0
        self.lost = {QUEUE_FULL: 0, EXPORT_FAILED: 0}
        self.failing = False
        """Whether the last delivery failed."""

    def admit(self, size: int = 0) -> bool:
        """Whether there is room for one more item of that many bytes, which is counted as lost where there is none."""
        waiting = self._admitted - self.sent - self.lost[EXPORT_FAILED]
        if waiting >= self._capacity or self._bytes_in - self._bytes_out + size > self._capacity_bytes:
            self.lost[QUEUE_FULL] += 1
            return False
        self._admitted += 1
        self._bytes_in += size
        return True

    def end(self, items: int, size: int = 0, *, well: bool, reason: str = "") -> None:
        """Count a delivery of that many bytes that ended, and warn where it is the first that failed since one went
        well.
        """
        self._bytes_out += size
        what = _WORDS.get(self.signal, self.signal)
        if well:
            self.sent += items
            if self.failing:
                log.warning("OpenTelemetry: %s reach %s again", what, self._endpoint)
        else:
            self.lost[EXPORT_FAILED] += items
            if not self.failing:
                log.warning(
                    "OpenTelemetry: %s do not reach %s%s. Calls go on; what does not arrive is dropped and counted, "
                    "and nothing more is said until it arrives again",
                    what,
                    self._endpoint,
                    f" ({reason})" if reason else "",
                )
        self.failing = not well


class ExporterReasons(logging.Handler):
    """Keeps the first message of OpenTelemetry's exporters, which log each failed attempt. They are not printed."""

    def __init__(self) -> None:
        super().__init__()
        self._first = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._first = self._first or record.getMessage()[:MAX_REASON]

    def take(self) -> str:
        """The first message since the last `take`; empty for none."""
        first, self._first = self._first, ""
        return first


def quiet_exporters() -> ExporterReasons:
    """Handler that keeps the messages of OpenTelemetry's exporters from all others. One per process."""
    logger = logging.getLogger(_SDK_LOG)
    for handler in logger.handlers:
        if isinstance(handler, ExporterReasons):
            return handler
    made = ExporterReasons()
    logger.addHandler(made)
    logger.propagate = False
    return made


E = TypeVar("E", SpanExporter, LogRecordExporter, MetricExporter)


class _Counting(Generic[E]):
    """Exporter that counts how the deliveries of another end."""

    def __init__(self, inner: E, deliveries: Deliveries, reasons: ExporterReasons) -> None:
        super().__init__()
        self._inner: E = inner
        self._deliveries = deliveries
        self._reasons = reasons

    def _count(self, items: int, size: int = 0, *, well: bool) -> None:
        self._deliveries.end(items, size, well=well, reason=self._reasons.take())


class CountedSpans(_Counting[SpanExporter], SpanExporter):
    """Exporter of spans with counts."""

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
    """Characters of a log record's body: what of it may be long is text."""
    return len(body) if isinstance(body, str) else 0


class CountedLogs(_Counting[LogRecordExporter], LogRecordExporter):
    """Exporter of log records with counts."""

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = LogRecordExportResult.FAILURE
        try:
            result = self._inner.export(batch)
        finally:
            size = sum(body_size(each.log_record.body) for each in batch)
            self._count(len(batch), size, well=result is LogRecordExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]  # the SDK declares it so

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True  # nothing waits here


class CountedMetrics:
    """Exporter of readings of all metrics, with counts."""

    def __init__(self, inner: MetricExporter, deliveries: Deliveries, reasons: ExporterReasons) -> None:
        self._inner = inner
        self._deliveries = deliveries
        self._reasons = reasons

    def export(self, reading: MetricsData) -> None:
        """Send one reading. Raises nothing for a collector that does not take it."""
        result: Any = None
        try:
            result = self._inner.export(reading)
        finally:
            self._deliveries.end(1, well=result is MetricExportResult.SUCCESS, reason=self._reasons.take())

    def shutdown(self) -> None:
        """Give up attempts that are under way."""
        self._inner.shutdown()
