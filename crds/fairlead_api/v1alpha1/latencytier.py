"""The LatencyTier kind: a limit on the latency of tools, and conditions on the conversations that use the tier.

Cluster-scoped, like PriorityClass. The operator compiles all tiers into the `rules` document. This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import DURATION_PATTERN, Condition, Duration, Model, Resource, duration_rule
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.rules import ValidationRule

Quantile = Literal["p50", "p90", "p95", "p99"]
ConversationState = Literal["FirstTurn", "RapidExchange"]
Phrase = Annotated[str, Field(min_length=1, max_length=128)]


class LatencyTierSelection(Model):
    """Conditions on a conversation that choose this tier. An absent member is not a condition."""

    keywords: Annotated[list[Phrase], Distinct()] = Field(default=[], max_length=4096)
    """Words and phrases in a user's message, compared without case."""
    commands: Annotated[list[Phrase], Distinct()] = Field(default=[], max_length=64)
    """Phrases that request this tier explicitly, such as `take your time`. They override all other conditions."""
    shipped_words: bool = False
    """Whether the built-in keywords and commands for the name of this tier (`fast`, `standard`, `deep`) count as
    well.
    """
    conversation_states: Annotated[list[ConversationState], Distinct()] = Field(default=[], max_length=8)
    """`FirstTurn`: the conversation begins. `RapidExchange`: short turns follow each other quickly."""
    queue_depth: int | None = Field(default=None, ge=1, le=10000)
    """Minimum number of waiting requests for which this tier is preferred. Absent: waiting requests do not matter."""
    cooldown: Annotated[Duration, duration_rule("1ms", "30s")] | None = None
    """Time after an answer in this tier during which its keywords do not count. Absent: they always count."""


class LatencyTierSpec(Model):
    """Which tools fit this tier, and when it is chosen."""

    max_latency: Annotated[Duration, duration_rule("1ms", "500ms")] | None = None
    """Maximum duration of calls of a tool that fits this tier. Absent: no limit, every tool fits."""
    quantile: Quantile = "p95"
    """Share of a tool's calls that must stay within `maxLatency`: 95 of 100 with `p95`, half of them with `p50`."""
    min_samples: int = Field(default=10, ge=1, le=100)
    """Minimum number of measured calls for measurements to decide whether a tool fits; with fewer calls, the declared
    latency decides."""
    unmeasured: Literal["Show", "Hide"] = "Show"
    """Whether a tool without measured or declared latency belongs to this tier."""
    default: bool = False
    """Whether agents that name no tier use this tier. Without a default tier, such agents are offered every tool. Set
    it on one tier only; if several tiers set it, the oldest of them is the default.
    """
    hysteresis_percent: int = Field(default=0, ge=0, le=100)
    """Percentage above `maxLatency` from which a call counts as late."""
    call_timeout: Annotated[Duration, duration_rule("1ms", "2s")] | None = None
    """Timeout of calls in this tier. Absent: the timeout of the server and the tool."""
    selection: LatencyTierSelection | None = None
    """Conditions on a conversation that choose this tier. Absent: the tier is chosen by name, or as the default."""

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("hysteresis", "number", "hysteresisPercent, in percent: 0.1 is 10"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.callTimeout) || !has(self.maxLatency) || "
            f"!self.callTimeout.matches('{DURATION_PATTERN}') || !self.maxLatency.matches('{DURATION_PATTERN}') || "
            "duration(self.callTimeout) >= duration(self.maxLatency)",
            message="callTimeout must not be shorter than maxLatency: calls within maxLatency would time out",
            holds=lambda tier: (
                tier.call_timeout is None
                or tier.max_latency is None
                or tier.call_timeout.milliseconds >= tier.max_latency.milliseconds
            ),
            path=".callTimeout",
        ),
    )


class LatencyTierStatus(Model):
    """Observed state of a LatencyTier."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted` and `Ready`; `Conflicted` if another tier is the default too."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    default: bool | None = None
    """Whether agents that name no tier use this tier: if several tiers have `default: true`, only one of them is the
    default. Absent: not determined yet."""
    tools: int | None = Field(default=None, ge=0)
    """Number of tools of the installation that currently fit. Absent: not determined yet."""


NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"


class LatencyTier(Resource):
    """A limit on latency: an agent in this tier is offered only the tools that stay within the limit."""

    kind_name: ClassVar[str] = "LatencyTier"
    plural: ClassVar[str] = "latencytiers"
    short_name: ClassVar[str] = "lt"
    namespaced: ClassVar[bool] = False

    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["LatencyTier"] = "LatencyTier"
    spec: LatencyTierSpec
    """Desired state."""
    status: LatencyTierStatus = LatencyTierStatus()
    """Observed state."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel=f"self.metadata.name.matches('{NAME_PATTERN}')",
            message="a LatencyTier's name consists of lower-case letters, digits and -, and has at most 40 characters: "
            "agents request it as /mcp/NAME",
            holds=lambda tier: re.fullmatch(NAME_PATTERN, tier.metadata.name) is not None,
            path=".metadata.name",
        ),
    )
