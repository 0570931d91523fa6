"""Spans as the path of a call sees them. Nothing here knows OpenTelemetry, so nothing of it is loaded without need.

Pure declarations, implemented by `tracing.exporting`.
"""

from __future__ import annotations

from typing import Protocol

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.exchange import Exchange
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import jsonrpc


class CallSpan(Protocol):
    """A request from its beginning to its answer, with a span of its own for each attempt at the server."""

    def attempt(self, params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes]:
        """An attempt begins: its params, and lines for the head of its request, both naming its span."""
        ...

    def attempt_over(self, error_type: str = "") -> None:
        """No-op where none runs."""
        ...

    def end(self, error_type: str) -> None:
        """End the span, and that of an attempt that runs. `error_type` as of `telemetry.Recorder`."""
        ...


class Spans(Protocol):
    """Begins spans. One per gateway."""

    def begin(self, exchange: Exchange, request: McpRequest, named: str, server: ServerKey) -> CallSpan: ...
