"""Creates the source of spans of a gateway. OpenTelemetry is imported only if the gateway exports traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead_gateway.tracing.exporting import OtelSpans
    from fairlead_otel.pipelines import Pipelines


def spans_of(pipelines: Pipelines | None) -> OtelSpans | None:
    """Create the source of spans; None if no traces are exported."""
    if pipelines is None or pipelines.spans is None:
        return None
    from fairlead_gateway.tracing.exporting import OtelSpans

    return OtelSpans(pipelines.spans)
