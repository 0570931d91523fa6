"""Interface of spans for the code that serves calls. This module does not import OpenTelemetry, which is loaded only if
it is needed.

Declarations only; `tracing.exporting` implements them.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.request import Exchange, McpRequest


class SpanIds(msgspec.Struct, frozen=True):
    """Hexadecimal ids of an exported span."""

    trace_id: str
    span_id: str


class CallSpan(Protocol):
    """Span of a client's request, with a child span for each attempt at the server."""

    @property
    def ids(self) -> SpanIds | None:
        """Ids of the span; None if its trace is not sampled."""
        ...

    def attempt(self, params: bytes) -> tuple[bytes, bytes]:
        """Start the span of an attempt. Returns the encoded params and header lines, each with the trace context of the
        attempt's span.
        """
        ...

    def end_attempt(self, error_type: str = "") -> None:
        """End the span of the running attempt, if there is one."""
        ...

    def end(self, error_type: str) -> None:
        """End the span, and the span of a running attempt. `error_type` is empty for a success."""
        ...


class ModelSpan(Protocol):
    """Span of a request to an LLM endpoint, with a child span for each round at a model."""

    traceparent: bytes
    """Trace context for tool calls within the request (W3C Trace Context)."""

    @property
    def ids(self) -> SpanIds | None:
        """Ids of the span; None if its trace is not sampled."""
        ...

    def start_round(self, provider: str, model: str) -> str:
        """Start the span of a round at a model, and return its `traceparent`."""
        ...

    def end_round(self, error_type: str = "", input_tokens: int = 0, output_tokens: int = 0) -> None:
        """End the span of the running round, if there is one."""
        ...

    def end(self, error_type: str) -> None:
        """End the span, and the span of a running round. `error_type` is empty for a success."""
        ...


class Spans(Protocol):
    """Starts spans. Each gateway has one instance."""

    def begin(self, exchange: Exchange, request: McpRequest, name: str, server: ServerKey) -> CallSpan:
        """Start the span of a client's request. `name` is the tool, prompt or URI of the request; empty if the method
        has no such parameter.
        """
        ...

    def begin_model(self, parent: bytes | None, state: bytes | None, path: str, principal: str) -> ModelSpan:
        """Start the span of a request to an LLM endpoint; `parent` and `state` are its headers `traceparent` and
        `tracestate`.
        """
        ...
