"""The rules document: LatencyTiers and ToolPolicies compiled into what the gateway decides by. One per installation."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format

RULES: Final = "rules"


class TierSelection(DocumentStruct, kw_only=True, frozen=True):
    """Conditions on a conversation that choose a tier."""

    keywords: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    shipped_words: bool = False
    """Whether the words that come with the gateway for a tier of this name count as well."""
    conversation_states: tuple[str, ...] = ()
    """`FirstTurn`, `RapidExchange`."""
    queue_depth: int | None = None
    cooldown_ms: int = 0
    """0 = its keywords always count."""


class Tier(DocumentStruct, kw_only=True, frozen=True):
    """One LatencyTier; times in milliseconds, defaults filled in."""

    name: str
    max_latency_ms: int | None = None
    """None = no limit."""
    quantile: str = "p95"
    min_samples: int = 10
    unmeasured: str = "Show"
    default: bool = False
    hysteresis: float | None = None
    call_timeout_ms: int | None = None
    selection: TierSelection = TierSelection()

    def excludes(self, estimated_ms: int | None) -> bool:
        """Whether a declared median, in milliseconds, alone keeps a tool out of this tier."""
        return estimated_ms is not None and self.max_latency_ms is not None and estimated_ms > self.max_latency_ms

    def admits_unmeasured(self, estimated_ms: int | None, *, untrusted: bool = False) -> bool:
        """Whether a tool of which nothing was measured belongs to this tier: by its declared median, in milliseconds,
        else as `unmeasured` says. An `untrusted` median keeps it out, and never brings it in.
        """
        if self.max_latency_ms is None:
            return True
        if self.excludes(estimated_ms):
            return False
        return self.unmeasured == "Show" or (estimated_ms is not None and not untrusted)


class Rule(DocumentStruct, kw_only=True, frozen=True):
    """One entry of a policy: the tools it names and what it says of them."""

    action: str
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    annotations: dict[str, bool] = msgspec.field(default_factory=dict)
    arguments: dict[str, Any] | None = None
    """JSON Schema over the arguments of a call."""
    min_tier: str | None = None
    """The fastest tier in which it allows the tools; None: any."""
    name: str | None = None
    """Name within the policy; None: it has none."""

    def label(self, index: int) -> str:
        """Name for people: its own, else its place in the policy."""
        return str(index) if self.name is None else self.name


class Subject(DocumentStruct, kw_only=True, frozen=True):
    """Whom a policy speaks of."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    value: str | None = None
    """Value of the claim; with kind `Claim` only."""
    issuer: str | None = None
    """Who gives the name or the claim: as in `iss`, the gateway's name for an issuer, `apiKeys`, `serviceAccounts` or
    `*`. None: the only one that may.
    """


class PolicyLimits(DocumentStruct, kw_only=True, frozen=True):
    """Bounds on one namespace's share of what an agent sees and does."""

    max_tools: int | None = None
    tool_tokens: int | None = None
    calls_per_minute: int | None = None
    concurrency: int | None = None
    result_tokens: int | None = None
    tokens_per_day: int | None = None


class Policy(DocumentStruct, kw_only=True, frozen=True):
    """One ToolPolicy with its selector resolved."""

    namespace: str
    name: str
    servers: tuple[str, ...] = ()
    """Names, in that namespace, of the servers that the selector matched when this was written."""
    every: bool = False
    """There is no selector: it is about every server of the namespace, those that came later included."""
    subjects: tuple[Subject, ...] = ()
    rules: tuple[Rule, ...] = ()
    default_tier: str | None = None
    max_tier: str | None = None
    limits: PolicyLimits = PolicyLimits()
    pinned: tuple[str, ...] = ()
    denied: str = "Hide"
    """How a denied call is answered: `Hide`, as if the tool did not exist; `Explain`, with the reason."""
    control_characters: str = "Keep"
    """In results and definitions: `Keep`, or `Escape`, which makes them visible."""
    auto_run: str = "All"
    """Tools that a loop of model and tools may call by itself: `All`, `ReadOnly` or `None`."""


class Rules(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=RULES):
    """Every tier and policy of the installation, each list sorted by name."""

    version: int = msgspec.field(default_factory=current_format)
    default_action: str = "Allow"
    tiers: tuple[Tier, ...] = ()
    policies: tuple[Policy, ...] = ()
    judged: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Namespaces that have a policy with a selector, to all servers that the selectors were asked about. A server that
    is not among them may be selected: nobody sees it until the rules know it.
    """
