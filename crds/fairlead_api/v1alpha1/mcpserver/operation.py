"""How Fairlead works with a running server: discovery, calibration, limits.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Duration, Model, duration_rule
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import ValidationRule


class Discovery(Model):
    """When the server's tools are listed, and what becomes of them when it is gone."""

    interval: Annotated[Duration, duration_rule("10s", "10m", "720h")] = Duration("10m")
    """Time between two listings of a server that does not announce changes by itself; from `10s` to
    `720h`."""
    on_disconnect: Literal["MarkOffline", "Remove"] = "MarkOffline"
    """`MarkOffline`: its tools stay listed and a call is refused at once.
    `Remove`: they leave every list at the first loss."""
    tools: Literal["All", "Named"] = "All"
    """`All`: every tool that it lists is offered, but for those that `spec.tools` disables. `Named`: those alone that
    `spec.tools` names."""
    tag_separator: str | None = Field(default=None, min_length=1, max_length=8)
    """For a server that is a gateway to others and puts their names before those of tools: what stands between the two,
    such as `-` at a LiteLLM proxy. The text before the first one is a tag of the tool. Absent: names give no tags."""


ProbePolicy = Literal["Never", "Declared", "ReadOnly"]


class Calibration(Model):
    """Which tools Fairlead calls by itself to measure them, and how often. Calls of agents are measured in any case."""

    probe: ProbePolicy | None = None
    """`Never`: none. `Declared`: tools for which `spec.tools` has `probe.arguments`.
    `ReadOnly`: also tools with `readOnlyHint` of a trusted server, with arguments made from their schemas.
    Absent: `Declared`, under `fairlead up --probe` `ReadOnly`."""
    samples: int = Field(default=5, ge=1, le=50)
    """Calls per tool and round."""
    interval: Annotated[Duration, duration_rule("1m", "1h", "720h")] = Duration("1h")
    """Time between two rounds; from `1m` to `720h`."""

    moved: ClassVar[tuple[MovedField, ...]] = (MovedField("enabled", "boolean", "probe: false is Never"),)

    def allows(self, default: ProbePolicy) -> ProbePolicy:
        """The policy in force, where `default` is that of the installation."""
        return self.probe or default


class DefinitionApproval(Model):
    """Approval of definitions that `pin: true` holds back: of exactly those, and of none that come later."""

    hash: str = Field(min_length=1, max_length=128)
    """Hash of what is held back, as the condition `Approved` and `fairlead diff` show it."""
    by: str = Field(default="", max_length=256)
    """User who gives it; kept in `status.approvals`. Where the chart's admission policy is in force, nobody can write
    another name than their own."""


class ServerLimits(Model):
    """Bounds on the calls to this server, per gateway replica."""

    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Calls in flight. Absent: no limit of its own."""
    calls_per_minute: int | None = Field(default=None, ge=1, le=6000000)
    """Calls started per minute. After a pause those of a whole minute may come at once, or as many as `burst` says; the
    others are spread evenly. Of all gateway replicas where they share limits, else of each. Absent: no limit.
    """
    burst: int | None = Field(default=None, ge=1, le=6000000)
    """Calls of `callsPerMinute` that may come at once after a pause; 1 spreads all of them evenly. Goes with
    `callsPerMinute` only. Absent: those of a whole minute.
    """
    timeout: Annotated[Duration, duration_rule("1ms", "60s")] = Duration("60s")
    """The longest that one call may take; a tool's `latency.max` and a tier's `callTimeout` may shorten it. Progress
    that the server reports begins it again, up to `maxTimeout`. At most `24h`.
    """
    max_timeout: Annotated[Duration, duration_rule("1ms", "1h")] = Duration("10m")
    """The longest that a call may take whose server goes on reporting progress to a client that asked for it. No longer
    than `timeout`: progress changes nothing. At most `24h`.
    """
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

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("callsPerSecond", "number", "callsPerMinute, 60 times as much: 0.5 is 30"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.burst) || has(self.callsPerMinute)",
            message="burst is a share of callsPerMinute, which is not set: set it too, or leave burst out",
            holds=lambda limits: limits.burst is None or limits.calls_per_minute is not None,
            path=".burst",
        ),
    )

    @property
    def calls_per_second(self) -> float | None:
        """`callsPerMinute` as a rate; None for no limit."""
        return None if self.calls_per_minute is None else self.calls_per_minute / 60
