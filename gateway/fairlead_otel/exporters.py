"""Creates OTLP exporters for HTTP or gRPC.

The exporters read endpoint, headers, certificates, compression and timeout from the environment.
"""

from __future__ import annotations

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter

from fairlead_otel.encoded_spans import SpanBatches
from fairlead_otel.environment import GRPC, SCOPE, Protocol
from fairlead_tools.version import VERSION


def span_exporter(protocol: Protocol, resource: Resource) -> SpanExporter:
    """Create an exporter of traces, which takes `EncodedSpan`s of the resource too. Raises ImportError if the package
    for the protocol is not installed.
    """
    batches = SpanBatches(resource, SCOPE, VERSION)
    if protocol == GRPC:
        from fairlead_otel.grpc_spans import GrpcSpanExporter

        return GrpcSpanExporter(batches)
    from fairlead_otel.http_spans import HttpSpanExporter

    return HttpSpanExporter(batches)


def log_exporter(protocol: Protocol) -> LogRecordExporter:
    """Create an exporter of logs. Raises ImportError if the package for the protocol is not installed."""
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter()


def metric_exporter(protocol: Protocol) -> MetricExporter:
    """Create an exporter of metrics. Raises ImportError if the package for the protocol is not installed."""
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()
