"""Reviews each ToolPolicy: which servers it selects, which tools it matches, and which other policies contradict it.

Pure. Rules are matched by the gateway's own index, so that the review agrees with the tools that agents are offered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema_rs
import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Policy, PolicyLimits, Rules
from fairlead_api.meta import ServerKey
from fairlead_api.policies.index import IndexedServer, ToolIndex, hints_alone
from fairlead_api.policies.merge import ALLOW, DENY, selected_by, selects
from fairlead_api.policies.subjects import ANY, AUTHENTICATED, key_of
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.toolpolicy import MOST_UNLISTED, PolicyConflict
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.publish.argument_keywords import find_unknown_keywords

MAX_CONFLICTS: Final = 64
MESSAGE_LIMIT: Final = 1024
_MAX_EXAMPLES: Final = 3
_LIMITS: Final = {
    "max_tools": "maxTools",
    "tool_tokens": "toolTokens",
    "calls_per_minute": "callsPerMinute",
    "concurrency": "concurrency",
    "result_tokens": "resultTokens",
    "tokens_per_day": "tokensPerDay",
}


IN_FORCE: Final = ConditionVerdict(True, Cause.ACCEPTED, "in force")


@dataclass(frozen=True)
class Review:
    """Result of the review of one ToolPolicy, from which its status is built."""

    accepted: ConditionVerdict
    servers: int
    """Number of selected servers."""
    tools: int | None
    """Number of tools that the policy allows; None while a selected server was not reconciled yet."""
    unmatched_rules: tuple[str, ...] | None
    """Names or indexes of rules that match no listed tool; None while a selected server was not reconciled yet."""
    unlisted_servers: tuple[str, ...] | None = ()
    """Selected servers that were reconciled and have not listed tools; None while a selected server was not reconciled
    yet.
    """
    conflicts: tuple[PolicyConflict, ...] = ()
    partially_invalid: ConditionVerdict | None = None
    """Verdict about parts of the spec without effect; None if all parts have an effect."""

    @property
    def conflict_verdict(self) -> ConditionVerdict | None:
        """Verdict Conflicted; None if no other policy contradicts this policy."""
        if not self.conflicts:
            return None
        names = ", ".join(conflict.policy for conflict in self.conflicts)
        return ConditionVerdict(True, Cause.CONFLICTED, f"in force, but other policies contradict it: {names}")

    @property
    def warnings(self) -> tuple[ConditionVerdict, ...]:
        """The verdicts that users should be warned about."""
        verdicts = (None if self.accepted.ok else self.accepted, self.partially_invalid, self.conflict_verdict)
        return tuple(verdict for verdict in verdicts if verdict is not None)


class SelectableTool(msgspec.Struct, frozen=True):
    """The members of a tool that rules select by; implements `policies.index.Listed`."""

    name: str
    tags: tuple[str, ...]
    categories: tuple[str, ...]
    definition: bytes
    """Only the annotations of the definition: `{"annotations": …}`, or `{}`."""


def selectable_tools(catalog: Catalog) -> IndexedServer:
    """A server's tools for the review of policies, which takes far less memory than the whole catalog."""
    tools = tuple(
        SelectableTool(tool.name, tool.tags, tool.categories, hints_alone(bytes(tool.shown_definition)))
        for tool in catalog.tools
        if tool.enabled
    )
    return IndexedServer(catalog.name, tools, catalog.trust_annotations)


@dataclass
class _Namespace:
    """The policies and servers of one namespace, with the listed tools of the servers."""

    servers: tuple[str, ...]
    policies: list[Policy] = field(default_factory=list)
    listed_servers: dict[str, IndexedServer] = field(default_factory=dict)
    """Tools of each server that has listed any, by server name."""
    unlisted_names: Collection[str] = ()
    """Servers that were reconciled and have not listed their tools."""

    def index(self) -> ToolIndex:
        """Index of the listed tools, against which rules are matched."""
        return ToolIndex(server for _, server in sorted(self.listed_servers.items()))

    def trusting_index(self) -> ToolIndex:
        """Like `index`, as if the annotations of every server were trusted."""
        return ToolIndex(
            msgspec.structs.replace(server, trusted=True) for _, server in sorted(self.listed_servers.items())
        )


