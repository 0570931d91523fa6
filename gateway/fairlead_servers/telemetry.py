"""Exports traces and logs of a tool server by OpenTelemetry, if environment variables configure the export.

The MCP SDK creates one span per request, as a child of the span that the request names in `_meta` (SEP-414). This
module sets the tracer provider, which exports the spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_otel.opening import open_pipelines


def export(environ: Mapping[str, str], name: str) -> Callable[[], None]:
    """Start exporting the spans and the log of the server `name`. Returns a function to call at the end. It sends
    pending data, and blocks for a few seconds at most.
    """
    pipelines = open_pipelines(environ, f"fairlead-{name}")
    if pipelines is None:
        return _do_nothing
    if pipelines.tracer_provider is not None:
        from opentelemetry.trace import set_tracer_provider

        set_tracer_provider(pipelines.tracer_provider)
    pipelines.export_logs()
    return pipelines.close


def _do_nothing() -> None:
    """Do nothing, because nothing is exported."""
