"""Converts records of Python's `logging` and events to OpenTelemetry log records with their trace context."""

from __future__ import annotations

import logging
import time
from typing import Final

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context, get_current
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from opentelemetry.util.types import AnyValue

from fairlead_api.logs import SPAN_ID, TRACE_ID
from fairlead_otel.events import LogEvent

MAX_BODY: Final = 16 << 10
"""Maximum number of characters of a record's message, and likewise of its traceback; the rest is cut off."""
_OWN_LOGS: Final = ("opentelemetry", "fairlead_otel", "urllib3", "grpc")
"""Loggers that the export itself uses. To avoid loops, their records are not exported."""
_SEVERITIES: Final = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
    (logging.NOTSET, SeverityNumber.DEBUG, "DEBUG"),
)


class OtlpLogHandler(logging.Handler):
    """Log handler that passes each record to OpenTelemetry's SDK, which queues it."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_OWN_LOGS):
            return
        attributes: dict[str, AnyValue] = {"log.logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            attributes["exception.type"] = record.exc_info[0].__name__
            attributes["exception.stacktrace"] = logging.Formatter().formatException(record.exc_info)[:MAX_BODY]
        number, text = next((severity, name) for level, severity, name in _SEVERITIES if record.levelno >= level)
        record_context = context_of(getattr(record, TRACE_ID, ""), getattr(record, SPAN_ID, ""))
        self._logger.emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                observed_timestamp=time.time_ns(),
                severity_number=number,
                severity_text=text,
                body=record.getMessage()[:MAX_BODY],
                attributes=attributes,
                context=get_current() if record_context is None else record_context,
            )
        )


class OtlpEvents:
    """Passes events to OpenTelemetry's SDK, which queues them."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def emit(self, event: LogEvent) -> None:
        """Queue an event. Never blocks."""
        self._logger.emit(
            LogRecord(
                timestamp=int(event.at * 1e9),
                observed_timestamp=time.time_ns(),
                event_name=event.name,
                severity_number=SeverityNumber.WARN if event.warns else SeverityNumber.INFO,
                severity_text="WARN" if event.warns else "INFO",
                body=event.body,
                attributes=event.attributes,
                context=context_of(event.trace_id, event.span_id, sampled=event.sampled) or Context(),
            )
        )


def context_of(trace_id: str, span_id: str, *, sampled: bool = True) -> Context | None:
    """Context of a span by its hexadecimal ids; None if `trace_id` is empty."""
    if not trace_id:
        return None
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    span = SpanContext(int(trace_id, 16), int(span_id or "0", 16), is_remote=False, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(span), Context())