def review(
    rules: Rules,
    servers: Collection[ServerKey],
    listed: Mapping[ServerKey, IndexedServer],
    unlisted: Collection[ServerKey] = (),
) -> dict[ServerKey, Review]:
    """Review every policy of the rules; the result is by namespace and name.

    `servers` are all existing servers, `listed` the tools of each server that has listed any (see `selectable_tools`),
    and `unlisted` the servers that were reconciled and have not listed tools.
    """
    namespaces = {policy.namespace: _Namespace(()) for policy in rules.policies}
    for name, namespace in namespaces.items():
        namespace.servers = tuple(key.name for key in servers if key.namespace == name)
        namespace.unlisted_names = {key.name for key in unlisted if key.namespace == name}
    for policy in rules.policies:
        namespaces[policy.namespace].policies.append(policy)
    for key, indexed_server in listed.items():
        if key.namespace in namespaces and key.name in namespaces[key.namespace].servers:
            namespaces[key.namespace].listed_servers[key.name] = indexed_server
    tiers = {tier.name: tier.max_latency_ms or float("inf") for tier in rules.tiers}
    reviews = {}
    for name, namespace in namespaces.items():
        index = namespace.index()
        uses_annotations = any(rule.annotations for policy in namespace.policies for rule in policy.rules)
        are_all_trusted = all(server.trusted for server in namespace.listed_servers.values())
        trusting_index = namespace.trusting_index() if uses_annotations and not are_all_trusted else index
        for policy in namespace.policies:
            reviews[ServerKey(name, policy.name)] = _review(policy, namespace, index, trusting_index, tiers)
    return reviews


def _review(
    policy: Policy, namespace: _Namespace, index: ToolIndex, trusting_index: ToolIndex, tiers: Mapping[str, float]
) -> Review:
    """Review one policy. `tiers` are the limits of the existing tiers in milliseconds, by name; `trusting_index` is the
    index with every server trusted.
    """
    selected_servers = [name for name in namespace.servers if selects(policy, name)]
    selected_bits = selected_by(index, policy)  # bits of all tools of the selected servers
    bits_by_rule = [index.matching_bits(rule) & selected_bits for rule in policy.rules]
    unlisted_servers = tuple(sorted(name for name in selected_servers if name not in namespace.listed_servers))
    is_complete = all(name in namespace.unlisted_names for name in unlisted_servers)
    unmatched_rules = tuple(policy.rules[number].label(number) for number, bits in enumerate(bits_by_rule) if not bits)
    conflicts = _conflicts(policy, namespace.policies, index)
    allowed_bits = _union(policy, bits_by_rule, ALLOW) & ~_union(policy, bits_by_rule, DENY)
    # rules and pins without a match are reported only after all servers have listed; a prefix is wrong in any case
    partially_invalid = _partially_invalid(
        policy,
        selected_servers,
        () if unlisted_servers else unmatched_rules,
        _prefixed_patterns(
            policy, bits_by_rule, [name for name in selected_servers if name in namespace.listed_servers]
        ),
        () if unlisted_servers else _idle_pins(policy, index, selected_bits),
        _untrusted_hints(policy, index, trusting_index, selected_bits),
        tiers,
    )
    return Review(
        accepted=IN_FORCE,
        servers=len(selected_servers),
        tools=allowed_bits.bit_count() if is_complete else None,
        unmatched_rules=unmatched_rules if is_complete else None,
        unlisted_servers=unlisted_servers[:MOST_UNLISTED] if is_complete else None,
        conflicts=conflicts,
        partially_invalid=partially_invalid,
    )


