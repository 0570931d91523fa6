"""Merges the ToolPolicies of one namespace into the tools that each subject sees and may call. This module has no I/O.

A server is *selected* when any policy of its namespace selects it, for any subject. Servers that no policy selects
follow the installation's default. A tool of a selected server is shown to a caller if a rule allows it and no rule
denies it. Only rules of policies that select the server and apply to the caller count. If no such policy applies to the
caller, no tool of the server is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule
from fairlead_api.policies.index import READ_ONLY, ToolIndex
from fairlead_api.slices import finish

ALLOW: Final = "Allow"
DENY: Final = "Deny"
EXPLAIN: Final = "Explain"
ESCAPE: Final = "Escape"
HIDE: Final = "Hide"
ALL: Final = "All"
_NOTHING: Final = ""
"""Action of a rule that neither allows nor denies."""

Policies = Mapping[int, Policy]
"""The policies of one namespace. The key is the policy's position among all policies of the installation."""
Why = Literal["Default", "Rule", "NothingAllows", "NotSpokenOf", "NotJudged"]
"""Ground of a verdict: no policy selects the server; a rule matches the tool; no rule of the caller's policies allows
the tool; no selecting policy applies to the caller; the server is newer than the rules.
"""


class RuleRef(msgspec.Struct, frozen=True, order=True):
    """One rule: the position of its policy among all policies, and the rule's position within the policy."""

    policy: int
    rule: int


class Verdict(msgspec.Struct, frozen=True):
    """Decision about one tool, with the rule and the policies from which it follows."""

    allowed: bool
    why: Why
    by: RuleRef | None = None
    """The rule that decided. In order of precedence: the first rule that denies, the first rule that allows any
    arguments, the first rule that allows some arguments.
    """
    policies: tuple[int, ...] = ()
    """Positions of the policies that select the server. For `NothingAllows`, only the policies that also apply to the
    caller; `~position` stands for a policy that only restricts the caller.
    """


class ServerTiers(msgspec.Struct, frozen=True):
    """Names of the default and of the slowest latency tier for one server, and the positions of the policies that set
    them.
    """

    default: str | None = None
    max: str | None = None
    default_by: int | None = None
    max_by: int | None = None


class Merged(msgspec.Struct, frozen=True):
    """Effective policy of one namespace for one set of subjects. Bit sets number tools as the `ToolIndex` does."""

    visible: int
    """Tools that are shown and may be called."""
    free: int
    """Visible tools that may be called with any arguments."""
    constrained: tuple[tuple[int, RuleRef], ...] = ()
    """Rules that allow certain arguments only. Each has the bits of the visible tools that it allows and that are not
    `free`."""
    pinned: int = 0
    """Visible tools that stay listed when a budget is exceeded."""
    limits: PolicyLimits = PolicyLimits()
    """Limits of the subjects. Each limit applies to all servers of the namespace together."""
    limited_by: Mapping[str, int] = {}
    """Position of the policy that sets a limit, by name of the limit."""
    tiers: Mapping[str, ServerTiers] = {}
    """Tiers by server, for servers whose policies set tiers."""
    explaining: frozenset[str] = frozenset()
    """Servers whose denied calls are answered with the reason."""
    escaped_servers: frozenset[str] = frozenset()
    """Servers in whose texts control characters are made visible. One applicable policy with `Escape` is enough."""
    floors: tuple[tuple[int, str], ...] = ()
    """Visible tools with a tier floor, and the name of the fastest tier that shows them. Each tool occurs once."""
    manual: tuple[tuple[int, int], ...] = ()
    """Visible tools that the gateway's model endpoints must not run by themselves, and the position of the policy that
    forbids it. Each tool occurs once; tools of `autoRun: None` come first.
    """
    bare: frozenset[str] = frozenset()
    """Selected servers for which a rule allows every tool: such a server is shown even if it has no tools."""


def merge_policies(
    index: ToolIndex,
    policies: Policies,
    applying: Collection[int],
    *,
    allow_by_default: bool,
    ranks: Mapping[str, int] | None = None,
    unjudged: Iterable[str] = (),
) -> Merged:
    """Merge without interruption; parameters as in `merge_in_steps`."""
    work = merge_in_steps(index, policies, applying, allow_by_default=allow_by_default, ranks=ranks, unjudged=unjudged)
    return finish(work)


