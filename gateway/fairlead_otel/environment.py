"""Signals that a process exports, and how: read from the environment variables of OpenTelemetry's specification.

Pure module. An endpoint for all signals (`OTEL_EXPORTER_OTLP_ENDPOINT`) exports all three, as the specification's
default for each is the exporter `otlp`; without any endpoint nothing is exported unless a signal's exporter is named.
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


class UnusableVariable(ValueError):
    """A variable that asks for what cannot be done; the message names it and says what is possible."""


def exported_signals(environ: Mapping[str, str]) -> dict[Signal, Protocol]:
    """Protocol of each signal that is exported. Raises UnusableVariable."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    return {signal: _protocol(environ, signal) for signal in SIGNALS if _wants(environ, signal)}


def endpoint(environ: Mapping[str, str], signal: Signal) -> str:
    """Address of a signal's collector as the variables give it; empty for OTLP's default on this machine."""
    return _first(environ, _names("ENDPOINT", signal))[1]


def _wants(environ: Mapping[str, str], signal: Signal) -> bool:
    name = f"OTEL_{signal.upper()}_EXPORTER"
    exporter = environ.get(name, "").strip().lower()
    if exporter not in ("", OTLP, NONE):
        raise UnusableVariable(f"{name} is {exporter!r}; {OTLP} and {NONE} are possible")
    return exporter == OTLP or (not exporter and bool(endpoint(environ, signal)))


def _protocol(environ: Mapping[str, str], signal: Signal) -> Protocol:
    name, value = _first(environ, _names("PROTOCOL", signal))
    if not value:
        return HTTP
    for protocol in PROTOCOLS:
        if value == protocol:
            return protocol
    raise UnusableVariable(f"{name} is {value!r}; {' and '.join(PROTOCOLS)} are possible")


def _names(member: str, signal: Signal) -> tuple[str, str]:
    """Variable of one signal, which counts first, and that of all."""
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{member}", f"OTEL_EXPORTER_OTLP_{member}"


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """Name and value of the first variable that is set; an empty one counts as none."""
    return next(((name, value) for name in names if (value := environ.get(name, "").strip())), ("", ""))
