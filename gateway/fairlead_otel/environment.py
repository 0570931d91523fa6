"""Reads the exported signals and their protocols from the environment variables of OpenTelemetry's specification.

No I/O. With an endpoint for all signals (`OTEL_EXPORTER_OTLP_ENDPOINT`), traces, metrics and logs are exported, as
`otlp` is the default exporter in the specification. A signal without an endpoint is exported only if its exporter is
set.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Signal = Literal["traces", "metrics", "logs"]
Protocol = Literal["http/protobuf", "grpc"]

SIGNALS: Final[tuple[Signal, ...]] = get_args(Signal)
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)
HTTP: Final[Protocol] = "http/protobuf"
GRPC: Final[Protocol] = "grpc"
OTLP: Final = "otlp"
NONE: Final = "none"
SCOPE: Final = "fairlead"
"""Name of the instrumentation scope of spans and log records."""


class UnusableVariable(ValueError):
    """A variable has an unsupported value; the message names the variable and the supported values."""


def exported_signals(environ: Mapping[str, str]) -> dict[Signal, Protocol]:
    """Exported signals with their protocols. Raises UnusableVariable."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    return {signal: _protocol(environ, signal) for signal in SIGNALS if _is_exported(environ, signal)}


def endpoint(environ: Mapping[str, str], signal: Signal) -> str:
    """Endpoint of a signal's collector from the variables; empty for OTLP's default on this machine."""
    return _first_set(environ, _names("ENDPOINT", signal))[1]


def _is_exported(environ: Mapping[str, str], signal: Signal) -> bool:
    name = f"OTEL_{signal.upper()}_EXPORTER"
    exporter = environ.get(name, "").strip().lower()
    if exporter not in ("", OTLP, NONE):
        raise UnusableVariable(f"{name} is {exporter!r}, but only {OTLP} and {NONE} are supported")
    return exporter == OTLP or (not exporter and bool(endpoint(environ, signal)))


def _protocol(environ: Mapping[str, str], signal: Signal) -> Protocol:
    name, value = _first_set(environ, _names("PROTOCOL", signal))
    if not value:
        return HTTP
    for protocol in PROTOCOLS:
        if value == protocol:
            return protocol
    raise UnusableVariable(f"{name} is {value!r}, but only {' and '.join(PROTOCOLS)} are supported")


def _names(member: str, signal: Signal) -> tuple[str, str]:
    """Names of the variables for one signal, which takes precedence, and for all signals."""
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{member}", f"OTEL_EXPORTER_OTLP_{member}"


def _first_set(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Name and value of the first variable that is set and not empty; empty strings if there is none."""
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), ("", ""))
