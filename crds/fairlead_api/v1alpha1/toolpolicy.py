"""The ToolPolicy kind: who may see and call which tools of a namespace, within which limits.

The operator compiles all policies into the `rules` document. Several policies merge: deny wins over allow, the smaller
limit counts, pins add up. This module has no I/O.
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
"""Maximum number of entries of `status.unlistedServers`."""


class LabelRequirement(Model):
    """One requirement on a label."""

    key: LabelName
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with `values`."""
    values: list[LabelValue] = Field(default=[], max_length=64)
    """At least one value for `In` and `NotIn`; no value for `Exists` and `DoesNotExist`."""

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
    """Subject of the policy."""

    kind: Literal["Agent", "Group", "ServiceAccount", "Claim", "Authenticated", "Any"]
    """`Agent`: an identity by its name. `Group`: all members of a group. `ServiceAccount`: a ServiceAccount of
    Kubernetes. `Claim`: all callers whose token has the claim. `Authenticated`: all callers except anonymous ones.
    `Any`: all callers, including anonymous ones."""
    name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of the agent, group, ServiceAccount or claim; absent for `Authenticated` and `Any`. A dot in a claim's name
    leads into objects."""
    namespace: str | None = Field(default=None, min_length=1, max_length=63)
    """Namespace of the ServiceAccount. Absent: the policy's own namespace."""
    value: str | None = Field(default=None, min_length=1, max_length=1024)
    """Value of the claim, or one of its entries if the claim is a list. `true`, `false` and whole numbers are written
    as in JSON. With `Claim` only."""
    issuer: str | None = Field(default=None, min_length=1, max_length=1024)
    """Issuer from which an Agent, a Group or a Claim must come: `iss` of its tokens, its name in the gateway's
    configuration, `apiKeys`, `serviceAccounts`, or `*` for any issuer. Absent: the gateway's only issuer. If the
    gateway has several issuers and this is absent, rules that allow apply to nobody, and rules that deny apply to all
    subjects of that name."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="(self.kind in ['Authenticated', 'Any']) != has(self.name)",
            message="subjects: give a name to an Agent, Group, ServiceAccount or Claim, and none to Authenticated or "
            "Any",
            holds=lambda subject: (subject.kind in ("Authenticated", "Any")) != (subject.name is not None),
            path=".name",
        ),
        ValidationRule(
            cel="self.kind != 'ServiceAccount' || !has(self.name) || !self.name.matches('[/:]')",
            message="subjects: name is the name of the ServiceAccount alone; its namespace goes into namespace",
            holds=lambda subject: subject.kind != "ServiceAccount" or not {*(subject.name or "")} & {"/", ":"},
            path=".name",
        ),
        ValidationRule(
            cel="!has(self.__namespace__) || self.kind == 'ServiceAccount'",
            message="subjects: namespace may be set only with kind ServiceAccount",
            holds=lambda subject: subject.namespace is None or subject.kind == "ServiceAccount",
            path=".namespace",
        ),
        ValidationRule(
            cel="(self.kind == 'Claim') == has(self.value)",
            message="subjects: give a Claim its value, and no value to the other kinds",
            holds=lambda subject: (subject.kind == "Claim") == (subject.value is not None),
            path=".value",
        ),
        ValidationRule(
            cel="!has(self.issuer) || self.kind in ['Agent', 'Group', 'Claim']",
            message="subjects: issuer may be set only with kind Agent, Group or Claim",
            holds=lambda subject: subject.issuer is None or subject.kind in ("Agent", "Group", "Claim"),
            path=".issuer",
        ),
    )


class ToolAnnotations(Model):
    """Annotations by which a rule matches tools (MCP ToolAnnotations). Only the members that are set are compared. If a
    tool has no annotations, or its server is not trusted with annotations, MCP's defaults apply: not read-only,
    destructive, not idempotent, open world.
    """

    read_only_hint: bool | None = None
    """The tool changes nothing."""
    destructive_hint: bool | None = None
    """The tool may destroy something."""
    idempotent_hint: bool | None = None
    """Repeating a call changes nothing further."""
    open_world_hint: bool | None = None
    """The tool interacts with external entities, such as the web."""


class PolicyRule(Model):
    """Allows or denies tools. All members that are given must match; in a list, one matching entry is enough."""

    name: RuleName | None = None
    """Name of the rule within the policy, shown in the status, in refusals and in the audit log. Absent: the rule's
    index in the list, from 0, is shown instead."""
    action: Literal["Allow", "Deny"]
    """Effect on the tools that match. Deny wins over Allow, in any order."""
    tools: Annotated[list[Glob], Distinct()] = Field(default=[], max_length=256)
    """Tool names as the server lists them, without prefix. `*` stands for any number of characters, `?` for exactly one
    character. Names are case-sensitive."""
    tags: Annotated[list[Word], Distinct()] = Field(default=[], max_length=64)
    """Tags, as given in the McpServer."""
    categories: Annotated[list[Word], Distinct()] = Field(default=[], max_length=64)
    """Categories, as given in the McpServer."""
    annotations: ToolAnnotations | None = None
    """Annotations that the tool must have."""
    arguments: dict[str, Any] | None = None
    """JSON Schema that the arguments of a call must also match for the rule to allow it; with `Allow` only. The tool is
    listed in any case. If several rules allow a tool, it is enough that one of these rules accepts the arguments."""
    min_tier: TierName | None = None
    """The fastest latency tier in which the rule allows the tools; with `Allow` only, for subjects in a tier. If
    several rules of a policy allow a tool, the fastest of their tiers counts; rules with `arguments` count only if no
    other rule allows the tool. If several policies, or a policy and the tool itself, set a tier, the slowest of these
    tiers counts."""

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
            message="rules: arguments may be set only with action Allow: a tool is listed before its arguments are "
            "known",
            holds=lambda rule: rule.arguments is None or rule.action == "Allow",
            path=".arguments",
        ),
        ValidationRule(
            cel="!has(self.minTier) || self.action == 'Allow'",
            message="rules: minTier may be set only with action Allow: a denied tool is in no tier",
            holds=lambda rule: rule.min_tier is None or rule.action == "Allow",
            path=".minTier",
        ),
    )


class PolicyTiers(Model):
    """Latency tiers of the subjects."""

    default: TierName | None = None
    """Tier of a subject that names no tier. Absent: the installation's default tier."""
    max: TierName | None = None
    """The slowest tier that the subjects may request. Absent: they may request any tier."""