def merge_in_steps(
    index: ToolIndex,
    policies: Policies,
    applying: Collection[int],
    *,
    allow_by_default: bool,
    ranks: Mapping[str, int] | None = None,
    unjudged: Iterable[str] = (),
) -> Generator[None, None, Merged]:
    """Merge in steps of less than a millisecond each. The generator yields between steps.

    `applying` has the positions of the policies that apply to the subject, and `~position` for policies that only
    restrict it. `ranks` numbers tiers; the fastest tier has the lowest number. `unjudged` names servers that are newer
    than the rules: a policy may select them, so their tools are hidden.
    """
    selected = index.of_servers(unjudged)
    for policy in policies.values():
        selected |= selected_by(index, policy)
    allowed = denied = free = pinned = 0
    constrained = []
    floors = _Floors(ranks or {})
    applied = applicable_policies(policies, applying)
    for position, policy in applied.items():
        reach = selected_by(index, policy)
        pinned |= index.match(policy.pinned) & reach
        allowing = []
        for number, rule in enumerate(policy.rules):
            bits = index.matching_bits(rule) & reach
            yield
            if rule.action != DENY:
                allowing.append((bits, rule))
            if rule.action == DENY:
                denied |= bits
            elif rule.action != ALLOW:
                continue
            elif rule.arguments is None:
                free |= bits
            else:
                allowed |= bits
                constrained.append((bits, RuleRef(position, number)))
        floors.add(allowing)
    closed = index.of_servers(unjudged) | denied
    unselected = index.all & ~selected if allow_by_default else 0
    free = (free & ~closed) | unselected
    visible = (allowed & ~closed) | free
    limits, limited_by = _limits(applied)
    yield
    bounded = [(bits & visible & ~free, ref) for bits, ref in constrained]
    return Merged(
        visible,
        free,
        tuple((bits, ref) for bits, ref in bounded if bits),
        pinned & visible,
        limits,
        limited_by,
        _tiers(index, applied, ranks or {}),
        _explaining(index, applied),
        _escaped_servers(index, applied),
        floors.of(visible),
        _manual_tools(index, applied, visible),
        _bare(index, applied),
    )


def verdict(
    index: ToolIndex,
    policies: Policies,
    applying: Collection[int],
    at: int,
    *,
    allow_by_default: bool,
    unjudged: Collection[str] = (),
) -> Verdict:
    """Decision whether the tool at position `at` of the index is among the visible tools of `Merged`, and why."""
    server, bit = index.refs[at][0], 1 << at
    if server in unjudged:
        return Verdict(False, "NotJudged")
    selecting = tuple(position for position, policy in policies.items() if selected_by(index, policy) & bit)
    if not selecting:
        return Verdict(allow_by_default, "Default")
    applied_policies = {
        position: policy
        for position, policy in applicable_policies(policies, applying).items()
        if position in selecting
    }
    applied = tuple(position if position in applying else ~position for position in applied_policies)
    if not applied:
        return Verdict(False, "NotSpokenOf", policies=selecting)
    allowing: list[tuple[bool, RuleRef]] = []
    for position, policy in applied_policies.items():
        for number, rule in enumerate(policy.rules):
            if not index.matching_bits(rule) & bit:
                continue
            if rule.action == DENY:
                return Verdict(False, "Rule", RuleRef(position, number), selecting)
            if rule.action == ALLOW:
                allowing.append((rule.arguments is not None, RuleRef(position, number)))
    if allowing:
        return Verdict(True, "Rule", min(allowing)[1], selecting)
    return Verdict(False, "NothingAllows", policies=applied)


def applicable_policies(policies: Policies, applying: Collection[int]) -> dict[int, Policy]:
    """The policies that apply to a subject, by position. `~position` in `applying` marks a policy that only
    restricts.
    """
    return {
        position: policy if position in applying else restrict(policy)
        for position, policy in policies.items()
        if position in applying or ~position in applying
    }


def restrict(policy: Policy) -> Policy:
    """The policy reduced to what it denies and limits.

    The reduced policy applies to a principal that has the name of a subject, while the name may come from another
    issuer than the policy's author meant.
    """
    rules = tuple(
        rule if rule.action == DENY else msgspec.structs.replace(rule, action=_NOTHING) for rule in policy.rules
    )
    return msgspec.structs.replace(policy, rules=rules, default_tier=None, pinned=(), denied=HIDE)


def selected_by(index: ToolIndex, policy: Policy) -> int:
    """Bits of the tools of the servers that a policy selects."""
    return index.all if policy.every else index.of_servers(policy.servers)


def selects(policy: Policy, server: str) -> bool:
    """Whether a policy selects a server of its namespace."""
    return policy.every or server in policy.servers


