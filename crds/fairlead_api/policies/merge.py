"""Merge of the ToolPolicies of one namespace into what each subject sees and may call. Pure.

A server is *selected* when any policy of its namespace selects it, for any subject. Servers that no policy selects
follow the installation's default. Of a selected server, a tool is shown to a caller if a rule allows it, in a policy
that selects the server and applies to the caller, and no such policy denies it; where no such policy applies to the
caller, nothing is.
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
"""Action of a rule that does neither."""

Policies = Mapping[int, Policy]
"""The policies of one namespace, by their place among all."""
Why = Literal["Default", "Rule", "NothingAllows", "NotSpokenOf", "NotJudged"]


class RuleRef(msgspec.Struct, frozen=True, order=True):
    """One rule: the place of its policy among all policies, and its own place in that."""

    policy: int
    rule: int


class Verdict(msgspec.Struct, frozen=True):
    """Decision about one tool, with the rule and policy it follows from."""

    allowed: bool
    why: Why
    by: RuleRef | None = None
    """The rule that decided: the first that denies, else the first that allows with any arguments, else the first that
    allows.
    """
    policies: tuple[int, ...] = ()
    """Places of those that select the server; for `NothingAllows` of those that speak of the asker too, as `~place`
    where they only restrict.
    """


class ServerTiers(msgspec.Struct, frozen=True):
    """Latency tiers of one server for one rule set, by name, and the policies that say so."""

    default: str | None = None
    max: str | None = None
    default_by: int | None = None
    max_by: int | None = None


class Merged(msgspec.Struct, frozen=True):
    """Effective policy of one namespace for one set of subjects. Bits are those of the index."""

    visible: int
    """Bits of tools that are shown and may be called."""
    free: int
    """Bits of those visible tools that may be called with any arguments."""
    constrained: tuple[tuple[int, RuleRef], ...] = ()
    """Rules that allow with arguments only, and the visible tools that are not free and that they allow."""
    pinned: int = 0
    """Visible tools that no budget cuts."""
    limits: PolicyLimits = PolicyLimits()
    """Limits of all subjects of the namespace together."""
    limited_by: Mapping[str, int] = {}
    """Member of the limits to the policy that it comes from."""
    tiers: Mapping[str, ServerTiers] = {}
    """By server, where a policy says something."""
    explaining: frozenset[str] = frozenset()
    """Servers whose denied calls are answered with the reason."""
    escaping: frozenset[str] = frozenset()
    """Servers whose control characters are made visible: one policy that says so is enough."""
    floors: tuple[tuple[int, str], ...] = ()
    """Visible tools that only some tiers show, and the fastest of these; each tool once."""
    manual: tuple[tuple[int, int], ...] = ()
    """Visible tools that no loop of model and tools calls by itself, and the policy that says so; each tool once, those
    of `autoRun: None` first.
    """
    bare: frozenset[str] = frozenset()
    """Selected servers of which every tool is allowed, whatever it is called: those without tools are shown too."""


def merge_policies(
    index: ToolIndex,
    policies: Policies,
    speaking: Collection[int],
    *,
    allow_by_default: bool,
    ranks: Mapping[str, int] | None = None,
    unjudged: Iterable[str] = (),
) -> Merged:
    """As `merging`, at once."""
    work = merging(index, policies, speaking, allow_by_default=allow_by_default, ranks=ranks, unjudged=unjudged)
    return finish(work)


def merging(
    index: ToolIndex,
    policies: Policies,
    speaking: Collection[int],
    *,
    allow_by_default: bool,
    ranks: Mapping[str, int] | None = None,
    unjudged: Iterable[str] = (),
) -> Generator[None, None, Merged]:
    """Merge, in steps of less than a millisecond each. `ranks`: tiers, the fastest lowest. `unjudged`: servers that
    the rules do not know yet, which some policy may select.
    """
    selected = index.of_servers(unjudged)
    for policy in policies.values():
        selected |= selected_by(index, policy)
    allowed = denied = free = pinned = 0
    constrained = []
    floors = _Floors(ranks or {})
    heard = heard_by(policies, speaking)
    for position, policy in heard.items():
        reach = selected_by(index, policy)
        pinned |= index.match(policy.pinned) & reach
        allowing = []
        for number, rule in enumerate(policy.rules):
            bits = index.matching(rule) & reach
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
    limits, limited_by = _limits(heard)
    yield
    bounded = [(bits & visible & ~free, ref) for bits, ref in constrained]
    return Merged(
        visible,
        free,
        tuple((bits, ref) for bits, ref in bounded if bits),
        pinned & visible,
        limits,
        limited_by,
        _tiers(index, heard, ranks or {}),
        _explaining(index, heard),
        _escaping(index, heard),
        floors.of(visible),
        _manual(index, heard, visible),
        _bare(index, heard),
    )


def verdict(
    index: ToolIndex,
    policies: Policies,
    speaking: Collection[int],
    at: int,
    *,
    allow_by_default: bool,
    unjudged: Collection[str] = (),
) -> Verdict:
    """Why the tool at a place of the index is, or is not, among the `visible` of `merged`."""
    server, bit = index.refs[at][0], 1 << at
    if server in unjudged:
        return Verdict(False, "NotJudged")
    selecting = tuple(position for position, policy in policies.items() if selected_by(index, policy) & bit)
    if not selecting:
        return Verdict(allow_by_default, "Default")
    speakers = {position: policy for position, policy in heard_by(policies, speaking).items() if position in selecting}
    heard = tuple(position if position in speaking else ~position for position in speakers)
    if not heard:
        return Verdict(False, "NotSpokenOf", policies=selecting)
    allowing: list[tuple[bool, RuleRef]] = []
    for position, policy in speakers.items():
        for number, rule in enumerate(policy.rules):
            if not index.matching(rule) & bit:
                continue
            if rule.action == DENY:
                return Verdict(False, "Rule", RuleRef(position, number), selecting)
            if rule.action == ALLOW:
                allowing.append((rule.arguments is not None, RuleRef(position, number)))
    if allowing:
        return Verdict(True, "Rule", min(allowing)[1], selecting)
    return Verdict(False, "NothingAllows", policies=heard)


def heard_by(policies: Policies, speaking: Collection[int]) -> dict[int, Policy]:
    """The policies that speak of somebody, by place; `~place` in `speaking` stands for one that only restricts."""
    return {
        position: policy if position in speaking else restricting(policy)
        for position, policy in policies.items()
        if position in speaking or ~position in speaking
    }


def restricting(policy: Policy) -> Policy:
    """Effective policy for somebody who has a name that it speaks of, and may have it from another issuer than
    the one that was meant: what it denies is denied, its bounds hold, and it gives nothing.
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
    """Tier floors of tools, as bits. Of one policy the fastest floor of the rules that allow a tool counts, of several
    policies the slowest. A tier that does not exist is slower than all others: it was meant as a bound.
    """

    def __init__(self, ranks: Mapping[str, int]) -> None:
        self._ranks = ranks
        self._slowest: dict[str, int] = {}
        """Floor to the tools for which some policy says it."""

    def add(self, rules: Sequence[tuple[int, Rule]]) -> None:
        """Take the rules of one policy that do not deny, with the tools that each matches. Those with arguments count
        where no other allows the tool, and of them the slowest: a floor must not fall by what a call may not do.
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
        """Floors of the visible tools."""
        floors, taken = [], 0
        for tier, bits in sorted(self._slowest.items(), key=lambda each: self._rank((each[1], each[0])), reverse=True):
            own = bits & visible & ~taken
            taken |= own
            if own:
                floors.append((own, tier))
        return tuple(floors)

    def _rank(self, each: tuple[int, str | None]) -> tuple[int, str]:
        tier = each[1]
        return (-1, "") if tier is None else (self._ranks.get(tier, len(self._ranks)), tier)


def _limits(heard: Policies) -> tuple[PolicyLimits, dict[str, int]]:
    """The smallest of each, and of equals the first policy's."""
    limiting: dict[str, int] = {}
    by: dict[str, int] = {}
    for position, policy in heard.items():
        for member in PolicyLimits.__struct_fields__:
            value = getattr(policy.limits, member)
            if value is not None and value < limiting.get(member, value + 1):
                limiting[member], by[member] = value, position
    return PolicyLimits(**limiting), by


