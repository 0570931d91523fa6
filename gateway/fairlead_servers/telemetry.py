"""Traces and logs of a tool server, exported by OpenTelemetry where its environment asks for it.

The MCP SDK makes the spans: one of each request, a child of the span that `_meta` names (SEP-414). Here they get a
provider that exports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead_otel.opening import open_pipelines


def export(environ: Mapping[str, str], name: str) -> Callable[[], None]:
    """Begin to export spans and the log of the server of that name; the function to be called at its end, which sends
    what waits and blocks for a few seconds at most.
    """
    pipelines = open_pipelines(environ, f"fairlead-{name}")
    if pipelines is None:
        return _nothing
    if pipelines.tracer_provider is not None:
        from opentelemetry.trace import set_tracer_provider

        set_tracer_provider(pipelines.tracer_provider)
    pipelines.keep_logs()
    return pipelines.close


def _nothing() -> None:
    """Nothing is exported."""