class _Floors:
    """Tier floors of tools, as bit sets. Within one policy, the fastest floor of the rules that allow a tool counts. If
    several policies set a floor, the slowest of their floors counts. A tier that does not exist ranks slower than all
    others, because it was meant as a bound.
    """

    def __init__(self, ranks: Mapping[str, int]) -> None:
        self._ranks = ranks
        self._slowest: dict[str, int] = {}
        """Bits of the tools for which some policy sets a tier as the floor, by name of the tier."""

    def add(self, rules: Sequence[tuple[int, Rule]]) -> None:
        """Add one policy's rules that do not deny, each with the tools that it matches. A rule with `arguments` counts
        only for tools that no rule without `arguments` allows. Among such rules the slowest floor counts: a rule that a
        call may not satisfy must not lower the floor.
        """
        if all(rule.min_tier is None for _, rule in rules):
            return
        free = [(bits, rule.min_tier) for bits, rule in rules if rule.arguments is None]
        bounded = [(bits, rule.min_tier) for bits, rule in rules if rule.arguments is not None]
        taken = 0
        for bits, tier in (*sorted(free, key=self._rank), *sorted(bounded, key=self._rank, reverse=True)):
            if tier is not None:
                self._slowest[tier] = self._slowest.get(tier, 0) | bits & ~taken
            taken |= bits

    def of(self, visible: int) -> tuple[tuple[int, str], ...]:
        """Floors of the visible tools, the slowest first."""
        floors, taken = [], 0
        for tier, bits in sorted(self._slowest.items(), key=lambda each: self._rank((each[1], each[0])), reverse=True):
            tools = bits & visible & ~taken
            taken |= tools
            if tools:
                floors.append((tools, tier))
        return tuple(floors)

    def _rank(self, each: tuple[int, str | None]) -> tuple[int, str]:
        tier = each[1]
        return (-1, "") if tier is None else (self._ranks.get(tier, len(self._ranks)), tier)


def _limits(applied: Policies) -> tuple[PolicyLimits, dict[str, int]]:
    """The smallest value of each limit, and the position of the policy that sets it. Among equal values, the first
    policy counts."""
    limiting: dict[str, int] = {}
    by: dict[str, int] = {}
    for position, policy in applied.items():
        for member in PolicyLimits.__struct_fields__:
            value = getattr(policy.limits, member)
            if value is not None and value < limiting.get(member, value + 1):
                limiting[member], by[member] = value, position
    return PolicyLimits(**limiting), by


def _tiers(index: ToolIndex, applied: Policies, ranks: Mapping[str, int]) -> dict[str, ServerTiers]:
    """The fastest `default` and the fastest `max` of each server. A `max` that does not exist counts as the fastest
    tier, because it was meant as a bound; a `default` that does not exist is ignored.
    """
    tiers: dict[str, ServerTiers] = {}
    fastest = min(ranks, key=lambda name: ranks[name], default=None)
    for position, policy in applied.items():
        if policy.default_tier is None and policy.max_tier is None:
            continue
        default = policy.default_tier if policy.default_tier in ranks else None
        most = policy.max_tier if policy.max_tier is None or policy.max_tier in ranks else fastest
        for server in index.servers if policy.every else policy.servers:
            server_tiers = tiers.get(server, ServerTiers())
            if default is not None and (server_tiers.default is None or ranks[default] < ranks[server_tiers.default]):
                server_tiers = msgspec.structs.replace(server_tiers, default=default, default_by=position)
            if most is not None and (server_tiers.max is None or ranks[most] < ranks[server_tiers.max]):
                server_tiers = msgspec.structs.replace(server_tiers, max=most, max_by=position)
            tiers[server] = server_tiers
    return tiers


def _explaining(index: ToolIndex, applied: Policies) -> frozenset[str]:
    """Servers all of whose applicable policies explain denials: if one of the policies has `Hide`, denials are not
    explained."""
    explained: set[str] = set()
    hidden: set[str] = set()
    for policy in applied.values():
        servers = index.servers if policy.every else policy.servers
        (explained if policy.denied == EXPLAIN else hidden).update(servers)
    return frozenset(explained - hidden)


def _escaped_servers(index: ToolIndex, applied: Policies) -> frozenset[str]:
    servers: set[str] = set()
    for policy in applied.values():
        if policy.control_characters == ESCAPE:
            servers.update(index.servers if policy.every else policy.servers)
    return frozenset(servers)


def _manual_tools(index: ToolIndex, applied: Policies, visible: int) -> tuple[tuple[int, int], ...]:
    """Tools that some policy forbids the model endpoints to run by themselves, with the position of that policy."""
    manual, taken = [], 0
    strict = {position: policy for position, policy in applied.items() if policy.auto_run != ALL}
    for position, policy in sorted(strict.items(), key=lambda each: each[1].auto_run == READ_ONLY):
        bits = selected_by(index, policy) & visible & ~taken
        if policy.auto_run == READ_ONLY:
            bits &= ~index.read_only
        taken |= bits
        if bits:
            manual.append((bits, position))
    return tuple(manual)


def _bare(index: ToolIndex, applied: Policies) -> frozenset[str]:
    """Servers with a rule that allows all tools, and without a rule that denies all tools."""
    allowed: set[str] = set()
    denied: set[str] = set()
    for policy in applied.values():
        for rule in policy.rules:
            if rule.action != _NOTHING and "*" in rule.tools and not (rule.tags or rule.categories or rule.annotations):
                servers = index.servers if policy.every else policy.servers
                (denied if rule.action == DENY else allowed).update(servers)
    return frozenset(allowed - denied)
