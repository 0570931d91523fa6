"""Decides which traces are exported, by the environment variables of OpenTelemetry's specification.

Pure module. The samplers are the six of the specification; an unknown sampler, about which the SDK logs a warning, is
replaced by the default.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/#general-sdk-configuration
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

_BOUND_OF_ALL: Final = 1 << 64
_DEFAULT_SAMPLER: Final = "parentbased_always_on"
_RATIO_SAMPLER: Final = "traceidratio"
_PARENT_BASED: Final = "parentbased_"


class Sampling(msgspec.Struct, frozen=True):
    """Which traces are sampled."""

    parent_based: bool
    """Whether the decision of a caller that sent a trace context is respected."""
    bound: int
    """A trace is sampled if the last 64 bits of its id are below this number; 2 ** 64 for all traces."""

    def samples(self, trace_id: bytes, parent_sampled: bool | None) -> bool:
        """Whether a trace with an id of 16 bytes is sampled. `parent_sampled` is the caller's decision; None if the
        trace begins here.
        """
        if parent_sampled is not None and self.parent_based:
            return parent_sampled
        return self.bound == _BOUND_OF_ALL or int.from_bytes(trace_id[8:], "big") < self.bound


def sampling_of(environ: Mapping[str, str]) -> Sampling:
    """Sampling that `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` configure."""
    name = environ.get("OTEL_TRACES_SAMPLER", _DEFAULT_SAMPLER).lower()
    bounds = {
        "always_on": _BOUND_OF_ALL,
        "always_off": 0,
        _RATIO_SAMPLER: _bound_of(environ.get("OTEL_TRACES_SAMPLER_ARG", "")),
    }
    if name in bounds:
        return Sampling(parent_based=False, bound=bounds[name])
    return Sampling(parent_based=True, bound=bounds.get(name.removeprefix(_PARENT_BASED), _BOUND_OF_ALL))


def _bound_of(share: str) -> int:
    """Bound for a share of the traces; the bound of all traces if the share is not a number from 0 to 1."""
    try:
        number = float(share)
    except ValueError:
        return _BOUND_OF_ALL
    return round(number * _BOUND_OF_ALL) if 0 <= number <= 1 else _BOUND_OF_ALL