def _partially_invalid(
    policy: Policy,
    selected_servers: Sequence[str],
    unmatched_rules: Sequence[str],
    prefixed_patterns: Sequence[str],
    idle_pins: Sequence[str],
    untrusted_hints: Sequence[str],
    tiers: Mapping[str, float],
) -> ConditionVerdict | None:
    """Verdict about the parts of a policy without effect. Its message names all faults, its cause is the cause of the
    worst fault.
    """
    faults_by_cause: list[tuple[Cause, str]] = []
    faults = [
        f"rules[{rule.label(number)}].arguments is not a usable JSON Schema, so the rule allows nothing: {fault}"
        for number, rule in enumerate(policy.rules)
        if rule.arguments is not None and (fault := _schema_fault(rule.arguments)) is not None
    ]
    faults_by_cause += [(Cause.RULE_INVALID, fault) for fault in faults]
    unknown_keywords = [
        f"rules[{rule.label(number)}].arguments: keywords that JSON Schema does not have restrict nothing: {names}"
        for number, rule in enumerate(policy.rules)
        if rule.arguments is not None and (names := ", ".join(find_unknown_keywords(rule.arguments)))
    ]
    faults_by_cause += [(Cause.UNKNOWN_KEYWORD, sentence) for sentence in unknown_keywords]
    unknown_tiers = [
        f"tiers.{member}: LatencyTier {name} does not exist, so {effect}"
        for member, name, effect in (
            ("default", policy.default_tier, "it has no effect"),
            ("max", policy.max_tier, "only the fastest tier is allowed"),
        )
        if name is not None and name not in tiers
    ]
    unknown_tiers += [
        f"rules[{rule.label(number)}].minTier: LatencyTier {rule.min_tier} does not exist, so only the slowest tier "
        "shows its tools"
        for number, rule in enumerate(policy.rules)
        if rule.min_tier is not None and rule.min_tier not in tiers
    ]
    faults_by_cause += [(Cause.UNKNOWN_TIER, tier) for tier in unknown_tiers]
    default, max_tier = policy.default_tier, policy.max_tier
    if default is not None and max_tier is not None and tiers.get(default, 0) > tiers.get(max_tier, float("inf")):
        sentence = (
            f"tiers.default: LatencyTier {default} is slower than {max_tier}, tiers.max, so {max_tier} applies instead"
        )
        faults_by_cause.append((Cause.DEFAULT_BEYOND_MAX, sentence))
    faults_by_cause += [(Cause.HINTS_NOT_TRUSTED, sentence) for sentence in untrusted_hints]
    if not selected_servers:
        faults_by_cause.append((Cause.NOTHING_SELECTED, "the policy selects no McpServer of its namespace"))
    elif unmatched_rules:
        # an unnamed rule is shown as rules[0], because "0" would read as "none"
        names = ", ".join(f"rules[{name}]" if name.isdecimal() else name for name in unmatched_rules)
        faults_by_cause.append((Cause.RULES_MATCH_NOTHING, f"rules that match no tool: {names}"))
    faults_by_cause += [(Cause.RULES_MATCH_NOTHING, sentence) for sentence in prefixed_patterns]
    if selected_servers and idle_pins:
        faults_by_cause.append((Cause.PINS_MATCH_NOTHING, f"pinned names that match no tool: {', '.join(idle_pins)}"))
    if not faults_by_cause:
        return None
    return ConditionVerdict(True, faults_by_cause[0][0], "; ".join(text for _, text in faults_by_cause))


def _untrusted_hints(
    policy: Policy, index: ToolIndex, trusting_index: ToolIndex, selected_bits: int
) -> tuple[str, ...]:
    """A sentence for each rule that would match other tools if the annotations of all selected servers were trusted."""
    if trusting_index is index:
        return ()
    sentences = []
    for number, rule in enumerate(policy.rules):
        if rule.annotations and (
            bits := (index.matching_bits(rule) ^ trusting_index.matching_bits(rule)) & selected_bits
        ):
            servers = sorted({server for server, _ in index.select(bits, index.refs)})
            more = f" and {len(servers) - _MAX_EXAMPLES} more" if len(servers) > _MAX_EXAMPLES else ""
            sentences.append(
                f"rules[{rule.label(number)}].annotations: hints of {', '.join(servers[:_MAX_EXAMPLES])}{more} do not "
                "count without trustAnnotations: true; MCP's defaults apply instead"
            )
    return tuple(sentences)


