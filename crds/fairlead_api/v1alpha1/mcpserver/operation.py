"""How Fairlead works with a running server: discovery, calibration, limits.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import DURATION_PATTERN, Duration, Model, duration_rule
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.auth import DiscoveryAuth
from fairlead_api.v1alpha1.mcpserver.spec_rules import DEFAULT_PROCESSES
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import ValidationRule

SharedKind = Literal["resources", "resourceTemplates", "prompts", "skills", "instructions"]
"""Part of a server's listing that is often of one person, such as the titles of their files."""


class Discovery(Model):
    """When the server's tools are listed, and what happens to them when the server is unreachable."""

    interval: Annotated[Duration, duration_rule("10s", "10m", "720h")] = Duration("10m")
    """Time between two listings of a server that does not notify changes; from `10s` to `720h`."""
    on_disconnect: Literal["MarkOffline", "Remove"] = "MarkOffline"
    """`MarkOffline`: the tools stay listed, and calls of them are refused at once.
    `Remove`: the tools are removed from every list as soon as the server is unreachable."""
    tools: Literal["All", "Named"] = "All"
    """`All`: every listed tool is offered, except those that `spec.tools` disables. `Named`: only the tools that
    `spec.tools` names are offered."""
    tag_separator: str | None = Field(default=None, min_length=1, max_length=8)
    """Separator in the names of tools, for a server that is itself a gateway: a LiteLLM proxy lists a tool of GitHub as
    `github-create_issue`, and its separator is `-`. The text before the first separator becomes a tag of the tool.
    Absent: no tags from names."""
    auth: DiscoveryAuth | None = None
    """Credential with which the operator lists and probes a server with `auth.tokenExchange`, `auth.userConsent` or
    `auth.userKey`, whose calls have the credential of the person who calls. Absent: the operator tries without a
    credential; with `fairlead up`, a server with `userConsent` or `userKey` is then listed as with `firstGrant`."""
    shared: Annotated[list[SharedKind], Distinct()] = Field(default=[], max_length=5)
    """With `auth.firstGrant`: what everybody sees of the listing of the person who signs in first, beside the tools.
    Absent: nothing, because resources and prompts are often those of one person."""


ProbePolicy = Literal["Never", "Declared", "ReadOnly"]


class Calibration(Model):
    """Which tools Fairlead probes to measure their latency, and how often. Calls of agents are measured in any case."""

    probe: ProbePolicy | None = None
    """`Never`: none. `Declared`: tools for which `spec.tools` has `probe.arguments`.
    `ReadOnly`: also tools with `readOnlyHint` of a trusted server, with arguments generated from their schemas.
    Absent: `Declared`; with `fairlead up --probe`, `ReadOnly`."""
    samples: int = Field(default=5, ge=1, le=50)
    """Calls per tool and round."""
    interval: Annotated[Duration, duration_rule("1m", "1h", "720h")] = Duration("1h")
    """Time between two rounds; from `1m` to `720h`."""

    moved: ClassVar[tuple[MovedField, ...]] = (MovedField("enabled", "boolean", "probe: false is Never"),)

    def allows(self, default: ProbePolicy) -> ProbePolicy:
        """The effective policy; `default` is that of the installation."""
        return self.probe or default


class DefinitionApproval(Model):
    """Approval of the definitions that `pin: true` holds back: exactly those, and no later ones."""

    hash: str = Field(min_length=1, max_length=128)
    """Hash of the held-back definitions, from the condition `Approved` or `fairlead diff`."""
    by: str = Field(default="", max_length=256)
    """User who approves; recorded in `status.approvals`. The chart's admission policy, if installed, only accepts the
    user's own name."""


def _malformed(member: str) -> str:
    """CEL: whether a duration is badly written, which is the fault of a rule of its own."""
    return f"!self.{member}.matches('{DURATION_PATTERN}')"


class ServerLimits(Model):
    """Limits on calls of this server, per gateway replica."""

    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Limit on concurrent calls. Absent: no limit."""
    calls_per_minute: int | None = Field(default=None, ge=1, le=6000000)
    """Limit on calls started per minute. After a pause, a whole minute's calls may start at once, or as many as `burst`
    allows; the others are spread evenly. It applies to all gateway replicas together if they share limits, else to
    each. Absent: no limit.
    """
    burst: int | None = Field(default=None, ge=1, le=6000000)
    """Number of calls that may start at once after a pause, with `callsPerMinute` only; 1 spreads all calls evenly.
    Absent: those of a whole minute.
    """
    timeout: Annotated[Duration, duration_rule("1ms", "60s")] = Duration("60s")
    """Timeout of one call; a tool's `latency.max` and a tier's `callTimeout` may shorten it. Progress notifications of
    the server restart it, up to `maxTimeout`. At most `24h`.
    """
    max_timeout: Annotated[Duration, duration_rule("1ms", "1h")] = Duration("10m")
    """Timeout of a call whose server reports progress to a client that requested it. If it is not longer than
    `timeout`, progress has no effect. At most `24h`.
    """
    retries: int = Field(default=1, ge=0, le=5)
    """Number of further attempts after a failed one. If the server may have received the request, only idempotent tools
    are retried.
    """
    hedge_after: Annotated[Duration, duration_rule("1ms", "60s")] | None = None
    """Delay after which an unanswered call is sent a second time; the first answer counts. It applies to idempotent
    tools of servers with several replicas. Choose a little more than the tool usually takes. Absent: never.
    """
    max_result_bytes: int = Field(default=10485760, ge=1024, le=268435456)
    """Size limit of a result in bytes; a larger one is an error. 10 MiB by default."""
    processes: int = Field(default=DEFAULT_PROCESSES, ge=2, le=10000)
    """Limit on the processes of a stdio server in one pod, over all gateways. Each gateway replica needs one process,
    and the operator another; with `session: PerClient`, each client needs one. 128 by default; further connections are
    refused.
    """

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("callsPerSecond", "number", "callsPerMinute, 60 times as much: 0.5 is 30"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.burst) || has(self.callsPerMinute)",
            message="burst needs callsPerMinute: set it too, or remove burst",
            holds=lambda limits: limits.burst is None or limits.calls_per_minute is not None,
            path=".burst",
        ),
        ValidationRule(
            cel=f"!has(self.hedgeAfter) || {_malformed('hedgeAfter')} || {_malformed('timeout')} || "
            "duration(self.hedgeAfter) < duration(self.timeout)",
            message="hedgeAfter must be shorter than timeout, or no call is ever sent a second time",
            holds=lambda limits: (
                limits.hedge_after is None or limits.hedge_after.milliseconds < limits.timeout.milliseconds
            ),
            path=".hedgeAfter",
        ),
    )

    @property
    def calls_per_second(self) -> float | None:
        """`callsPerMinute` per second; None for no limit."""
        return None if self.calls_per_minute is None else self.calls_per_minute / 60
