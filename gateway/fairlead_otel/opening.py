"""Opens the pipelines of a process if its environment configures them; otherwise OpenTelemetry is not imported."""

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
    """Open the pipelines of the exported signals. Returns None if no signal is exported, or if the configuration cannot
    be used; the reason is then logged. `service` is the default service name.
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
        log.error("OpenTelemetry: nothing is exported: %s. Install the extra: %s", error, install_command(extra))
        return None
