"""The ToolPolicy kind: who may see and call which tools of a namespace, within which limits.

The operator compiles all of them into the `rules` document; several policies merge as deny over allow, the smaller
limit, the union of pins. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field

from fairlead_api.v1alpha1.common import Condition, Model, Resource, TierName
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.names import LabelName, Labels, LabelValue
from fairlead_api.v1alpha1.rules import ValidationRule

Word = Annotated[str, Field(min_length=1, max_length=63)]
RuleName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
Glob = Annotated[str, Field(min_length=1, max_length=320)]


MOST_UNLISTED: Final = 64
"""Entries of `status.unlistedServers`."""


class LabelRequirement(Model):
    """One requirement on a label."""

    key: LabelName
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with `values`."""
    values: list[LabelValue] = Field(default=[], max_length=64)
    """For `In` and `NotIn`: at least one value. For the others: none."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            message="In and NotIn need values; Exists and DoesNotExist take none",
            holds=lambda requirement: (requirement.operator in ("In", "NotIn")) == bool(requirement.values),
            path=".operator",
        ),
    )


class ServerSelector(Model):
    """McpServers by their labels; all requirements must hold. Empty: every server of the namespace."""

    atomic: ClassVar[bool] = True

    match_labels: Labels = Field(default={}, max_length=32)
    """Labels with exactly these values."""
    match_expressions: list[LabelRequirement] = Field(default=[], max_length=32)
    """Further requirements."""


class PolicySubject(Model):
    """Whom the policy is about."""

    kind: Literal["Agent", "Group", "ServiceAccount", "Claim", "Authenticated", "Any"]
    """`Agent`: an identity by its name. `Group`: all with that group. `ServiceAccount`: one of Kubernetes. `Claim`:
    all whose token says so. `Authenticated`: everybody but anonymous callers. `Any`: everybody, anonymous callers
    too."""
    name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of the agent, group, ServiceAccount or claim; absent for `Authenticated` and `Any`. A dot in that of a claim
    leads into objects."""
    namespace: str | None = Field(default=None, min_length=1, max_length=63)
    """Namespace of the ServiceAccount. Absent: that of the policy."""
    value: str | None = Field(default=None, min_length=1, max_length=1024)
    """Value of the claim, or one of its entries where it is a list; `true`, `false` and whole numbers as JSON has them.
    With `Claim` only."""
    issuer: str | None = Field(default=None, min_length=1, max_length=1024)
    """Who has to vouch for an Agent, a Group or a Claim: an issuer as in `iss` of its tokens or by its name in the
    gateway's configuration, `apiKeys`, `serviceAccounts`, or `*` for each of them. Absent: the only one that may. Where
    several issuers may, rules that allow then count for nobody, and those that deny for everybody of that name."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="(self.kind in ['Authenticated', 'Any']) != has(self.name)",
            message="subjects: give a name to an Agent, Group, ServiceAccount or Claim, and none to Authenticated or "
            "Any",
            holds=lambda subject: (subject.kind in ("Authenticated", "Any")) != (subject.name is not None),
            path=".name",
        ),
        ValidationRule(
            cel="!has(self.__namespace__) || self.kind == 'ServiceAccount'",
            message="subjects: namespace goes with kind ServiceAccount only",
            holds=lambda subject: subject.namespace is None or subject.kind == "ServiceAccount",
            path=".namespace",
        ),
        ValidationRule(
            cel="(self.kind == 'Claim') == has(self.value)",
            message="subjects: give a Claim its value, and no other kind one",
            holds=lambda subject: (subject.kind == "Claim") == (subject.value is not None),
            path=".value",
        ),
        ValidationRule(
            cel="!has(self.issuer) || self.kind in ['Agent', 'Group', 'Claim']",
            message="subjects: issuer goes with kind Agent, Group or Claim only",
            holds=lambda subject: subject.issuer is None or subject.kind in ("Agent", "Group", "Claim"),
            path=".issuer",
        ),
    )


class ToolAnnotations(Model):
    """Annotations by which a rule matches tools (MCP ToolAnnotations). Only the members given here are compared. Where
    a tool has none, or its server is not trusted with annotations, MCP's defaults count: not read-only, destructive,
    not idempotent, open world.
    """

    read_only_hint: bool | None = None
    """It changes nothing."""
    destructive_hint: bool | None = None
    """It may destroy something."""
    idempotent_hint: bool | None = None
    """Repeating a call changes nothing further."""
    open_world_hint: bool | None = None
    """It reaches out to things that nobody controls, such as the web."""


class PolicyRule(Model):
    """Allows or denies tools. All members given must match; within a list one match is enough."""

    name: RuleName | None = None
    """Name of the rule within the policy, by which the status, refusals and the audit log speak of it. Absent: its
    place in the list, from 0, stands for it."""
    action: Literal["Allow", "Deny"]
    """Effect on the tools that match. Deny wins over Allow, in any order."""
    tools: Annotated[list[Glob], Distinct()] = Field(default=[], max_length=256)
    """Whole names, as the server calls its tools, without prefix. `*` stands for any characters, none included, `?`
    for exactly one; case counts."""
    tags: Annotated[list[Word], Distinct()] = Field(default=[], max_length=64)
    """Tags, as given in the McpServer."""
    categories: Annotated[list[Word], Distinct()] = Field(default=[], max_length=64)
    """Categories, as given in the McpServer."""
    annotations: ToolAnnotations | None = None
    """Annotations that the tool has to have."""
    arguments: dict[str, Any] | None = None
    """JSON Schema that a call's arguments must meet as well for the rule to allow it; with `Allow` only. The tool is
    listed all the same. Of several rules that allow a tool, one that takes the arguments is enough."""
    min_tier: TierName | None = None
    """The fastest latency tier in which the rule allows the tools to subjects who are in a tier; with `Allow` only. Of
    several rules of a policy that allow a tool the fastest counts, those with `arguments` last; of several policies,
    and of the tool's own floor, the slowest."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="(has(self.tools) && size(self.tools) > 0) || (has(self.tags) && size(self.tags) > 0) || "
            "(has(self.categories) && size(self.categories) > 0) || has(self.annotations)",
            message="rules: say which tools are meant, by tools, tags, categories or annotations; "
            'tools: ["*"] means all',
            holds=lambda rule: bool(rule.tools or rule.tags or rule.categories or rule.annotations is not None),
        ),
        ValidationRule(
            cel="!has(self.arguments) || self.action == 'Allow'",
            message="rules: arguments go with action Allow only: a tool is listed before its arguments are known",
            holds=lambda rule: rule.arguments is None or rule.action == "Allow",
            path=".arguments",
        ),
        ValidationRule(
            cel="!has(self.minTier) || self.action == 'Allow'",
            message="rules: minTier goes with action Allow only: a tool that is denied is in no tier",
            holds=lambda rule: rule.min_tier is None or rule.action == "Allow",
            path=".minTier",
        ),
    )


