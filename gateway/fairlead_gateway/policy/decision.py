"""Explains one policy decision: whether a rule set may call a tool, by which rule, and within which limits.

Pure module. Lists and calls use the same decision, which is computed once per rule set.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    discloses_reason: bool = False
    """Whether the reason may be disclosed to the subject."""
    policy: str | None = None
    """`namespace/name` of the policy whose rule decided."""
    rule: int | None = None
    """Index of the deciding rule in the policy, from 0."""
    rule_name: str | None = None
    max_tier: str | None = None
    """The slowest tier that policies allow at the server; None if they allow any tier."""
    quota: Quota | None = None
    """Quota in the namespace of the server; None without limits."""
    policies: tuple[str, ...] = ()
    """Names of the policies that select the server or set limits of the server's namespace for this subject."""


def decide(policies: Policies, rules: RuleSet, server: ServerKey, tool: str) -> Decision:
    """Decide about one tool. Raises KeyError if the tool does not exist."""
    rules.merge()
    verdict = policies.verdict(server, tool, rules.key)
    if verdict is None:
        raise KeyError(f"{server}/{tool}")
    deciding_rule = verdict.by
    return Decision(
        allowed=verdict.allowed,
        reason=policies.sentence(verdict),
        discloses_reason=rules.explains(server),
        policy=policies.name(deciding_rule.policy) if deciding_rule is not None else None,
        rule=deciding_rule.rule if deciding_rule is not None else None,
        rule_name=policies.rule(deciding_rule).name if deciding_rule is not None else None,
        max_tier=rules.tiers(server).max,
        quota=rules.quotas.get(server.namespace),
        policies=tuple(_policy_names(policies, rules, server)),
    )


def _policy_names(policies: Policies, rules: RuleSet, server: ServerKey) -> Iterator[str]:
    """Names of the rule set's policies that select a server, or that set a limit of the server's namespace. Such a
    limit counts for all servers of the namespace.
    """
    namespace_policies, quota = policies.of_namespace(server.namespace), rules.quotas.get(server.namespace)
    limiting_policies = frozenset(quota.policies.values()) if quota is not None else frozenset()
    for index in rules.key:
        policy = namespace_policies.get(index if index >= 0 else ~index)
        if policy is not None and (selects(policy, server.name) or policies.name(index) in limiting_policies):
            yield policies.name(index)


Denial: TypeAlias = tuple[ServerKey, str, str]
"""Server and tool of a denied call, and the reason as a sentence."""


def denial(selection: Selection, identity: Identity, view: View, name: str) -> Denial | None:
    """Why the tool called `name` is not in a view: its server, its name at the server, and the reason. None if there is
    no such tool, or if policies do not deny it.
    """
    policies, server_and_tool = selection.policies, _find_tool(selection.snapshot, view.base, name)
    if server_and_tool is None or not policies.enforced:
        return None
    key, tool = server_and_tool
    decision = decide(policies, selection.views_of(identity).rules, key, tool)
    return None if decision.allowed else (key, tool, decision.reason)


def _find_tool(snapshot: Snapshot, target: bytes, name: str) -> tuple[ServerKey, str] | None:
    """Server of the tool that an endpoint would list as `name` without policies, and the tool's name at the server;
    None if there is no such tool."""
    if target == MERGED:
        merged_tool = snapshot.merged.get(name)
        return None if merged_tool is None else (merged_tool[0].key, merged_tool[1].name)
    for key, server in snapshot.servers.items():
        if server_target(key) == target:
            return next(((key, tool.name) for tool in server.tools if tool.shown_name == name), None)
    return None


class _UnlistedTool(msgspec.Struct, frozen=True):
    """A tool of which only the name in a call is known, because its server has no catalog yet."""

    name: str
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    definition: bytes = b"{}"


def allows_unready(policies: Policies, rules: tuple[int, ...], server: ServerKey, tool: str | None = None) -> bool:
    """Whether a rule set may see a server without a catalog. Policies treat it like a server without tools.
    With `tool`: whether the policies would allow a call of a tool of that name.
    """
    if not policies.enforced:
        return True
    namespace_policies = policies.of_namespace(server.namespace)
    judged = policies.rules.judged.get(server.namespace)
    if judged is not None and server.name not in judged:
        return False  # the operator has not yet matched the server against the selectors of policies
    if not any(selects(policy, server.name) for policy in namespace_policies.values()):
        return policies.allow_by_default
    tools = () if tool is None else (_UnlistedTool(tool),)
    index, subject_rules = ToolIndex([IndexedServer(server.name, tools, trusted=False)]), frozenset(rules)
    allow = policies.allow_by_default
    if tool is None:
        return server.name in merge_policies(index, namespace_policies, subject_rules, allow_by_default=allow).bare
    return verdict(index, namespace_policies, subject_rules, 0, allow_by_default=allow).allowed
