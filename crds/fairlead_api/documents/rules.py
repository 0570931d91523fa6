"""The rules document: all LatencyTiers and ToolPolicies, in the form that gateways apply; one per installation."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format

RULES: Final = "rules"


class TierSelection(DocumentStruct, kw_only=True, frozen=True):
    """Conditions on a conversation that choose a tier."""

    keywords: tuple[str, ...] = ()
    """Words and phrases in a user's message."""
    commands: tuple[str, ...] = ()
    """Phrases that request this tier explicitly, such as `take your time`; they override all other conditions."""
    shipped_words: bool = False
    """Whether the gateway's built-in words for a tier of this name count as well."""
    conversation_states: tuple[str, ...] = ()
    """States of the conversation: `FirstTurn`, `RapidExchange`."""
    queue_depth: int | None = None
    """Number of waiting requests from which this tier is preferred; None: waiting requests do not matter."""
    cooldown_ms: int = 0
    """Time after an answer in which the keywords do not count; 0: they always count."""


class Tier(DocumentStruct, kw_only=True, frozen=True):
    """One LatencyTier with all defaults filled in; times in milliseconds."""

    name: str
    max_latency_ms: int | None = None
    """Limit of the tier; None: no limit."""
    quantile: str = "p95"
    """Quantile of a tool's measured durations that is compared with the limit."""
    min_samples: int = 10
    """Number of measured calls from which measurements decide, instead of the declared latency."""
    unmeasured: str = "Show"
    """Whether the tier shows tools without measurements: `Show` or `Hide`."""
    default: bool = False
    hysteresis: float | None = None
    """Fraction of the limit by which a call must exceed it to count as late."""
    call_timeout_ms: int | None = None
    selection: TierSelection = TierSelection()

    def excludes(self, estimated_ms: int | None) -> bool:
        """Whether a declared median, in milliseconds, alone keeps a tool out of this tier."""
        return estimated_ms is not None and self.max_latency_ms is not None and estimated_ms > self.max_latency_ms

    def admits_unmeasured(self, estimated_ms: int | None, *, untrusted: bool = False) -> bool:
        """Whether a tool without measurements belongs to this tier. The tool's declared median, in milliseconds,
        decides. Without a declared median, `unmeasured` decides. An `untrusted` median can keep the tool out, but not
        bring it in.
        """
        if self.max_latency_ms is None:
            return True
        if self.excludes(estimated_ms):
            return False
        return self.unmeasured == "Show" or (estimated_ms is not None and not untrusted)


class Rule(DocumentStruct, kw_only=True, frozen=True):
    """One rule of a policy: which tools it matches, and whether it allows or denies them."""

    action: str
    """`Allow` or `Deny`."""
    tools: tuple[str, ...] = ()
    """Globs over the names that servers list; empty: all names."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    annotations: dict[str, bool] = msgspec.field(default_factory=dict)
    """MCP hints, such as `readOnlyHint`, to the value that a tool must have."""
    arguments: dict[str, Any] | None = None
    """JSON Schema for the arguments of a call."""
    min_tier: str | None = None
    """The fastest tier in which the rule allows the tools; None: any."""
    name: str | None = None
    """Name within the policy; None if it has none."""

    def label(self, index: int) -> str:
        """The rule's name, or else its index in the policy."""
        return str(index) if self.name is None else self.name


class Subject(DocumentStruct, kw_only=True, frozen=True):
    """Subject that a policy applies to."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    value: str | None = None
    """Value of the claim; with kind `Claim` only."""
    issuer: str | None = None
    """Issuer of the name or the claim: the value of `iss`, the gateway's name for an issuer, `apiKeys`,
    `serviceAccounts` or `*`. None: the gateway's only issuer.
    """


class PolicyLimits(DocumentStruct, kw_only=True, frozen=True):
    """Limits for an agent over all servers of one namespace; None: no limit."""

    max_tools: int | None = None
    """Number of tools in a list."""
    tool_tokens: int | None = None
    """Tokens that the definitions in a list take up in a model's context."""
    calls_per_minute: int | None = None
    concurrency: int | None = None
    """Number of calls in flight."""
    result_tokens: int | None = None
    """Tokens of one tool result."""
    tokens_per_day: int | None = None
    """Input and output tokens of models per UTC day."""


class Policy(DocumentStruct, kw_only=True, frozen=True):
    """One ToolPolicy with its server selector resolved."""

    namespace: str
    name: str
    servers: tuple[str, ...] = ()
    """Names of the servers, in that namespace, that the selector matched when the document was written."""
    every: bool = False
    """Whether the policy has no selector: it selects every server of the namespace, including later ones."""
    subjects: tuple[Subject, ...] = ()
    rules: tuple[Rule, ...] = ()
    default_tier: str | None = None
    """Tier of a subject that names none; None: the installation's default."""
    max_tier: str | None = None
    """The slowest tier that the subjects may request; None: any."""
    limits: PolicyLimits = PolicyLimits()
    pinned: tuple[str, ...] = ()
    """Names or globs of tools that stay listed when a limit on the list is exceeded."""
    denied: str = "Hide"
    """Answer to a denied call: `Hide`, as if the tool did not exist; `Explain`, with the reason."""
    control_characters: str = "Keep"
    """Control characters in results and definitions: `Keep`, or `Escape`, which makes them visible."""
    auto_run: str = "All"
    """Tools that the gateway's model endpoints may run by themselves: `All`, `ReadOnly` or `None`."""


class Rules(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=RULES):
    """All tiers and policies of the installation, each list sorted by name."""

    version: int = msgspec.field(default_factory=current_format)
    default_action: str = "Allow"
    """`Allow` or `Deny`, for tools of servers that no policy selects."""
    tiers: tuple[Tier, ...] = ()
    policies: tuple[Policy, ...] = ()
    judged: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Names of the servers to which the selectors of policies have been applied, by namespace; only namespaces that
    have such policies. A server that is missing here might be selected by a policy, so gateways hide it until it is
    included.
    """
