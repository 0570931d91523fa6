"""Spans that are encoded already, in the SDK's queue, and requests to a collector that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags

from fairlead_otel.span_encoding import encode_request

_SAMPLED: Final = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class EncodedSpan(ReadableSpan):
    """A finished span in the queue of a span processor, as `encode_span` returned it."""

    context = _SAMPLED  # processors look for its flag

    def __init__(self, field: bytes) -> None:
        # without the base class's constructor, which fills fifteen attributes that nothing reads
        self.field = field


class SpanBatches:
    """Requests with encoded spans of one resource and scope."""

    def __init__(self, resource: Resource, scope: str, version: str) -> None:
        self.stand_in: Final = ReadableSpan(
            name="", context=_SAMPLED, resource=resource, instrumentation_scope=InstrumentationScope(scope, version)
        )
        """Span that is passed to the SDK's exporter for a batch of encoded spans."""
        (resource_spans,) = encode_spans([self.stand_in]).resource_spans
        (scope_spans,) = resource_spans.scope_spans
        scope_spans.ClearField("spans")
        resource_spans.ClearField("scope_spans")
        self._scope = scope_spans.SerializeToString()
        self._resource = resource_spans.SerializeToString()

    def serialize(self, spans: Sequence[ReadableSpan]) -> bytes | None:
        """`ExportTraceServiceRequest` with the spans; None unless all of them are encoded."""
        fields = [span.field for span in spans if isinstance(span, EncodedSpan)]
        return encode_request(self._resource, self._scope, fields) if len(fields) == len(spans) else None
