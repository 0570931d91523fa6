"""OTLP exporters of OpenTelemetry, by HTTP or gRPC. They read endpoint, headers, certificates, compression and timeout
from the environment themselves.
"""

from __future__ import annotations

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from fairlead_otel.environment import GRPC, Protocol


def span_exporter(protocol: Protocol) -> SpanExporter:
    """Exporter of traces. Raises ImportError where the package for this protocol is not installed."""
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def log_exporter(protocol: Protocol) -> LogRecordExporter:
    """Exporter of logs. Raises ImportError where the package for this protocol is not installed."""
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter()


def metric_exporter(protocol: Protocol) -> MetricExporter:
    """Exporter of metrics. Raises ImportError where the package for this protocol is not installed."""
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
