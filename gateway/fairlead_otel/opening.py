"""Opens a process's pipelines where its environment asks for them; nothing of OpenTelemetry is loaded elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead_api.extras import install_command
from fairlead_otel.environment import GRPC, UnusableVariable, exported_signals

if TYPE_CHECKING:
    from fairlead_otel.pipelines import Pipelines

log = logging.getLogger(__name__)


def open_pipelines(environ: Mapping[str, str], service: str) -> Pipelines | None:
    """Pipelines of the signals that are exported; None where there are none, or they cannot be had, which the log says.
    `service`: name of the service where the environment gives none.
    """
    try:
        signals = exported_signals(environ)
    except UnusableVariable as error:
        log.error("OpenTelemetry: nothing is exported: %s", error)
        return None
    if not signals:
        return None
    try:
        from fairlead_otel.pipelines import Pipelines

        return Pipelines(signals, environ, service)
    except ImportError as error:
        extra = "otel,otel-grpc" if GRPC in signals.values() else "otel"
        log.error("OpenTelemetry: nothing is exported: %s. Add the extra: %s", error, install_command(extra))
        return None