def _tiers(index: ToolIndex, heard: Policies, ranks: Mapping[str, int]) -> dict[str, ServerTiers]:
    """The faster of each. A `max` that no tier has is the fastest tier, for it was meant as a bound; a `default` that
    no tier has says nothing.
    """
    tiers: dict[str, ServerTiers] = {}
    fastest = min(ranks, key=lambda name: ranks[name], default=None)
    for position, policy in heard.items():
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


def _explaining(index: ToolIndex, heard: Policies) -> frozenset[str]:
    """Servers of which every policy that speaks of the asker wants reasons told: hiding wins."""
    told: set[str] = set()
    hidden: set[str] = set()
    for policy in heard.values():
        (told if policy.denied == EXPLAIN else hidden).update(index.servers if policy.every else policy.servers)
    return frozenset(told - hidden)


def _escaping(index: ToolIndex, heard: Policies) -> frozenset[str]:
    servers: set[str] = set()
    for policy in heard.values():
        if policy.control_characters == ESCAPE:
            servers.update(index.servers if policy.every else policy.servers)
    return frozenset(servers)


def _manual(index: ToolIndex, heard: Policies, visible: int) -> tuple[tuple[int, int], ...]:
    """Tools that policies keep from running by themselves: one that says so is enough."""
    manual, taken = [], 0
    strict = {position: policy for position, policy in heard.items() if policy.auto_run != ALL}
    for position, policy in sorted(strict.items(), key=lambda each: each[1].auto_run == READ_ONLY):
        bits = selected_by(index, policy) & visible & ~taken
        if policy.auto_run == READ_ONLY:
            bits &= ~index.read_only
        taken |= bits
        if bits:
            manual.append((bits, position))
    return tuple(manual)


def _bare(index: ToolIndex, heard: Policies) -> frozenset[str]:
    """Servers with a rule that allows any tool, and none that denies any."""
    allowed: set[str] = set()
    denied: set[str] = set()
    for policy in heard.values():
        for rule in policy.rules:
            if rule.action != _NOTHING and "*" in rule.tools and not (rule.tags or rule.categories or rule.annotations):
                servers = index.servers if policy.every else policy.servers
                (denied if rule.action == DENY else allowed).update(servers)
    return frozenset(allowed - denied)
