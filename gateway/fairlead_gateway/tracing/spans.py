"""Spans as the path of a call sees them. Nothing here knows OpenTelemetry, so nothing of it is loaded without need.

Pure declarations, implemented by `tracing.exporting`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_mcp import jsonrpc


class SpanIds(msgspec.Struct, frozen=True):
    """Ids of a span that is exported, in hexadecimal digits."""

    trace_id: str
    span_id: str


class CallSpan(Protocol):
    """A request from its beginning to its answer, with a span of its own for each attempt at the server."""

    @property
    def ids(self) -> SpanIds | None:
        """Its ids; None where its trace is not sampled."""
        ...

    def attempt(self, params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes]:
        """An attempt begins: its params, and lines for the head of its request, both naming its span."""
        ...

    def attempt_over(self, error_type: str = "") -> None:
        """No-op where none runs."""
        ...

    def end(self, error_type: str) -> None:
        """End the span, and that of an attempt that runs. `error_type` as of `telemetry.Recorder`."""
        ...


class ModelSpan(Protocol):
    """A request to an endpoint in front of models, with a span of its own for each round at a model."""

    traceparent: bytes
    """Context that calls of tools within the request get (W3C Trace Context)."""

    @property
    def ids(self) -> SpanIds | None:
        """Its ids; None where its trace is not sampled."""
        ...

    def round_began(self, provider: str, model: str) -> str:
        """A round is sent to a model; the `traceparent` of its span."""
        ...

    def round_ended(self, error_type: str = "", input_tokens: int = 0, output_tokens: int = 0) -> None:
        """No-op where none runs."""
        ...

    def end(self, error_type: str) -> None:
        """End the span, and that of a round that runs. `error_type`: empty where the request went well."""
        ...


class Spans(Protocol):
    """Begins spans. One per gateway."""

    def begin(self, exchange: Exchange, request: McpRequest, named: str, server: ServerKey) -> CallSpan: ...

    def begin_model(self, parent: bytes | None, state: bytes | None, path: str, principal: str) -> ModelSpan:
        """A request to a path of the endpoints in front of models; `parent` and `state` as its headers have them."""
        ...