class PolicyTiers(Model):
    """Latency tiers of the subjects."""

    default: TierName | None = None
    """Tier of a subject that names none. Absent: the installation's default."""
    max: TierName | None = None
    """The slowest tier that may be asked for. Absent: any."""


class SubjectLimits(Model):
    """Bounds per subject on what all servers of this namespace take up together, selected ones or not: several policies
    share one count. Absent members bound nothing.
    """

    max_tools: int | None = Field(default=None, ge=0, le=100000)
    """Tools in a list."""
    tool_tokens: int | None = Field(default=None, ge=0, le=10000000)
    """Tokens that the definitions in a list take up in a model's context."""
    calls_per_minute: int | None = Field(default=None, ge=0, le=1000000)
    """Calls started per minute; those of a whole minute may come at once. 0: no calls. Absent: any number."""
    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Calls in flight."""
    result_tokens: int | None = Field(default=None, ge=200, le=10000000)
    """Tokens of one tool's result. A longer one is kept for the subject, who gets its beginning, end and shape, and
    the tool `read_result` to read on."""
    tokens_per_day: int | None = Field(default=None, ge=0, le=1000000000000)
    """Tokens of models, input and output, in a UTC day over the gateway's endpoints of models: of the requests in which
    tools of this namespace are offered."""


class ToolPolicySpec(Model):
    """Rules for the selected servers; of a server that any policy selects, only tools that a rule allows are seen and
    callable.
    """

    servers: ServerSelector | None = None
    """McpServers of this namespace that it is about. Absent: all of them. `limits` count over the others too."""
    subjects: list[PolicySubject] | None = Field(default=None, min_length=1, max_length=256)
    """Whom it is about. Absent: everybody."""
    rules: list[PolicyRule] = Field(min_length=1, max_length=256)
    """Rules that allow and deny; their order does not matter."""
    tiers: PolicyTiers | None = None
    """Latency tiers of the subjects. Absent: any, the installation's default first."""
    limits: SubjectLimits | None = None
    """Bounds on lists and calls of the subjects, over all servers of this namespace, those that `servers` does not
    select included. Absent: none from this policy."""
    pinned: Annotated[list[Glob], Distinct()] = Field(default=[], max_length=256)
    """Tools that no budget cuts from a list, as names without prefix or with `*` and `?`."""
    denied: Literal["Hide", "Explain"] = "Hide"
    """How a denied call is answered. `Hide`: as if the tool did not exist. `Explain`: with the reason."""
    control_characters: Literal["Keep", "Escape"] = "Keep"
    """Treatment of control characters in results and definitions. `Keep`: they pass unchanged. `Escape`: they are
    shown as text, as in `\\u001b`, with marks that change the direction of text; not tabs and line ends.
    """
    auto_run: Literal["All", "ReadOnly", "None"] = "All"
    """Tools that the gateway's endpoints of models may run by themselves when a model calls them. `ReadOnly`: those
    that say `readOnlyHint`, of a server trusted with annotations. Calls of the others come back to the caller, who may
    run them."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="self.rules.all(r, !has(r.name) || self.rules.exists_one(o, has(o.name) && o.name == r.name))",
            message="rules: each name may stand on one rule only",
            holds=lambda spec: len(named := [r.name for r in spec.rules if r.name is not None]) == len(set(named)),
            path=".rules",
        ),
    )


class PolicyConflict(Model):
    """Two policies that say different things about the same tools."""

    policy: str = Field(max_length=253)
    """The other policy."""
    message: str = Field(max_length=1024)
    """Difference between the policies, and the one in force."""


class ToolPolicyStatus(Model):
    """Observations."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted` and `Ready`; `PartiallyInvalid` and `Conflicted` where there is something to say."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    servers: int | None = Field(default=None, ge=0)
    """McpServers that it selects. Absent: not known yet."""
    tools: int | None = Field(default=None, ge=0)
    """Tools of these that its own rules allow, without those of `unlistedServers`. Absent: not known yet."""
    conflicts: Annotated[list[PolicyConflict], Distinct(key="policy")] = Field(default=[], max_length=64)
    """Policies that say otherwise."""
    unmatched_rules: list[Annotated[str, Field(max_length=63), BeforeValidator(str)]] = Field(
        default=[], max_length=256
    )
    """Rules that match no tool that a server listed, by name; those without one by their place in `spec.rules`, from
    0. `PartiallyInvalid` tells of them once `unlistedServers` is empty, as they may match tools of these."""
    unlisted_servers: Annotated[list[Annotated[str, Field(max_length=253)]], Distinct()] = Field(
        default=[], max_length=MOST_UNLISTED
    )
    """McpServers that it selects and that have not listed their tools, the first 64 by name: each of them says why in
    its own status."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type; None where it was not reported."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


class ToolPolicy(Resource):
    """Who may see and call which tools of this namespace, in which latency tiers and within which limits."""

    kind_name: ClassVar[str] = "ToolPolicy"
    plural: ClassVar[str] = "toolpolicies"
    short_name: ClassVar[str] = "tp"

    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["ToolPolicy"] = "ToolPolicy"
    spec: ToolPolicySpec
    """Desired state."""
    status: ToolPolicyStatus = ToolPolicyStatus()
    """Observed state."""
