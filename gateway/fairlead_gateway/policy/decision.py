"""One decision in full: whether a rule set may call a tool, by which rule, and within which bounds.

Pure module. It explains the decision that lists and calls go by, which is kept per rule set.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_api.policies.index import IndexedServer, ToolIndex
from fairlead_api.policies.merge import merge_policies, selects, verdict
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.policy.rules import Policies, RuleSet
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import MERGED, View, server_target


class Decision(msgspec.Struct, frozen=True):
    """Whether a rule set may call a tool, and why."""

    allowed: bool
    reason: str
    told: bool = False
    """Whether the subject may know the reason of a refusal."""
    policy: str | None = None
    """`namespace/name` of the policy whose rule decided."""
    rule: int | None = None
    rule_name: str | None = None
    max_tier: str | None = None
    quota: Quota | None = None
    policies: tuple[str, ...] = ()
    """All that speak of the asker."""


def decide(policies: Policies, rules: RuleSet, server: ServerKey, tool: str) -> Decision:
    """About a tool that exists."""
    rules.work_out()
    verdict = policies.verdict(server, tool, rules.key)
    if verdict is None:
        raise KeyError(f"{server}/{tool}")
    by = verdict.by
    return Decision(
        allowed=verdict.allowed,
        reason=policies.sentence(verdict),
        told=rules.explains(server),
        policy=policies.name(by.policy) if by is not None else None,
        rule=by.rule if by is not None else None,
        rule_name=policies.rule(by).name if by is not None else None,
        max_tier=rules.tiers(server).max,
        quota=rules.quotas.get(server.namespace),
        policies=rules.names,
    )


Denial: TypeAlias = tuple[ServerKey, str, str]
"""Server, tool and the sentence of the policy that keeps it from an asker."""


def denial(selection: Selection, identity: Identity, view: View, name: str) -> Denial | None:
    """Server, tool and the sentence of the policy, of a tool that is kept from an asker who calls it by a name that
    `view` does not show; None where there is no such tool, or no policy is the reason.
    """
    policies, named_tool = selection.policies, _find_named(selection.snapshot, view.base, name)
    if named_tool is None or not policies.enforced:
        return None
    key, tool = named_tool
    decision = decide(policies, selection.views_of(identity).rules, key, tool)
    return None if decision.allowed else (key, tool, decision.reason)


def _find_named(snapshot: Snapshot, target: bytes, name: str) -> tuple[ServerKey, str] | None:
    """Server and own name of a tool that a target shows to somebody; None where there is none."""
    if target == MERGED:
        held = snapshot.merged.get(name)
        return None if held is None else (held[0].key, held[1].name)
    for key, server in snapshot.servers.items():
        if server_target(key) == target:
            return (key, name) if any(tool.name == name for tool in server.tools) else None
    return None


class _Foreseen(msgspec.Struct, frozen=True):
    """A tool of which a call says the name alone."""

    name: str
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    definition: bytes = b"{}"


def foreseen(policies: Policies, rules: tuple[int, ...], server: ServerKey, tool: str | None = None) -> bool:
    """Whether a rule set may know of a server that has no catalog yet: as of one that lists no tools. With `tool`,
    whether it might call a tool of that name there.
    """
    if not policies.enforced:
        return True
    own, judged = policies.of_namespace(server.namespace), policies.rules.judged.get(server.namespace)
    if judged is not None and server.name not in judged:
        return False  # a selector that was not asked about it yet may select it
    if not any(selects(policy, server.name) for policy in own.values()):
        return policies.allow_by_default
    tools = () if tool is None else (_Foreseen(tool),)
    index, speaking = ToolIndex([IndexedServer(server.name, tools, trusted=False)]), frozenset(rules)
    allow = policies.allow_by_default
    if tool is None:
        return server.name in merge_policies(index, own, speaking, allow_by_default=allow).bare
    return verdict(index, own, speaking, 0, allow_by_default=allow).allowed
