"""Who may see and call which tools: the rules of one snapshot, and the rule set of each asker.

Pure module. Made with a `Selection`. A *rule set* is the policies that speak of somebody: askers of whom the same
policies speak see the same, so what is worked out is kept per rule set and never per asker. `merge` of the API has the
table by which several policies become one decision; here it is asked, for lists and calls alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from fairlead_api.documents.catalog import LocalEndpoint
from fairlead_api.documents.rules import Policy, Rule, Rules, Tier
from fairlead_api.floors import Floor, Floors
from fairlead_api.meta import ServerKey
from fairlead_api.policies.index import READ_ONLY, Shelved, ToolIndex
from fairlead_api.policies.merge import ALLOW, Merged, RuleRef, ServerTiers, Verdict, merging, selects, verdict
from fairlead_api.policies.subjects import Key, Speakers, keys_of
from fairlead_api.slices import finish, list_in_slices
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.core.server import Server, ToolRef
from fairlead_gateway.policy.tiers import by_speed
from fairlead_tools.validation.constraint import Allowance, Constraint, allowance

NO_TIERS: Final = ServerTiers()
_NO_RULES: Final = Rules()


_Indexed = tuple[tuple[Server, ...], ToolIndex, tuple[ToolRef, ...]]
"""The servers of a namespace, their tools as bits, and the tool of each place."""


class RuleSet:
    """Merged policies that speak of a subject. Nothing but `key` and `names` may be read before
    `work_out_in_slices` was gone through.
    """

    def __init__(self, policies: Policies, key: tuple[int, ...]) -> None:
        self.key = key
        """Places of the policies among the rules."""
        self.names = tuple(policies.name(index) for index in key)
        self._policies = policies
        self._merged: dict[str, Merged] = {}
        self.unseen: frozenset[ToolRef] = frozenset()
        """Every tool that it does not see."""
        self.dark: frozenset[ServerKey] = frozenset()
        """Servers that do not exist for it."""
        self.pinned: frozenset[ToolRef] = frozenset()
        self.ready = False
        self.alters = False
        """Whether it changes what is seen in any way that policies merge to: arguments, tiers, limits and more."""
        self.open = False
        """Whether it changes nothing: everything is seen, with any arguments, in any tier, without limits."""

    def work_out_in_slices(self) -> Generator[None, None, None]:
        """Merge the policies of every namespace."""
        policies = self._policies
        unseen: set[ToolRef] = set()
        dark: set[ServerKey] = set()
        pinned: set[ToolRef] = set()
        for namespace in policies.namespaces:
            index = policies.index(namespace)
            merged = yield from policies.merge_in_slices(namespace, self.key)
            self._merged[namespace] = merged
            yield
            unseen.update(policies.tools(namespace, index.all & ~merged.visible))
            yield
            if merged.pinned:
                pinned.update(policies.tools(namespace, merged.pinned))
            dark.update(policies.dark(namespace, merged))
            yield
        if not policies.allow_by_default:
            for server in policies.others():
                dark.add(server.key)
                unseen.update(tool.ref for tool in server.tools)
                yield
        self.unseen = frozenset(unseen)
        self.dark = frozenset(dark)
        self.pinned = frozenset(pinned)
        self.alters = any(alters(merged) for merged in self._merged.values())
        self.open = not (unseen or dark or self.alters)
        self.ready = True

    def work_out(self) -> None:
        """Merge them at once, if that was not done."""
        if not self.ready:
            finish(self.work_out_in_slices())

    def tiers(self, server: ServerKey) -> ServerTiers:
        """Latency tiers that policies set at a server."""
        merged = self._merged.get(server.namespace)
        return NO_TIERS if merged is None else merged.tiers.get(server.name, NO_TIERS)

    @cached_property
    def tiered(self) -> bool:
        """Whether policies say anything of tiers."""
        return any(merged.tiers for merged in self._merged.values())

    @cached_property
    def quotas(self) -> Mapping[str, Quota]:
        """By namespace, where something is bounded."""
        return {
            namespace: Quota(
                namespace,
                **msgspec.structs.asdict(merged.limits),
                by={member: self._policies.name(index) for member, index in merged.limited_by.items()},
            )
            for namespace, merged in self._merged.items()
            if merged.limited_by
        }

    @cached_property
    def constraints(self) -> Mapping[ToolRef, Constraint]:
        """Constraints of tools that may be called with some arguments only."""
        allowed: dict[ToolRef, list[RuleRef]] = {}
        for namespace, merged in self._merged.items():
            for bits, by in merged.constrained:
                for tool in self._policies.tools(namespace, bits):
                    allowed.setdefault(tool, []).append(by)
        made: dict[tuple[tuple[RuleRef, ...], bool], Constraint] = {}
        constraints = {}
        for tool, rules in allowed.items():
            told = self.explains(tool[0])
            key = tuple(rules), told
            if key not in made:
                made[key] = Constraint([self._policies.allowances[rule] for rule in rules], quote_rules=told)
            constraints[tool] = made[key]
        return constraints

    @cached_property
    def floors(self) -> Mapping[ToolRef, Floor]:
        """The fastest tiers in which policies allow tools."""
        tiers, floors = Floors(self._policies.rules.tiers), {}
        for namespace, merged in self._merged.items():
            for bits, tier in merged.floors:
                floor = tiers.floor(tier, "policy")
                if floor is not None:
                    floors.update(dict.fromkeys(self._policies.tools(namespace, bits), floor))
        return floors

    @cached_property
    def manual(self) -> Mapping[ToolRef, str]:
        """Tools that no loop of model and tools calls by itself, each with the sentence that says why."""
        sentences: dict[ToolRef, str] = {}
        for namespace, merged in self._merged.items():
            for bits, index in merged.manual:
                why = self._policies.manual_sentence(index)
                sentences.update(dict.fromkeys(self._policies.tools(namespace, bits), why))
        return sentences

    def explains(self, server: ServerKey) -> bool:
        """Whether reasons are told at a server."""
        merged = self._merged.get(server.namespace)
        return merged is not None and server.name in merged.explaining

    @cached_property
    def escaping(self) -> frozenset[ServerKey]:
        """Servers whose control characters are made visible."""
        merged = self._merged.items()
        return frozenset(ServerKey(namespace, name) for namespace, rules in merged for name in rules.escaping)


def compile_policies_in_slices(snapshot: Snapshot, before: Policies | None = None) -> Generator[None, None, Policies]:
    """The policies of a snapshot. What did not change is taken over from `before`."""
    made = Policies(snapshot, before)
    for namespace in made.namespaces:
        made.indexed[namespace] = yield from made.index_in_slices(namespace, before)
    return made


class Policies:
    """The policies of one snapshot, as `compile_policies_in_slices` makes them."""

    def __init__(self, snapshot: Snapshot, before: Policies | None) -> None:
        self.rules = rules = snapshot.rules
        self.allow_by_default = rules.default_action == ALLOW
        self.enforced = bool(rules.policies) or not self.allow_by_default
        """Whether policies decide about anybody; read with every request."""
        self._servers = snapshot.servers
        same = before is not None and before.rules == rules
        speakers = before.speakers if before is not None and same else None
        self.speakers: Speakers = speakers or Speakers(rules.policies)
        self._by_namespace: dict[str, dict[int, Policy]] = {}
        for index, policy in enumerate(rules.policies):
            self._by_namespace.setdefault(policy.namespace, {})[index] = policy
        self.ranks = {tier.name: rank for rank, tier in enumerate(by_speed(rules.tiers))}
        self.indexed: dict[str, _Indexed] = {}
        """By namespace."""
        self.allowances = self._allowances(before)
        """Compiled schemas of the rules that have one."""

    @property
    def namespaces(self) -> Iterable[str]:
        """Those that have policies."""
        return self._by_namespace

    def of_namespace(self, namespace: str) -> Mapping[int, Policy]:
        """The policies of one namespace, by their place among all."""
        return self._by_namespace.get(namespace, {})

    @property
    def tiers(self) -> Mapping[str, Tier]:
        return {tier.name: tier for tier in self.rules.tiers}

    def key_for(self, identity: Identity) -> tuple[int, ...]:
        """The rule set of an asker."""
        return self.speakers.of(subjects_of(identity), identity.claims, identity.issuers, identity.doubtful)

    def name(self, index: int) -> str:
        """`namespace/name` of a policy, also of one that only restricts (`~place`)."""
        policy = self.rules.policies[index if index >= 0 else ~index]
        return f"{policy.namespace}/{policy.name}"

    def sentence(self, verdict: Verdict) -> str:
        """A verdict in words."""
        by = self.label(verdict.by) if verdict.by is not None else ""
        policies = ", ".join(self.name(index) for index in verdict.policies)
        match verdict.why:
            case "Rule":
                return f"{by} {'allows' if verdict.allowed else 'denies'} it"
            case "Default":
                return f"no policy selects the server; the installation's defaultAction is {self.rules.default_action}"
            case "NothingAllows":
                doubted = ", ".join(self.name(index) for index in verdict.policies if index < 0)
                hint = f"; {doubted} names its subject without an issuer, and several may: say which, as `issuer`"
                return f"no rule of {policies} allows it" + (hint if doubted else "")
            case "NotSpokenOf":
                return f"{policies} select the server, and none speaks of the caller"
            case _:
                return "the policies were not compiled for this server yet"

    def manual_sentence(self, index: int) -> str:
        """Why a policy lets no loop of model and tools run a tool by itself."""
        policy = self.rules.policies[index]
        if policy.auto_run == READ_ONLY:
            return (
                f"policy {self.name(index)} has autoRun: ReadOnly, and no trusted readOnlyHint says that it only reads"
            )
        return f"policy {self.name(index)} has autoRun: {policy.auto_run}"

    def label(self, ref: RuleRef) -> str:
        """A rule in words, by its name where it has one."""
        return f"rule {self.rule(ref).label(ref.rule)} of {self.name(ref.policy)}"

    def rule(self, ref: RuleRef) -> Rule:
        return self.rules.policies[ref.policy].rules[ref.rule]

    def index(self, namespace: str) -> ToolIndex:
        """The tools of a namespace that has policies."""
        return self.indexed[namespace][1]

    def tools(self, namespace: str, bits: int) -> Iterable[ToolRef]:
        """The tools of some bits of a namespace's index."""
        return self.index(namespace).select(bits, self.indexed[namespace][2])

    def merge_in_slices(self, namespace: str, key: tuple[int, ...]) -> Generator[None, None, Merged]:
        return merging(
            self.index(namespace),
            self._by_namespace[namespace],
            frozenset(key),
            allow_by_default=self.allow_by_default,
            ranks=self.ranks,
            unjudged=self._unjudged(namespace),
        )

    def verdict(self, server: ServerKey, tool: str, key: tuple[int, ...]) -> Verdict | None:
        """Verdict of a rule set on one tool, and why; None: there is no such tool."""
        held = self._servers.get(server)
        if held is None or all(each.name != tool for each in held.tools):
            return None
        if server.namespace not in self._by_namespace:
            return Verdict(self.allow_by_default, "Default")
        index = self.index(server.namespace)
        at = index.position(server.name, tool)
        assert at is not None, "an index has every tool of its namespace"
        return verdict(
            index,
            self._by_namespace[server.namespace],
            frozenset(key),
            at,
            allow_by_default=self.allow_by_default,
            unjudged=self._unjudged(server.namespace),
        )

    def dark(self, namespace: str, merged: Merged) -> Iterable[ServerKey]:
        """Servers of a namespace of which nothing is visible. One without tools is, if anything that it could have is
        allowed.
        """
        index, policies, unjudged = self.index(namespace), self._by_namespace[namespace], self._unjudged(namespace)
        for server in self.indexed[namespace][0]:
            name = server.key.name
            bits = index.of_servers((name,))
            if bits:
                shown = bool(bits & merged.visible)
            elif any(selects(policy, name) for policy in policies.values()) or name in unjudged:
                shown = name in merged.bare and name not in unjudged
            else:
                shown = self.allow_by_default
            if not shown:
                yield server.key

    def others(self) -> Iterable[Server]:
        """Servers of namespaces without policies."""
        return (server for key, server in self._servers.items() if key.namespace not in self._by_namespace)

    def _unjudged(self, namespace: str) -> frozenset[str]:
        """Servers that selectors were not asked about yet; tools of the gateway's own have no McpServer."""
        judged = self.rules.judged.get(namespace)
        if judged is None:
            return frozenset()
        judged_servers = frozenset(judged)
        return frozenset(
            server.key.name
            for server in self.indexed[namespace][0]
            if server.key.name not in judged_servers and not isinstance(server.catalog.endpoint, LocalEndpoint)
        )

    def index_in_slices(self, namespace: str, before: Policies | None) -> Generator[None, None, _Indexed]:
        """The tools of one namespace."""
        policies = self._by_namespace[namespace].values()
        servers = tuple(server for key, server in self._servers.items() if key.namespace == namespace)
        indexed = before.indexed.get(namespace) if before is not None else None
        if indexed is not None and len(indexed[0]) == len(servers) and all(map(_is, indexed[0], servers)):
            yield from indexed[1].preparing(policies)
            return indexed
        index = ToolIndex()
        yield from index.filling(
            Shelved(server.key.name, server.tools, server.catalog.trust_annotations) for server in servers
        )
        yield from index.preparing(policies)
        refs = {}
        for server in servers:
            refs[server.key.name] = {tool.name: tool.ref for tool in server.tools}
            yield
        places = yield from list_in_slices(refs[server][tool] for server, tool in index.refs)
        return servers, index, tuple(places)

    def _allowances(self, before: Policies | None) -> dict[RuleRef, Allowance]:
        if before is not None and before.rules == self.rules:
            return before.allowances
        return {
            (ref := RuleRef(index, number)): allowance(self.label(ref), rule.arguments)
            for index, policy in enumerate(self.rules.policies)
            for number, rule in enumerate(policy.rules)
            if rule.arguments is not None
        }


def alters(merged: Merged) -> bool:
    """Whether it does more than to allow and to deny."""
    rest = Merged(merged.visible, merged.free, explaining=merged.explaining, bare=merged.bare)
    return merged != rest


def _is(server: Server, other: Server) -> bool:
    return server is other


def subjects_of(identity: Identity) -> tuple[Key, ...]:
    """Every subject of policies that somebody is, without what the claims of a token say."""
    account = identity.service_account
    return keys_of(
        identity.agent,
        identity.groups,
        None if account is None else (account.namespace, account.name),
        authenticated=identity.kind != "anonymous",
        issuers=identity.issuers,
    )
