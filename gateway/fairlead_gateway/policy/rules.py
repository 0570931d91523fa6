"""Evaluates `ToolPolicy` rules: which tools each principal may see and call.

Pure module, compiled once per snapshot. A *rule set* is the set of policies that apply to a principal. Principals with
the same rule set see the same tools, so results are cached per rule set and never per principal. The module `merge` of
the API defines how several policies combine into one decision; lists and calls both use it.
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
from fairlead_api.policies.index import READ_ONLY, IndexedServer, ToolIndex
from fairlead_api.policies.merge import ALLOW, Merged, RuleRef, ServerTiers, Verdict, merge_in_steps, selects, verdict
from fairlead_api.policies.subjects import Key, PoliciesBySubject, keys_of
from fairlead_api.slices import finish, list_in_slices
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.quota import Quota
from fairlead_gateway.core.server import Server, ToolRef
from fairlead_gateway.policy.tiers import by_speed
from fairlead_tools.validation.constraint import Allowance, Constraint, allowance

NO_TIERS: Final = ServerTiers()
_NO_RULES: Final = Rules()


_NamespaceIndex = tuple[tuple[Server, ...], ToolIndex, tuple[ToolRef, ...]]
"""The servers of a namespace, the index with a bit for each of their tools, and the tool of each bit."""


class RuleSet:
    """Policies that apply to a subject, merged per namespace. Before `merge_in_slices` has finished, only `key` and
    `names` may be read.
    """

    def __init__(self, policies: Policies, key: tuple[int, ...]) -> None:
        self.key = key
        """Indexes of the policies in `Rules.policies`."""
        self.names = tuple(policies.name(index) for index in key)
        self._policies = policies
        self._merged: dict[str, Merged] = {}
        self.denied_tools: frozenset[ToolRef] = frozenset()
        """All tools that the subject may not see."""
        self.denied_servers: frozenset[ServerKey] = frozenset()
        """Servers that the subject may not see. Requests for them are answered like requests for unknown servers."""
        self.pinned: frozenset[ToolRef] = frozenset()
        self.is_merged = False
        self.alters = False
        """Whether the policies do more than allow and deny tools, for example restrict arguments or tiers, or set
        limits."""
        self.restricts_nothing = False
        """Whether the policies restrict nothing: every tool is shown, with any arguments, in any tier, without
        limits.
        """

    def merge_in_slices(self) -> Generator[None, None, None]:
        """Merge the policies of every namespace."""
        policies = self._policies
        denied_tools: set[ToolRef] = set()
        denied_servers: set[ServerKey] = set()
        pinned: set[ToolRef] = set()
        for namespace in policies.namespaces:
            index = policies.index(namespace)
            merged = yield from policies.merge_in_slices(namespace, self.key)
            self._merged[namespace] = merged
            yield
            denied_tools.update(policies.tools(namespace, index.all & ~merged.visible))
            yield
            if merged.pinned:
                pinned.update(policies.tools(namespace, merged.pinned))
            denied_servers.update(policies.denied_servers(namespace, merged))
            yield
        if not policies.allow_by_default:
            for server in policies.servers_without_policies():
                denied_servers.add(server.key)
                denied_tools.update(tool.ref for tool in server.tools)
                yield
        self.denied_tools = frozenset(denied_tools)
        self.denied_servers = frozenset(denied_servers)
        self.pinned = frozenset(pinned)
        self.alters = any(alters(merged) for merged in self._merged.values())
        self.restricts_nothing = not (denied_tools or denied_servers or self.alters)
        self.is_merged = True

    def merge(self) -> None:
        """Merge the policies without pauses, unless that is done already."""
        if not self.is_merged:
            finish(self.merge_in_slices())

    def tiers(self, server: ServerKey) -> ServerTiers:
        """Latency tiers that policies set at a server."""
        merged = self._merged.get(server.namespace)
        return NO_TIERS if merged is None else merged.tiers.get(server.name, NO_TIERS)

    @cached_property
    def sets_tiers(self) -> bool:
        """Whether any policy sets a latency tier."""
        return any(merged.tiers for merged in self._merged.values())

    @cached_property
    def quotas(self) -> Mapping[str, Quota]:
        """Quotas by namespace, for namespaces whose policies set a limit."""
        return {
            namespace: Quota(
                namespace,
                **msgspec.structs.asdict(merged.limits),
                policies={member: self._policies.name(index) for member, index in merged.limited_by.items()},
            )
            for namespace, merged in self._merged.items()
            if merged.limited_by
        }

    @cached_property
    def constraints(self) -> Mapping[ToolRef, Constraint]:
        """Constraints of the tools whose arguments policies restrict."""
        allowed: dict[ToolRef, list[RuleRef]] = {}
        for namespace, merged in self._merged.items():
            for bits, by in merged.constrained:
                for tool in self._policies.tools(namespace, bits):
                    allowed.setdefault(tool, []).append(by)
        by_rules: dict[tuple[tuple[RuleRef, ...], bool], Constraint] = {}
        constraints = {}
        for tool, rules in allowed.items():
            explains = self.explains(tool[0])
            key = tuple(rules), explains
            if key not in by_rules:
                by_rules[key] = Constraint([self._policies.allowances[rule] for rule in rules], quote_rules=explains)
            constraints[tool] = by_rules[key]
        return constraints

    @cached_property
    def floors(self) -> Mapping[ToolRef, Floor]:
        """Fastest tier that may show a tool, for each tool with such a limit in a policy."""
        tiers, floors = Floors(self._policies.rules.tiers), {}
        for namespace, merged in self._merged.items():
            for bits, tier in merged.floors:
                floor = tiers.floor(tier, "policy")
                if floor is not None:
                    floors.update(dict.fromkeys(self._policies.tools(namespace, bits), floor))
        return floors

    @cached_property
    def manual_tools(self) -> Mapping[ToolRef, str]:
        """Tools that the gateway's LLM tool loop must not run automatically, each with the reason as a sentence."""
        sentences: dict[ToolRef, str] = {}
        for namespace, merged in self._merged.items():
            for bits, index in merged.manual:
                sentence = self._policies.manual_sentence(index)
                sentences.update(dict.fromkeys(self._policies.tools(namespace, bits), sentence))
        return sentences

    def explains(self, server: ServerKey) -> bool:
        """Whether refusals of calls to a server tell the caller the reason."""
        merged = self._merged.get(server.namespace)
        return merged is not None and server.name in merged.explaining

    @cached_property
    def escaped_servers(self) -> frozenset[ServerKey]:
        """Servers whose texts are shown with control characters escaped."""
        merged = self._merged.items()
        return frozenset(ServerKey(namespace, name) for namespace, rules in merged for name in rules.escaped_servers)


