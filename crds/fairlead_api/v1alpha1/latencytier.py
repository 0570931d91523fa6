"""The LatencyTier kind: how long a tool may take to be offered, and when a conversation gets this tier.

Cluster-scoped, as PriorityClass. The operator compiles all of them into the `rules` document. Pure.
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
    """Conditions on a conversation that choose this tier. Absent members ask for nothing."""

    keywords: Annotated[list[Phrase], Distinct()] = Field(default=[], max_length=4096)
    """Words and phrases in what a user says, compared without case."""
    commands: Annotated[list[Phrase], Distinct()] = Field(default=[], max_length=64)
    """Phrases that ask for this tier outright, such as `take your time`; stronger than anything else."""
    shipped_words: bool = False
    """Whether the keywords and commands of the shipped tier of this name (`fast`, `standard`, `deep`) count as well."""
    conversation_states: Annotated[list[ConversationState], Distinct()] = Field(default=[], max_length=8)
    """`FirstTurn`: the conversation begins. `RapidExchange`: short turns follow each other quickly."""
    queue_depth: int | None = Field(default=None, ge=1, le=10000)
    """From this many waiting requests on, this tier is preferred. Absent: whatever waits has no say."""
    cooldown: Annotated[Duration, duration_rule("1ms", "30s")] | None = None
    """For this long after an answer in this tier its keywords do not ask for it again. Absent: they always do."""


class LatencyTierSpec(Model):
    """Which tools fit this tier, and when it is chosen."""

    max_latency: Annotated[Duration, duration_rule("1ms", "500ms")] | None = None
    """The longest that a tool of this tier takes. Absent: no limit, every tool fits."""
    quantile: Quantile = "p95"
    """Which part of a tool's calls must keep `maxLatency`: with `p95` 95 of 100, with `p50` every other."""
    min_samples: int = Field(default=10, ge=1, le=100)
    """From this many measured calls on, what was measured decides; before, what is declared."""
    unmeasured: Literal["Show", "Hide"] = "Show"
    """Whether a tool that is neither measured nor declared belongs to this tier."""
    default: bool = False
    """Whether agents that name no tier get this one; where no tier has it, they are offered every tool. On one tier
    only; of several the oldest has it.
    """
    hysteresis_percent: int = Field(default=0, ge=0, le=100)
    """A call counts as late only this many percent above `maxLatency`."""
    call_timeout: Annotated[Duration, duration_rule("1ms", "2s")] | None = None
    """The longest that a call made in this tier may take. Absent: what the server and the tool allow."""
    selection: LatencyTierSelection | None = None
    """Conditions on a conversation that choose this tier. Absent: it is chosen by name, or as the default."""

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("hysteresis", "number", "hysteresisPercent, in percent: 0.1 is 10"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="!has(self.callTimeout) || !has(self.maxLatency) || "
            f"!self.callTimeout.matches('{DURATION_PATTERN}') || !self.maxLatency.matches('{DURATION_PATTERN}') || "
            "duration(self.callTimeout) >= duration(self.maxLatency)",
            message="callTimeout must not be shorter than maxLatency: it would cut off calls that are in time",
            holds=lambda tier: (
                tier.call_timeout is None
                or tier.max_latency is None
                or tier.call_timeout.milliseconds >= tier.max_latency.milliseconds
            ),
            path=".callTimeout",
        ),
    )


class LatencyTierStatus(Model):
    """Observations."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted` and `Ready`; `Conflicted` on a tier that asks to be the default beside another one."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    default: bool | None = None
    """Whether agents that name no tier get this one: of several with `default: true` only one is. Absent: not known
    yet."""
    tools: int | None = Field(default=None, ge=0)
    """Tools of the installation that fit now. Absent: not known yet."""


NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"


class LatencyTier(Resource):
    """A budget of time: an agent in this tier is offered the tools that keep it, and no others."""

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
            "agents ask for it as /mcp/NAME",
            holds=lambda tier: re.fullmatch(NAME_PATTERN, tier.metadata.name) is not None,
            path=".metadata.name",
        ),
    )