class SubjectLimits(Model):
    """Limits per subject over all servers of this namespace, whether the policy selects them or not. Several policies
    share one count. Absent members do not limit anything.
    """

    max_tools: int | None = Field(default=None, ge=0, le=100000)
    """Maximum number of tools in a list."""
    tool_tokens: int | None = Field(default=None, ge=0, le=10000000)
    """Maximum number of tokens that the definitions in a list take up in a model's context."""
    calls_per_minute: int | None = Field(default=None, ge=0, le=1000000)
    """Maximum number of calls that start per minute; all of them may start at once. 0: no calls. Absent: any number."""
    concurrency: int | None = Field(default=None, ge=1, le=100000)
    """Maximum number of calls in flight."""
    result_tokens: int | None = Field(default=None, ge=200, le=10000000)
    """Maximum number of tokens of a tool's result. The gateway stores a longer result for the subject, and returns its
    beginning, end and shape; the tool `read_result` reads the rest."""
    tokens_per_day: int | None = Field(default=None, ge=0, le=1000000000000)
    """Maximum number of tokens of models, input and output, per UTC day at the gateway's model endpoints. Requests that
    offer tools of this namespace count."""


class ToolPolicySpec(Model):
    """Rules for the selected servers. If any policy selects a server, only those tools of the server that a rule allows
    are visible and callable.
    """

    servers: ServerSelector | None = None
    """McpServers of this namespace that the policy selects. Absent: all of them. `limits` also count calls of servers
    that are not selected."""
    subjects: list[PolicySubject] | None = Field(default=None, min_length=1, max_length=256)
    """Subjects to which the policy applies. Absent: everybody."""
    rules: list[PolicyRule] = Field(min_length=1, max_length=256)
    """Rules that allow or deny tools, in any order."""
    tiers: PolicyTiers | None = None
    """Latency tiers of the subjects. Absent: any tier; the default is the installation's."""
    limits: SubjectLimits | None = None
    """Limits on lists and calls of the subjects, over all servers of this namespace, including those that `servers`
    does not select. Absent: no limits from this policy."""
    pinned: Annotated[list[Glob], Distinct()] = Field(default=[], max_length=256)
    """Tools that stay listed when a budget is exceeded: names without prefix, or patterns with `*` and `?`."""
    denied: Literal["Hide", "Explain"] = "Hide"
    """Answer to a denied call. `Hide`: as if the tool did not exist. `Explain`: with the reason."""
    control_characters: Literal["Keep", "Escape"] = "Keep"
    """Treatment of control characters in results and definitions. `Keep`: they pass unchanged. `Escape`: they are
    shown as text, as in `\\u001b`, including marks that change the text direction. Tabs and line ends stay.
    """
    auto_run: Literal["All", "ReadOnly", "None"] = "All"
    """Tools that the gateway's model endpoints may run by themselves when a model calls them. `ReadOnly`: tools with
    `readOnlyHint`, of a server trusted with annotations. Calls of other tools are returned to the client, which may run
    them."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="self.rules.all(r, !has(r.name) || self.rules.exists_one(o, has(o.name) && o.name == r.name))",
            message="rules: each name may occur in only one rule",
            holds=lambda spec: len(named := [r.name for r in spec.rules if r.name is not None]) == len(set(named)),
            path=".rules",
        ),
    )


class PolicyConflict(Model):
    """Another policy that contradicts this policy about the same tools."""

    policy: str = Field(max_length=253)
    """The other policy."""
    message: str = Field(max_length=1024)
    """Difference between the policies, and the one that wins."""


class ToolPolicyStatus(Model):
    """Observed state of a ToolPolicy."""

    conditions: Annotated[list[Condition], Distinct(key="type")] = Field(default=[], max_length=16)
    """`Accepted` and `Ready`; also `PartiallyInvalid` and `Conflicted` where they apply."""
    observed_generation: int = 0
    """`metadata.generation` that this status describes."""
    servers: int | None = Field(default=None, ge=0)
    """Number of McpServers that the policy selects. Absent: not determined yet."""
    tools: int | None = Field(default=None, ge=0)
    """Number of tools of these servers that the policy's own rules allow, without the tools of `unlistedServers`.
    Absent: not determined yet."""
    conflicts: Annotated[list[PolicyConflict], Distinct(key="policy")] = Field(default=[], max_length=64)
    """Policies that contradict this policy."""
    unmatched_rules: list[Annotated[str, Field(max_length=63), BeforeValidator(str)]] = Field(
        default=[], max_length=256
    )
    """Rules that match no listed tool: the name of the rule, else its index in `spec.rules`, from 0. The condition
    `PartiallyInvalid` reports them once `unlistedServers` is empty, because they may match tools of those servers."""
    unlisted_servers: Annotated[list[Annotated[str, Field(max_length=253)]], Distinct()] = Field(
        default=[], max_length=MOST_UNLISTED
    )
    """McpServers that the policy selects and that have not listed their tools: the first 64 by name. The status of each
    such server has the reason."""

    def condition(self, type_: str) -> Condition | None:
        """The condition of a type; None if it was not reported."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


class ToolPolicy(Resource):
    """Rules that say who may see and call which tools of this namespace, in which latency tiers and within which
    limits."""

    kind_name: ClassVar[str] = "ToolPolicy"
    plural: ClassVar[str] = "toolpolicies"
    short_name: ClassVar[str] = "tp"

    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["ToolPolicy"] = "ToolPolicy"
    spec: ToolPolicySpec
    """Desired state."""
    status: ToolPolicyStatus = ToolPolicyStatus()
    """Observed state."""