def compile_policies_in_slices(snapshot: Snapshot, previous: Policies | None = None) -> Generator[None, None, Policies]:
    """Compile the policies of a snapshot; unchanged parts are reused from `previous`."""
    policies = Policies(snapshot, previous)
    for namespace in policies.namespaces:
        policies.namespace_indexes[namespace] = yield from policies.index_in_slices(namespace, previous)
    return policies


class Policies:
    """The policies of one snapshot, indexed by namespace and by subject. Create it by `compile_policies_in_slices`."""

    def __init__(self, snapshot: Snapshot, previous: Policies | None) -> None:
        self.rules = rules = snapshot.rules
        self.allow_by_default = rules.default_action == ALLOW
        self.enforced = bool(rules.policies) or not self.allow_by_default
        """Whether policies restrict any principal. This is read at every request."""
        self._servers = snapshot.servers
        is_unchanged = previous is not None and previous.rules == rules
        by_subject = previous.by_subject if previous is not None and is_unchanged else None
        self.by_subject: PoliciesBySubject = by_subject or PoliciesBySubject(rules.policies)
        self._by_namespace: dict[str, dict[int, Policy]] = {}
        for index, policy in enumerate(rules.policies):
            self._by_namespace.setdefault(policy.namespace, {})[index] = policy
        self.ranks = {tier.name: rank for rank, tier in enumerate(by_speed(rules.tiers))}
        self.namespace_indexes: dict[str, _NamespaceIndex] = {}
        """Indexes of tools by namespace."""
        self.allowances = self._allowances(previous)
        """Compiled `arguments` schemas of the rules that have such a schema."""

    @property
    def namespaces(self) -> Iterable[str]:
        """Namespaces that have policies."""
        return self._by_namespace

    def of_namespace(self, namespace: str) -> Mapping[int, Policy]:
        """The policies of one namespace by their index in `Rules.policies`."""
        return self._by_namespace.get(namespace, {})

    @property
    def tiers(self) -> Mapping[str, Tier]:
        return {tier.name: tier for tier in self.rules.tiers}

    def key_for(self, identity: Identity) -> tuple[int, ...]:
        """Key of the rule set that applies to a principal."""
        return self.by_subject.of(subjects_of(identity), identity.claims, identity.issuers, identity.doubtful)

    def name(self, index: int) -> str:
        """`namespace/name` of a policy. `~index` stands for a policy whose restrictions apply and whose permissions do
        not, because its subject may belong to another issuer.
        """
        policy = self.rules.policies[index if index >= 0 else ~index]
        return f"{policy.namespace}/{policy.name}"

    def sentence(self, verdict: Verdict) -> str:
        """The reason of a verdict as a sentence."""
        by = self.label(verdict.by) if verdict.by is not None else ""
        policies = ", ".join(self.name(index) for index in verdict.policies)
        match verdict.why:
            case "Rule":
                return f"{by} {'allows' if verdict.allowed else 'denies'} the tool"
            case "Default":
                return f"no policy selects the server; the installation's defaultAction is {self.rules.default_action}"
            case "NothingAllows":
                doubtful_policies = ", ".join(self.name(index) for index in verdict.policies if index < 0)
                doubt = "names its subject without an issuer, but there are several issuers: set `issuer`"
                hint = f"; {doubtful_policies} {doubt}" if doubtful_policies else ""
                return f"no rule of {policies} allows the tool{hint}"
            case "NotSpokenOf":
                return f"{policies} select the server, but none of their subjects matches the caller"
            case _:
                return "the policies are not compiled for this server yet"

    def manual_sentence(self, index: int) -> str:
        """Why a policy does not let the LLM tool loop run a tool automatically."""
        policy = self.rules.policies[index]
        if policy.auto_run == READ_ONLY:
            return f"policy {self.name(index)} has autoRun: ReadOnly, and the tool has no trusted readOnlyHint"
        return f"policy {self.name(index)} has autoRun: {policy.auto_run}"

    def label(self, ref: RuleRef) -> str:
        """Name of a rule and of its policy, for messages."""
        return f"rule {self.rule(ref).label(ref.rule)} of policy {self.name(ref.policy)}"

    def rule(self, ref: RuleRef) -> Rule:
        return self.rules.policies[ref.policy].rules[ref.rule]

    def index(self, namespace: str) -> ToolIndex:
        """The tools of a namespace that has policies."""
        return self.namespace_indexes[namespace][1]

    def tools(self, namespace: str, bits: int) -> Iterable[ToolRef]:
        """The tools of a namespace whose bits in its index are set in `bits`."""
        return self.index(namespace).select(bits, self.namespace_indexes[namespace][2])

    def merge_in_slices(self, namespace: str, key: tuple[int, ...]) -> Generator[None, None, Merged]:
        return merge_in_steps(
            self.index(namespace),
            self._by_namespace[namespace],
            frozenset(key),
            allow_by_default=self.allow_by_default,
            ranks=self.ranks,
            unjudged=self._unmatched_servers(namespace),
        )

    def verdict(self, server: ServerKey, tool: str, key: tuple[int, ...]) -> Verdict | None:
        """Verdict of a rule set on one tool, with its reason; None if the tool does not exist."""
        catalog_server = self._servers.get(server)
        if catalog_server is None or all(each.name != tool for each in catalog_server.tools):
            return None
        if server.namespace not in self._by_namespace:
            return Verdict(self.allow_by_default, "Default")
        index = self.index(server.namespace)
        position = index.position(server.name, tool)
        assert position is not None, "an index has every tool of its namespace"
        return verdict(
            index,
            self._by_namespace[server.namespace],
            frozenset(key),
            position,
            allow_by_default=self.allow_by_default,
            unjudged=self._unmatched_servers(server.namespace),
        )

    def denied_servers(self, namespace: str, merged: Merged) -> Iterable[ServerKey]:
        """Servers of a namespace without any visible tool. A server without tools is visible if the policies allow
        any tool that it could have.
        """
        index, policies, unmatched = (
            self.index(namespace),
            self._by_namespace[namespace],
            self._unmatched_servers(namespace),
        )
        for server in self.namespace_indexes[namespace][0]:
            name = server.key.name
            bits = index.of_servers((name,))
            if bits:
                visible = bool(bits & merged.visible)
            elif any(selects(policy, name) for policy in policies.values()) or name in unmatched:
                visible = name in merged.bare and name not in unmatched
            else:
                visible = self.allow_by_default
            if not visible:
                yield server.key

    def servers_without_policies(self) -> Iterable[Server]:
        """Servers of the namespaces that have no policies."""
        return (server for key, server in self._servers.items() if key.namespace not in self._by_namespace)

    def _unmatched_servers(self, namespace: str) -> frozenset[str]:
        """Servers that the operator has not yet matched against the selectors of policies. The gateway's own server of
        custom tools has no McpServer and is never matched.
        """
        judged = self.rules.judged.get(namespace)
        if judged is None:
            return frozenset()
        judged_servers = frozenset(judged)
        return frozenset(
            server.key.name
            for server in self.namespace_indexes[namespace][0]
            if server.key.name not in judged_servers and not isinstance(server.catalog.endpoint, LocalEndpoint)
        )

    def index_in_slices(self, namespace: str, previous: Policies | None) -> Generator[None, None, _NamespaceIndex]:
        """Index the tools of one namespace, or take the index of `previous` if the servers are unchanged."""
        policies = self._by_namespace[namespace].values()
        servers = tuple(server for key, server in self._servers.items() if key.namespace == namespace)
        previous_index = previous.namespace_indexes.get(namespace) if previous is not None else None
        if (
            previous_index is not None
            and len(previous_index[0]) == len(servers)
            and all(map(_is_same, previous_index[0], servers))
        ):
            yield from previous_index[1].prepare_in_slices(policies)
            return previous_index
        index = ToolIndex()
        yield from index.fill_in_slices(
            IndexedServer(server.key.name, server.tools, server.catalog.trust_annotations) for server in servers
        )
        yield from index.prepare_in_slices(policies)
        refs = {}
        for server in servers:
            refs[server.key.name] = {tool.name: tool.ref for tool in server.tools}
            yield
        tools = yield from list_in_slices(refs[server][tool] for server, tool in index.refs)
        return servers, index, tuple(tools)

    def _allowances(self, previous: Policies | None) -> dict[RuleRef, Allowance]:
        if previous is not None and previous.rules == self.rules:
            return previous.allowances
        return {
            (ref := RuleRef(index, number)): allowance(self.label(ref), rule.arguments)
            for index, policy in enumerate(self.rules.policies)
            for number, rule in enumerate(policy.rules)
            if rule.arguments is not None
        }


def alters(merged: Merged) -> bool:
    """Whether merged policies do more than allow and deny."""
    permissions = Merged(merged.visible, merged.free, explaining=merged.explaining, bare=merged.bare)
    return merged != permissions


def _is_same(server: Server, other: Server) -> bool:
    return server is other


def subjects_of(identity: Identity) -> tuple[Key, ...]:
    """Keys of all policy subjects that an identity matches. Subjects that are token claims are left out."""
    account = identity.service_account
    return keys_of(
        identity.agent,
        identity.groups,
        None if account is None else (account.namespace, account.name),
        authenticated=identity.kind != "anonymous",
        issuers=identity.issuers,
    )