def _prefixed_patterns(policy: Policy, bits_by_rule: Sequence[int], listed_servers: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each pattern that matches no tool because it begins with the server's prefix, which tools have at
    the gateway only. `bits_by_rule` are the tools of each rule, `listed_servers` the selected servers that have listed
    tools.
    """
    sentences = []
    for number, (rule, bits) in enumerate(zip(policy.rules, bits_by_rule, strict=True)):
        for pattern in () if bits else rule.tools:
            server, _, own_name = pattern.partition("__")
            if own_name and server in listed_servers:
                sentences.append(
                    f"rules[{rule.label(number)}].tools: {pattern} matches no tool: rules name a tool as its server "
                    f"does, without prefix: {own_name}"
                )
    return tuple(sentences[:_MAX_EXAMPLES])


def _idle_pins(policy: Policy, index: ToolIndex, selected_bits: int) -> tuple[str, ...]:
    """Up to three globs of `pinned` that match no tool of the selected servers."""
    return tuple(glob for glob in policy.pinned if not index.match((glob,)) & selected_bits)[:_MAX_EXAMPLES]


def _schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why the gateway's validator, whose patterns do not backtrack, rejects a schema; None if it accepts the schema."""
    try:
        jsonschema_rs.validator_for(
            dict(schema),
            offline=True,
            validate_formats=False,
            ignore_unknown_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (jsonschema_rs.ValidationError, ValueError, RecursionError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return None


def _union(policy: Policy, bits_by_rule: Sequence[int], action: str) -> int:
    """Bits of all tools that the rules with this action match."""
    bits = 0
    for rule, rule_bits in zip(policy.rules, bits_by_rule, strict=True):
        if rule.action == action:
            bits |= rule_bits
    return bits


def _conflicts(policy: Policy, other_policies: Sequence[Policy], index: ToolIndex) -> tuple[PolicyConflict, ...]:
    """The other policies that contradict a policy for a common subject."""
    conflicts = []
    for other in other_policies:
        if other is not policy and _share_subjects(policy, other):
            sentences = [*_tool_conflicts(policy, other, index), *_limit_conflicts(policy, other)]
            if sentences:
                conflicts.append(PolicyConflict(policy=other.name, message="; ".join(sentences)[:MESSAGE_LIMIT]))
    return tuple(conflicts[:MAX_CONFLICTS])


def _share_subjects(first: Policy, second: Policy) -> bool:
    """Whether some principal is certainly a subject of both policies. Memberships in groups are not known here."""
    subjects, other_subjects = (
        {key_of(s, policy.namespace) for s in policy.subjects} or {(ANY,)} for policy in (first, second)
    )
    if (ANY,) in subjects or (ANY,) in other_subjects or subjects & other_subjects:
        return True
    return (AUTHENTICATED,) in subjects or (AUTHENTICATED,) in other_subjects


def _tool_conflicts(policy: Policy, other_policy: Policy, index: ToolIndex) -> Iterable[str]:
    """Sentences about tools that one policy allows and the other denies, or whose arguments only one policy
    restricts.
    """
    common_bits = selected_by(index, policy) & selected_by(index, other_policy)
    sides = []
    for side in (policy, other_policy):
        bits_by_rule = [index.matching_bits(rule) & common_bits for rule in side.rules]
        unrestricted_bits = [
            bits if rule.arguments is None else 0 for rule, bits in zip(side.rules, bits_by_rule, strict=True)
        ]
        sides.append(
            (
                _union(side, bits_by_rule, ALLOW),
                _union(side, bits_by_rule, DENY),
                _union(side, unrestricted_bits, ALLOW),
            )
        )
    (allows, denies, allows_freely), (they_allow, they_deny, they_allow_freely) = sides
    if bits := allows & ~denies & they_deny:
        yield f"that policy denies {_names(index, bits)}, which this policy allows: calls are denied"
    if bits := denies & they_allow & ~they_deny:
        yield f"that policy allows {_names(index, bits)}, which this policy denies: calls are denied"
    if bits := allows & ~allows_freely & they_allow_freely & ~denies & ~they_deny:
        yield (
            f"that policy allows {_names(index, bits)} with any arguments, which this policy restricts: "
            "any arguments are allowed"
        )


def _limit_conflicts(policy: Policy, other_policy: Policy) -> Iterable[str]:
    """Sentences about limits and tiers for which the two policies have different values."""
    for member in PolicyLimits.__struct_fields__:
        mine, theirs = getattr(policy.limits, member), getattr(other_policy.limits, member)
        if mine is not None and theirs is not None and mine != theirs:
            yield (
                f"limits.{_LIMITS[member]} of that policy is {theirs}, of this policy {mine}: "
                f"{min(mine, theirs)} applies"
            )
    for member, mine, theirs in (
        ("default", policy.default_tier, other_policy.default_tier),
        ("max", policy.max_tier, other_policy.max_tier),
    ):
        if mine is not None and theirs is not None and mine != theirs:
            yield f"tiers.{member} of that policy is {theirs}, of this policy {mine}: the faster tier applies"


def _names(index: ToolIndex, bits: int) -> str:
    """Up to three names of the tools whose bits are set, and the number of further tools."""
    names = [f"{server}/{tool}" for server, tool in index.select(bits, index.refs)]
    more = f" and {len(names) - _MAX_EXAMPLES} more" if len(names) > _MAX_EXAMPLES else ""
    return ", ".join(names[:_MAX_EXAMPLES]) + more
