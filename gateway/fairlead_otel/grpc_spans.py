"""Exporter of spans by OTLP over gRPC, which takes encoded spans too.

It is the SDK's exporter, so that endpoint, headers, certificates, compression, timeout and retries are as the
environment says.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from fairlead_otel.encoded_spans import SpanBatches


class GrpcSpanExporter(OTLPSpanExporter):
    """Exporter of spans by gRPC, encoded or not."""

    def __init__(self, batches: SpanBatches) -> None:
        self._batches = batches
        super().__init__()

    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        # abstract in OTLPExporterMixin: the one method in which an exporter by gRPC makes its request
        encoded = self._batches.serialize(data)
        return encode_spans(data) if encoded is None else ExportTraceServiceRequest.FromString(encoded)
