"""Whether spans are wanted: by the environment variables that OpenTelemetry gives for it.

Nothing of OpenTelemetry is loaded unless they are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead_gateway.tracing.exporting import OtelSpans

log = logging.getLogger(__name__)

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP: Final = "http/protobuf"


def wanted(environ: Mapping[str, str]) -> bool:
    """With an OTLP endpoint, or the exporter `otlp`, unless it is switched off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter == "otlp" or (not exporter and any(environ.get(name) for name in _ENDPOINTS))


def configured(environ: Mapping[str, str]) -> OtelSpans | None:
    """None where spans are not wanted, or cannot be had, which the log says."""
    if not wanted(environ):
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), HTTP)
    if protocol != HTTP:
        log.error("Traces are not exported: OTEL_EXPORTER_OTLP_PROTOCOL is %s, only %s is spoken", protocol, HTTP)
        return None
    try:
        from fairlead_gateway.tracing.exporting import exporting
    except ImportError as error:
        log.error("Traces are not exported: %s; install fairlead[otel]", error)
        return None
    return exporting(environ)
