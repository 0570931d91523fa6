"""Spans by OpenTelemetry's SDK, sent over OTLP/HTTP. The only module that knows it; loaded where it is configured.

Made by `configured`. Names and attributes are those of the semantic conventions for MCP and GenAI: a
server span for what the client asked, and a client span below it for each attempt, whose context the server gets.
Spans are sent by a thread of the SDK; its environment variables (`OTEL_…`) hold, sampling included. Where a caller
sampled its trace, or did not, that is followed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.exchange import Exchange
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE, Trace, named, with_trace
from fairlead_mcp import eras, jsonrpc
from fairlead_tools.version import VERSION

log = logging.getLogger(__name__)

DEFAULT_NAME: Final = "fairlead-gateway"
CLOSE_MILLISECONDS: Final = 3000
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NAMED_BY: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_URI: Final = "mcp.resource.uri"
MAX_TEXT: Final = 1024
"""Bytes or characters of what a client made up: spans wait for their collector."""


class OtelCallSpan:
    """As of `tracing.spans`."""

    __slots__ = ("_attempt", "_attributes", "_name", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span, name: str, attributes: dict[str, str]) -> None:
        self._tracer = tracer
        self._span = span
        self._name = name
        self._attributes = attributes
        self._attempt: Span | None = None

    def attempt(self, params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes]:
        self.attempt_over()
        within = set_span_in_context(self._span)
        self._attempt = span = self._tracer.start_span(self._name, within, SpanKind.CLIENT, self._attributes)
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(span))
        trace = Trace(carrier["traceparent"].encode(), carrier.get("tracestate", "").encode())
        return with_trace(params, trace), trace.lines

    def attempt_over(self, error_type: str = "") -> None:
        span, self._attempt = self._attempt, None
        if span is not None:
            _finish(span, error_type)

    def end(self, error_type: str) -> None:
        self.attempt_over(error_type)
        _finish(self._span, error_type)


def _finish(span: Span, error_type: str) -> None:
    if error_type:
        span.set_attribute("error.type", error_type)
        if error_type.lstrip("-").isdigit():
            span.set_attribute("rpc.response.status_code", error_type)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class OtelSpans:
    """As of `tracing.spans`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("fairlead", VERSION)

    def begin(self, exchange: Exchange, request: McpRequest, named: str, server: ServerKey) -> OtelCallSpan:
        method = request.method
        attributes = {"mcp.method.name": method, "fairlead.server": str(server)}
        name = method
        if method in _NAMED_BY:
            attributes[_NAMED_BY[method]] = named
            name = f"{method} {named}"
        elif named:
            attributes[_URI] = named[:MAX_TEXT]
        if method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
        version = exchange.headers.get(b"mcp-protocol-version")
        own = {
            "jsonrpc.request.id": request.id[:MAX_TEXT].decode(errors="replace").strip('"'),
            "client.address": exchange.address,
            "network.protocol.name": "http",
            "mcp.protocol.version": eras.MODERN_VERSION if request.modern else version.decode() if version else "",
            "fairlead.principal": exchange.identity.principal,
        }
        present = {key: value for key, value in own.items() if value}
        parent = _parent(exchange.headers, request)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, {**attributes, **present})
        return OtelCallSpan(self._tracer, span, name, attributes)

    def close(self) -> None:
        """Send what is there. Blocks for a few seconds at most."""
        self._provider.force_flush(CLOSE_MILLISECONDS)
        self._provider.shutdown()


def _parent(headers: Mapping[bytes, bytes], request: McpRequest) -> Context:
    trace = named(headers.get(TRACEPARENT), headers.get(TRACESTATE), request.params.get("_meta"))
    if trace is None:
        return Context()
    return _PROPAGATOR.extract({"traceparent": trace.parent.decode(), "tracestate": trace.state.decode()}, Context())


def exporting(environ: Mapping[str, str] = os.environ) -> OtelSpans:
    """Spans that go where the environment says."""
    named_already = environ.get("OTEL_SERVICE_NAME") or SERVICE_NAME in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own: dict[str, str] = {SERVICE_VERSION: VERSION}
    if not named_already:
        own[SERVICE_NAME] = DEFAULT_NAME
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelSpans(provider)
