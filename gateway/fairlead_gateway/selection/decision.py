"""One decision in full: whether a rule set may call a tool, by which rule, and within which bounds.

Pure module, for whoever has to say why. What lists and calls go by is the same, kept per rule set.
"""

from __future__ import annotations

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.selection.policy import Policies, RuleSet, Share


class Decision(msgspec.Struct, frozen=True):
    """See the module."""

    allowed: bool
    reason: str
    told: bool = False
    """Whether whoever asks may know the reason of a refusal."""
    policy: str | None = None
    """`namespace/name` of the policy whose rule decided."""
    rule: int | None = None
    max_tier: str | None = None
    share: Share | None = None
    policies: tuple[str, ...] = ()
    """All that speak of the asker."""


def decide(policies: Policies, rules: RuleSet, server: ServerKey, tool: str) -> Decision:
    """About a tool that exists."""
    rules.work_out()
    found = policies.verdict(server, tool, rules.key)
    if found is None:
        raise KeyError(f"{server}/{tool}")
    by = found.by
    return Decision(
        allowed=found.allowed,
        reason=policies.sentence(found),
        told=rules.explains(server),
        policy=policies.name(by.policy) if by is not None else None,
        rule=by.rule if by is not None else None,
        max_tier=rules.tiers(server).max,
        share=rules.shares.get(server.namespace),
        policies=rules.names,
    )
