"""Creates spans with the OpenTelemetry SDK. No other module of the gateway imports the SDK, and this module is imported
only if traces are exported.

Names and attributes follow the semantic conventions for MCP and GenAI. A client's request has a server span, and each
attempt has a client span below it. The context of the client span is sent to the server or provider. The caller's
sampling decision is respected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE, Trace, read_trace, with_trace
from fairlead_mcp import eras, jsonrpc
from fairlead_tools.version import VERSION

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NAMED_BY: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_URI: Final = "mcp.resource.uri"
MAX_TEXT: Final = 1024
"""Maximum number of characters of a value that a client chose. It limits memory, because spans are buffered until they
are exported."""


class OtelCallSpan:
    """Implements `tracing.spans.CallSpan` with the OpenTelemetry SDK."""

    __slots__ = ("_attempt", "_attributes", "_name", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span, name: str, attributes: dict[str, str]) -> None:
        self._tracer = tracer
        self._span = span
        self._name = name
        self._attributes = attributes
        self._attempt: Span | None = None

    @property
    def ids(self) -> SpanIds | None:
        return _ids_of(self._span)

    def attempt(self, params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes]:
        self.end_attempt()
        within = set_span_in_context(self._span)
        self._attempt = span = self._tracer.start_span(self._name, within, SpanKind.CLIENT, self._attributes)
        trace = _trace_of(span)
        return with_trace(params, trace), trace.lines

    def end_attempt(self, error_type: str = "") -> None:
        span, self._attempt = self._attempt, None
        if span is not None:
            _finish(span, error_type)

    def end(self, error_type: str) -> None:
        self.end_attempt(error_type)
        _finish(self._span, error_type)


class OtelModelSpan:
    """Implements `tracing.spans.ModelSpan` with the OpenTelemetry SDK."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._round: Span | None = None
        self.traceparent = _trace_of(span).parent

    @property
    def ids(self) -> SpanIds | None:
        return _ids_of(self._span)

    def start_round(self, provider: str, model: str) -> str:
        self.end_round()
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model[:MAX_TEXT],
        }
        within = set_span_in_context(self._span)
        self._round = self._tracer.start_span(f"chat {model[:MAX_TEXT]}", within, SpanKind.CLIENT, attributes)
        return _trace_of(self._round).parent.decode()

    def end_round(self, error_type: str = "", input_tokens: int = 0, output_tokens: int = 0) -> None:
        span, self._round = self._round, None
        if span is None:
            return
        if input_tokens or output_tokens:
            span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        _finish(span, error_type)

    def end(self, error_type: str) -> None:
        self.end_round(error_type)
        _finish(self._span, error_type)


def _ids_of(span: Span) -> SpanIds | None:
    """Ids of a span; None if its trace is not sampled."""
    context = span.get_span_context()
    if not context.trace_flags.sampled:
        return None
    return SpanIds(f"{context.trace_id:032x}", f"{context.span_id:016x}")


def _trace_of(span: Span) -> Trace:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, set_span_in_context(span))
    return Trace(carrier["traceparent"].encode(), carrier.get("tracestate", "").encode())


def _finish(span: Span, error_type: str) -> None:
    if error_type:
        span.set_attribute("error.type", error_type)
        if error_type.lstrip("-").isdigit():
            span.set_attribute("rpc.response.status_code", error_type)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class OtelSpans:
    """Implements `tracing.spans.Spans` with the OpenTelemetry SDK."""

    def __init__(self, provider: TracerProvider) -> None:
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
        request_attributes = {
            "jsonrpc.request.id": request.id[:MAX_TEXT].decode(errors="replace").strip('"'),
            "client.address": exchange.address,
            "network.protocol.name": "http",
            "mcp.protocol.version": eras.MODERN_VERSION if request.modern else version.decode() if version else "",
            "fairlead.principal": exchange.identity.principal,
        }
        present = {key: value for key, value in request_attributes.items() if value}
        parent = _parent(exchange.headers, request)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, {**attributes, **present})
        return OtelCallSpan(self._tracer, span, name, attributes)

    def begin_model(self, parent: bytes | None, state: bytes | None, path: str, principal: str) -> OtelModelSpan:
        head, models, _ = path.partition("/models/")
        route = f"{head}{models}{{model}}" if models else path
        attributes: dict[str, AttributeValue] = {
            "http.request.method": "POST",
            "http.route": route,
            "url.path": path[:MAX_TEXT],
            "fairlead.principal": principal,
        }
        within = _context(read_trace(parent, state, None))
        span = self._tracer.start_span(f"POST {route}", within, SpanKind.SERVER, attributes)
        return OtelModelSpan(self._tracer, span)


def _parent(headers: Mapping[bytes, bytes], request: McpRequest) -> Context:
    return _context(read_trace(headers.get(TRACEPARENT), headers.get(TRACESTATE), request.params.get("_meta")))


def _context(trace: Trace | None) -> Context:
    if trace is None:
        return Context()
    return _PROPAGATOR.extract({"traceparent": trace.parent.decode(), "tracestate": trace.state.decode()}, Context())
