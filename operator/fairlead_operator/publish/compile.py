"""Compiles LatencyTiers and ToolPolicies into the rules document. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier, TierSelection
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSelection
from fairlead_api.v1alpha1.toolpolicy import LabelRequirement, PolicyRule, ServerSelector, ToolPolicy
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS

DEFAULT_SELECTION: Final = LatencyTierSelection()
_DEFAULT_TIER_NAMES: Final = frozenset(tier.metadata.name for tier in DEFAULT_TIERS)
"""Names of the tiers for which the gateway has built-in keywords and commands that select the tier."""


def compile_rules(
    tiers: Collection[LatencyTier],
    policies: Collection[ToolPolicy],
    labels: Mapping[ServerKey, Mapping[str, str]],
    default_action: str = "Allow",
    configured_default: str = "",
) -> Rules:
    """The rules document. Equal resources result in equal documents.

    `labels` are the labels of all McpServers. `configured_default` is the default tier in the installation's settings,
    or empty.
    """
    effective_tiers = tiers or DEFAULT_TIERS
    default = default_tier(effective_tiers, configured_default)
    compiled_tiers = [_tier(tier, default=tier.metadata.name == default) for tier in effective_tiers]
    selecting_namespaces = {policy.metadata.namespace for policy in policies if not selects_all(policy.spec.servers)}
    return Rules(
        default_action=default_action,
        tiers=tuple(sorted(compiled_tiers, key=lambda tier: tier.name)),
        policies=tuple(_policy(policy, labels) for policy in sorted(policies, key=lambda policy: policy.key)),
        judged={
            namespace: tuple(sorted(key.name for key in labels if key.namespace == namespace))
            for namespace in sorted(selecting_namespaces)
        },
    )


def default_tier(tiers: Collection[LatencyTier], configured_default: str = "") -> str | None:
    """Name of the tier for agents that name no tier: `configured_default` if it exists, or else the oldest tier with
    `default: true`. None if there is no such tier: these agents are offered every tool.
    """
    if any(tier.metadata.name == configured_default for tier in tiers):
        return configured_default
    candidates = [tier.metadata for tier in tiers if tier.spec.default]
    if not candidates:
        return None
    return min(
        candidates, key=lambda m: (m.creation_timestamp.timestamp() if m.creation_timestamp else 0.0, m.name)
    ).name


def selects(selector: ServerSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects a server with these labels. None selects every server."""
    if selector is None:
        return True
    has_labels = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return has_labels and all(_satisfies(requirement, labels) for requirement in selector.match_expressions)


def selects_all(selector: ServerSelector | None) -> bool:
    """Whether a selector selects every server, including future servers."""
    return selector is None or not (selector.match_labels or selector.match_expressions)


def _satisfies(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Whether `labels` satisfy one requirement of a selector's `matchExpressions`."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _tier(tier: LatencyTier, *, default: bool) -> Tier:
    spec = tier.spec
    return Tier(
        name=tier.metadata.name,
        max_latency_ms=spec.max_latency.milliseconds if spec.max_latency else None,
        quantile=spec.quantile,
        min_samples=spec.min_samples,
        unmeasured=spec.unmeasured,
        default=default,
        hysteresis=spec.hysteresis_percent / 100,
        call_timeout_ms=spec.call_timeout.milliseconds if spec.call_timeout else None,
        selection=_selection(tier.metadata.name, spec.selection or DEFAULT_SELECTION),
    )


def _selection(tier: str, selection: LatencyTierSelection) -> TierSelection:
    return TierSelection(
        keywords=tuple(dict.fromkeys(selection.keywords)),
        commands=tuple(dict.fromkeys(selection.commands)),
        shipped_words=selection.shipped_words and tier in _DEFAULT_TIER_NAMES,
        conversation_states=tuple(selection.conversation_states),
        queue_depth=selection.queue_depth,
        cooldown_ms=selection.cooldown.milliseconds if selection.cooldown else 0,
    )


def _policy(policy: ToolPolicy, labels: Mapping[ServerKey, Mapping[str, str]]) -> Policy:
    """The policy in the rules document, with the names of the servers that it selects."""
    spec, namespace = policy.spec, policy.metadata.namespace
    selected_names = (key.name for key in labels if key.namespace == namespace and selects(spec.servers, labels[key]))
    return Policy(
        namespace=namespace,
        name=policy.metadata.name,
        servers=tuple(sorted(selected_names)),
        every=selects_all(spec.servers),
        subjects=tuple(
            Subject(kind=s.kind, name=s.name, namespace=s.namespace, value=s.value, issuer=s.issuer)
            for s in spec.subjects or ()
        ),
        rules=tuple(_rule(rule) for rule in spec.rules),
        default_tier=spec.tiers.default if spec.tiers else None,
        max_tier=spec.tiers.max if spec.tiers else None,
        limits=PolicyLimits(
            max_tools=spec.limits.max_tools,
            tool_tokens=spec.limits.tool_tokens,
            calls_per_minute=spec.limits.calls_per_minute,
            concurrency=spec.limits.concurrency,
            result_tokens=spec.limits.result_tokens,
            tokens_per_day=spec.limits.tokens_per_day,
        )
        if spec.limits
        else PolicyLimits(),
        pinned=tuple(spec.pinned),
        denied=spec.denied,
        control_characters=spec.control_characters,
        auto_run=spec.auto_run,
    )


def _rule(rule: PolicyRule) -> Rule:
    return Rule(
        action=rule.action,
        tools=tuple(rule.tools),
        tags=tuple(rule.tags),
        categories=tuple(rule.categories),
        annotations=rule.annotations.to_wire() if rule.annotations else {},
        arguments=rule.arguments,
        min_tier=rule.min_tier,
        name=rule.name,
    )
