"""How Fairlead works with a running server: discovery, calibration, limits.

Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Duration, Model, duration_rule
from fairlead_api.v1alpha1.rules import ValidationRule

POSITIVE_RATE = ValidationRule(
    cel="self > 0.0",
    message="must be more than 0; leave it out for no limit",
    holds=lambda rate: rate > 0,
)


class Discovery(Model):
    """When the server's tools are listed, and what becomes of them when it is gone."""

    interval: Annotated[Duration, duration_rule("30s", "10m")] = Duration("10m")
    """Time between two listings of a server that does not announce changes by itself; at least `30s`."""
    on_disconnect: Literal["MarkOffline", "Remove"] = "MarkOffline"
    """`MarkOffline`: its tools stay listed and a call is refused at once.
    `Remove`: they leave every list at the first loss."""


ProbePolicy = Literal["Never", "Declared", "ReadOnly"]


class Calibration(Model):
    """Which tools Fairlead calls by itself to measure them, and how often. Calls of agents are measured in any case."""

    probe: ProbePolicy | None = None
    """`Never`: none. `Declared`: tools for which `spec.tools` has `probe.arguments`.
    `ReadOnly`: also tools with `readOnlyHint` of a trusted server, with arguments made from their schemas.
    Absent: `Declared`, under `fairlead up --probe` `ReadOnly`."""
    enabled: bool | None = None
    """Replaced by `probe`. `false` is read as `probe: Never`, whatever `probe` says; `true` is ignored."""
    samples: int = Field(default=5, ge=1, le=50)
    """Calls per tool and round."""
    interval: Annotated[Duration, duration_rule("1m", "1h")] = Duration("1h")
    """Time between two rounds; at least `1m`."""

    def allows(self, default: ProbePolicy) -> ProbePolicy:
        """The policy in force, where `default` is that of the installation."""
        return "Never" if self.enabled is False else self.probe or default


class ServerLimits(Model):
    """Bounds on the calls to this server, per gateway replica."""

    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Calls in flight. Absent: no limit of its own."""
    calls_per_second: Annotated[float, POSITIVE_RATE] | None = None
    """Calls started per second; fractions are fine. Absent: no limit."""
    timeout: Annotated[Duration, duration_rule("1ms", "60s")] = Duration("60s")
    """The longest that one call may take; a tool's `maxDurationMs` and a tier's `callTimeout` may shorten it."""
    retries: int = Field(default=1, ge=0, le=5)
    """Further attempts after one that failed. Where the server may have got the request, only for tools that are
    idempotent.
    """
    hedge_after: Annotated[Duration, duration_rule("1ms", "60s")] | None = None
    """Send a call a second time when no answer came for so long, and take the first answer: for tools that are
    idempotent, where several replicas answer. A little more than the tool usually takes. Absent: never.
    """
    max_result_bytes: int = Field(default=10485760, ge=1024, le=268435456)
    """The largest answer that is passed on, in bytes; a larger one is an error. 10 MiB by default."""
    processes: int = Field(default=128, ge=2, le=10000)
    """Processes of a server on stdio in one pod, over all gateways: each gateway replica needs one and the operator one
    more, or with `session: PerClient` one for each client. 128 by default; further connections are refused.
    """
