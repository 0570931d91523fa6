"""Creates the spans of calls and of requests to models. This module is imported only if traces are exported.

Names and attributes follow the semantic conventions for MCP and GenAI. A client's request has a server span, and each
attempt has a client span below it. The context of the client span is sent to the server or provider. The caller's
sampling decision is respected.

A span is encoded when it ends, in a few microseconds. The thread that sends spans does not encode them, because it
would hold the GIL, and delay calls, while it encodes a batch. The SDK's spans took ten times as long.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Final, TypeVar

from opentelemetry.trace import TraceState

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.tracing.spans import SpanIds
from fairlead_gateway.tracing.trace import TRACEPARENT, TRACESTATE, Trace, add_trace, read_trace
from fairlead_mcp import eras
from fairlead_otel.pipelines import SpanPipeline
from fairlead_otel.span_encoding import (
    CLIENT,
    FAILED,
    SERVER,
    encode_span,
    name_field,
    number_attribute,
    text_attribute,
)

_NAME_ATTRIBUTES: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_URI: Final = "mcp.resource.uri"
MAX_TEXT: Final = 1024
"""Maximum number of characters of a value that a client chose. It limits memory, because spans are buffered until they
are exported."""
MAX_CACHED: Final = 4096
"""Maximum number of tools and prompts, and of callers, whose encoded attributes are cached, of MAX_TEXT bytes each."""
_SAMPLED: Final = 1
_RANDOM: Final = 2
"""Flag of a trace whose id is random (W3C Trace Context Level 2). Spans have no other flags than these two."""


class OpenSpan:
    """A span that has begun; `flags` are the trace flags of its context."""

    __slots__ = (
        "_has_remote_parent",
        "_hex_ids",
        "_parent_id",
        "_span_id",
        "_started_ns",
        "_state",
        "_trace_id",
        "flags",
    )

    def __init__(self, trace_id: bytes, parent_id: bytes, state: bytes, flags: int, *, remote: bool) -> None:
        self._trace_id = trace_id
        self._hex_ids: SpanIds | None = None
        self._parent_id = parent_id
        self._state = state
        self.flags = flags
        self._has_remote_parent = remote
        self._span_id = _random_id(8)
        self._started_ns = time.time_ns() if flags & _SAMPLED else 0

    def child(self) -> OpenSpan:
        return OpenSpan(self._trace_id, self._span_id, self._state, self.flags, remote=False)

    @property
    def ids(self) -> SpanIds | None:
        """Ids of the span; None if its trace is not sampled."""
        if self._hex_ids is None and self.flags & _SAMPLED:
            self._hex_ids = SpanIds(self._trace_id.hex(), self._span_id.hex())
        return self._hex_ids

    @property
    def trace(self) -> Trace:
        """Trace context of which this span is the parent."""
        return Trace(f"00-{self._trace_id.hex()}-{self._span_id.hex()}-0{self.flags}".encode(), self._state)

    def serialize(self, fields: bytes) -> bytes:
        """End the span and encode it by `encode_span`. `fields` are its encoded name, kind, attributes and status."""
        times_ns = self._started_ns, time.time_ns()
        return encode_span(
            self._trace_id,
            self._span_id,
            times_ns,
            fields,
            parent_id=self._parent_id,
            state=self._state,
            remote=self._has_remote_parent,
        )


class OtelCallSpan:
    """Implements `tracing.spans.CallSpan`. `encoded_name` is the encoded name with the attributes that attempts have
    too; `caller_attributes` are the other encoded attributes.
    """

    __slots__ = ("_attempt", "_caller_attributes", "_encoded_name", "_span", "_spans")

    def __init__(self, spans: OtelSpans, span: OpenSpan, encoded_name: bytes, caller_attributes: bytes) -> None:
        self._spans = spans
        self._span = span
        self._encoded_name = encoded_name
        self._caller_attributes = caller_attributes
        self._attempt: OpenSpan | None = None

    @property
    def ids(self) -> SpanIds | None:
        return self._span.ids

    def attempt(self, params: bytes) -> tuple[bytes, bytes]:
        self.end_attempt()
        self._attempt = span = self._span.child()
        trace = span.trace
        return add_trace(params, trace), trace.lines

    def end_attempt(self, error_type: str = "") -> None:
        span, self._attempt = self._attempt, None
        if span is not None:
            self._spans.finish(span, CLIENT + self._encoded_name, error_type)

    def end(self, error_type: str) -> None:
        self.end_attempt(error_type)
        self._spans.finish(self._span, SERVER + self._encoded_name + self._caller_attributes, error_type)


class OtelModelSpan:
    """Implements `tracing.spans.ModelSpan`. `encoded_attributes` is the encoded name with all attributes."""

    def __init__(self, spans: OtelSpans, span: OpenSpan, encoded_attributes: bytes) -> None:
        self._spans = spans
        self._span = span
        self._encoded_attributes = encoded_attributes
        self._round: OpenSpan | None = None
        self._round_attributes = b""
        self.traceparent = span.trace.parent

    @property
    def ids(self) -> SpanIds | None:
        return self._span.ids

    def start_round(self, provider: str, model: str) -> str:
        self.end_round()
        self._round = span = self._span.child()
        if span.flags & _SAMPLED:
            self._round_attributes = self._spans.describe_round(provider, model[:MAX_TEXT])
        return span.trace.parent.decode()

    def end_round(self, error_type: str = "", input_tokens: int = 0, output_tokens: int = 0) -> None:
        span, self._round = self._round, None
        if span is None:
            return
        usage = b""
        if input_tokens or output_tokens:
            usage = number_attribute("gen_ai.usage.input_tokens", input_tokens)
            usage += number_attribute("gen_ai.usage.output_tokens", output_tokens)
        self._spans.finish(span, CLIENT + self._round_attributes + usage, error_type)

    def end(self, error_type: str) -> None:
        self.end_round(error_type)
        self._spans.finish(self._span, SERVER + self._encoded_attributes, error_type)


class OtelSpans:
    """Implements `tracing.spans.Spans`: encodes spans as OTLP's messages, and puts them into a pipeline."""

    def __init__(self, pipeline: SpanPipeline) -> None:
        self._put = pipeline.put
        self._samples = pipeline.sampling.samples
        self._max_characters = pipeline.max_characters
        self._encoded_names: dict[tuple[str, str, ServerKey], bytes] = {}
        """Encoded names and attributes of spans, by method, name and server."""
        self._callers: dict[tuple[str, str, str], bytes] = {}
        """Encoded attributes by address, version of the protocol and principal."""

    def begin(self, exchange: Exchange, request: McpRequest, name: str, server: ServerKey) -> OtelCallSpan:
        headers = exchange.headers
        span = self._begin(read_trace(headers.get(TRACEPARENT), headers.get(TRACESTATE), request.params.get("_meta")))
        if not span.flags & _SAMPLED:
            return OtelCallSpan(self, span, b"", b"")
        key = (request.method, name, server)
        encoded_name = self._encoded_names.get(key)
        if encoded_name is None:
            encoded_name = self._describe(*key)
            if request.method in _NAME_ATTRIBUTES:  # a URI may be as long as a request
                _cache(self._encoded_names, key, encoded_name)
        ident = request.id[:MAX_TEXT].decode(errors="replace").strip('"')
        caller = self._describe_caller(exchange, request)
        return OtelCallSpan(
            self, span, encoded_name, (self._text("jsonrpc.request.id", ident) if ident else b"") + caller
        )

    def begin_model(self, parent: bytes | None, state: bytes | None, path: str, principal: str) -> OtelModelSpan:
        span = self._begin(read_trace(parent, state, None))
        if not span.flags & _SAMPLED:
            return OtelModelSpan(self, span, b"")
        head, models, _ = path.partition("/models/")
        route = f"{head}{models}{{model}}" if models else path
        attributes = {
            "http.request.method": "POST",
            "http.route": route,
            "url.path": path[:MAX_TEXT],
            "fairlead.principal": principal,
        }
        return OtelModelSpan(self, span, name_field(f"POST {route}") + self._texts(attributes))

    def describe_round(self, provider: str, model: str) -> bytes:
        """Encoded name and attributes of a round at a model."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        return name_field(f"chat {model}") + self._texts(attributes)

    def finish(self, span: OpenSpan, fields: bytes, error_type: str) -> None:
        """End a span with its encoded name, kind and attributes. `error_type` is empty for a success."""
        if not span.flags & _SAMPLED:
            return
        if error_type:
            fields += self._text("error.type", error_type)
            if error_type.lstrip("-").isdigit():
                fields += self._text("rpc.response.status_code", error_type)
            fields += FAILED
        self._put(span.serialize(fields))

    def _begin(self, trace: Trace | None) -> OpenSpan:
        """Begin the span of a request. `trace` is the trace context of the caller; None without one."""
        if trace is None:
            trace_id = _random_id(16)
            return OpenSpan(trace_id, b"", b"", _RANDOM | self._samples(trace_id, None), remote=False)
        parent = trace.parent.decode()
        trace_id, flags = bytes.fromhex(parent[3:35]), int(parent[53:55], 16)
        is_sampled = self._samples(trace_id, bool(flags & _SAMPLED))
        # an invalid state is dropped as a whole (W3C Trace Context, 3.3)
        state = TraceState.from_header([trace.state.decode()]).to_header().encode() if trace.state else b""
        return OpenSpan(trace_id, bytes.fromhex(parent[36:52]), state, flags & _RANDOM | is_sampled, remote=True)

    def _describe(self, method: str, target: str, server: ServerKey) -> bytes:
        """Encoded name of a call's spans, with the attributes that all of them have."""
        attributes = {"mcp.method.name": method, "fairlead.server": str(server)}
        name = method
        if method in _NAME_ATTRIBUTES:
            attributes[_NAME_ATTRIBUTES[method]] = target
            name = f"{method} {target}"
        elif target:
            attributes[_URI] = target[:MAX_TEXT]
        if method == "tools/call":
            attributes["gen_ai.operation.name"] = "execute_tool"
        return name_field(name) + self._texts(attributes)

    def _describe_caller(self, exchange: Exchange, request: McpRequest) -> bytes:
        """Encoded attributes of the caller of a request."""
        version = exchange.headers.get(b"mcp-protocol-version")
        protocol = eras.MODERN_VERSION if request.modern else version.decode() if version else ""
        key = (exchange.address, protocol, exchange.identity.principal)
        encoded_attributes = self._callers.get(key)
        if encoded_attributes is None:
            address, protocol, principal = key
            attributes = {
                "client.address": address,
                "network.protocol.name": "http",
                "mcp.protocol.version": protocol,
                "fairlead.principal": principal,
            }
            encoded_attributes = self._texts({name: value for name, value in attributes.items() if value})
            _cache(self._callers, key, encoded_attributes)
        return encoded_attributes

    def _texts(self, attributes: Mapping[str, str]) -> bytes:
        return b"".join([self._text(name, value) for name, value in attributes.items()])

    def _text(self, name: str, value: str) -> bytes:
        return text_attribute(name, value[: self._max_characters])


def _random_id(length: int) -> bytes:
    """Random id of a trace or span with `length` bytes, of which not all may be zero."""
    return (random.getrandbits(length * 8) or 1).to_bytes(length, "big")


K = TypeVar("K")


def _cache(cache: dict[K, bytes], key: K, encoded: bytes) -> None:
    """Cache encoded attributes unless they are long. If the cache is full, it is emptied first."""
    if len(encoded) > MAX_TEXT:
        return
    if len(cache) >= MAX_CACHED:
        cache.clear()
    cache[key] = encoded
