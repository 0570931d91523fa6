"""Store of the resources that people declare: McpServers, LatencyTiers, ToolPolicies, parsed once per change.

Kopf's events fill it (`handlers`), and complete lists do, at the start and every `list_seconds`: Kopf reports no
deletion that happened while its connection was down, and a revoked policy must not stay in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import ValidationError

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import ObjectMeta, Resource
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import PolicyRule, ServerSelector, ToolPolicy, ToolPolicySpec, ToolPolicyStatus
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import Conflict, Forbidden, Invalid, NotFound
from fairlead_kube.resources import LATENCY_TIERS, MCP_SERVERS, TOOL_POLICIES, Kind, Scope, newer, older
from fairlead_operator.kube.seeds import SEEDER, old_default
from fairlead_operator.publish.defaults import DEFAULT_TIERS

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Broken:
    """A resource that breaks the rules of its kind: older than the rule, or written past it."""

    item: Json
    problem: str


@dataclass(frozen=True)
class _Entry(Generic[R]):
    uid: str
    version: str
    content: R | Broken


class Declared(Generic[R]):
    """All resources of a kind, or those of one namespace. `changed(key)` is told of each that came, changed or went."""

    def __init__(
        self,
        kube: Kube,
        kind: Kind,
        model: type[R],
        changed: Callable[[ServerKey], None],
        namespace: str | None = None,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._kind = kind
        self._model = model
        self._changed = changed
        self._entries: dict[ServerKey, _Entry[R]] = {}
        self._listing = asyncio.Lock()
        self._deleted: set[str] = set()
        """Uids whose deletion was reported since the latest list began, which may still contain them."""

    def __repr__(self) -> str:
        return f"<Declared {self._kind.plural}={len(self._entries)}>"

    def __contains__(self, key: ServerKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[ServerKey]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: ServerKey) -> R | Broken | None:
        """None when there is none."""
        entry = self._entries.get(key)
        return entry.content if entry is not None else None

    def sound(self) -> list[R]:
        """Those that could be read."""
        return [entry.content for entry in self._entries.values() if not isinstance(entry.content, Broken)]

    def broken(self) -> dict[ServerKey, Broken]:
        """Those that could not."""
        return {key: entry.content for key, entry in self._entries.items() if isinstance(entry.content, Broken)}

    async def refresh(self) -> None:
        """List all of them; what is not listed is gone. Raises ApiError."""
        async with self._listing:
            self._deleted.clear()
            items, version = await self._kube.list(Scope(self._kind, Json, self._namespace))
            self._replace(items, version)

    def _replace(self, items: list[Json], version: str) -> None:
        """Take in a complete list as of `version`. Events that were handled while it was on its way win over it."""
        listed = {_key(item) for item in items}
        for key, entry in list(self._entries.items()):
            if key not in listed and not older(version, entry.version):  # an older list cannot know it yet
                self.remove(key)
        for item in items:
            if item["metadata"].get("uid", "") not in self._deleted:
                self.put(item)

    def put(self, item: Json) -> None:
        """Take in a resource, unless a newer reading of it is known."""
        key, metadata = _key(item), item["metadata"]
        before = self._entries.get(key)
        entry = _Entry(metadata.get("uid", ""), metadata.get("resourceVersion", ""), self._parse(item))
        if before is not None:
            stale = older(entry.version, before.version)  # of a predecessor of the same name, too
            if stale or (before.uid == entry.uid and not newer(entry.version, before.version)):
                return
        self._entries[key] = entry
        self._changed(key)

    def remove(self, key: ServerKey, uid: str | None = None) -> None:
        """Take note that a resource is gone; with `uid`, only if it is that one."""
        if uid is not None:
            self._deleted.add(uid)
        entry = self._entries.get(key)
        if entry is None or (uid is not None and entry.uid != uid):
            return
        del self._entries[key]
        self._changed(key)

    def _parse(self, item: Json) -> R | Broken:
        slim = {**item, "metadata": {k: v for k, v in item["metadata"].items() if k != "managedFields"}}
        try:
            return self._model.model_validate(slim)
        except ValidationError as error:
            problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            logger.warning("%s %s cannot be read: %s", self._kind.kind, _key(item), problem)
            return Broken(slim, problem)


def _key(item: Json) -> ServerKey:
    return ServerKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def closing(item: Json) -> ToolPolicy:
    """Policy in place of one that cannot be read: it denies everything that it selects, to everybody. Which subjects it
    was meant to deny is unknown, and without it others might allow that.
    """
    try:
        selector = ServerSelector.model_validate(item.get("spec", {}).get("servers") or {})
    except (ValidationError, AttributeError):
        selector = ServerSelector()
    spec = ToolPolicySpec(servers=selector, rules=[PolicyRule(action="Deny", tools=["*"])])
    return ToolPolicy(metadata=ObjectMeta.model_validate(item["metadata"]), spec=spec)


class KubeDeclarations:
    """The three kinds together: implements `ports.Declarations`. With `namespace`, servers and policies of that one
    alone; `default_tiers` are made where there is none.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        server_changed: Callable[[ServerKey], None],
        rules_changed: Callable[[], None],
        namespace: str | None = None,
        default_tiers: Collection[LatencyTier] = DEFAULT_TIERS,
    ) -> None:
        self._kube = kube
        self._default_tiers = default_tiers
        self._namespace = namespace
        self.reads_tiers = True
        """False where an installation of one namespace has no rights beyond it: its tiers are the default ones."""
        self._labels: dict[ServerKey, Mapping[str, str]] = {}

        def server(key: ServerKey) -> None:
            server_changed(key)
            if self._relabelled(key):
                rules_changed()

        def rule(key: ServerKey) -> None:
            rules_changed()

        self.servers: Declared[McpServer] = Declared(kube, MCP_SERVERS, McpServer, server, namespace)
        self._tiers: Declared[LatencyTier] = Declared(kube, LATENCY_TIERS, LatencyTier, rule)
        self._policies: Declared[ToolPolicy] = Declared(kube, TOOL_POLICIES, ToolPolicy, rule, namespace)
        self._by_plural: dict[str, Declared[McpServer] | Declared[LatencyTier] | Declared[ToolPolicy]] = {
            MCP_SERVERS.plural: self.servers,
            LATENCY_TIERS.plural: self._tiers,
            TOOL_POLICIES.plural: self._policies,
        }

    async def tiers(self) -> Collection[LatencyTier]:
        return self._tiers.sound() if self.reads_tiers else self._default_tiers

    async def policies(self) -> Collection[ToolPolicy]:
        return [*self._policies.sound(), *(closing(broken.item) for broken in self._policies.broken().values())]

    def policy_faults(self) -> Mapping[ServerKey, str]:
        return {key: broken.problem for key, broken in self._policies.broken().items()}

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        return dict(self._labels)

    async def show_policy(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        body = {"metadata": {"name": policy.metadata.name}, "status": status.to_wire()}
        try:
            applied = await self._kube.apply(TOOL_POLICIES, policy.metadata.namespace, body, subresource="status")
        except NotFound:
            return
        self._policies.put(applied)

    async def show_tools(self, counts: Mapping[str, int]) -> None:
        for tier in self._tiers.sound():
            count = counts.get(tier.metadata.name)
            if count is None or count == tier.status.tools:
                continue
            status = tier.status.model_copy(update={"tools": count, "observed_generation": tier.metadata.generation})
            body = {"metadata": {"name": tier.metadata.name}, "status": status.to_wire()}
            try:
                self._tiers.put(await self._kube.apply(LATENCY_TIERS, None, body, subresource="status"))
            except NotFound:
                continue

    def _relabelled(self, key: ServerKey) -> bool:
        """Whether a server came, went or has other labels: of its changes, and most are of its status, rules know no
        others.
        """
        server = self.servers.get(key)
        labels = server.metadata.labels if isinstance(server, McpServer) else None
        if labels == self._labels.get(key):
            return False
        if labels is None:
            del self._labels[key]
        else:
            self._labels[key] = labels
        return True

    async def refresh(self) -> None:
        """List all three kinds, or those that may be read. Raises ApiError."""
        await self.servers.refresh()
        await self._policies.refresh()
        if self.reads_tiers:
            await self._tiers.refresh()

    async def start(self) -> None:
        """The first `refresh`, which finds out whether LatencyTiers may be read. Raises ApiError."""
        try:
            await self._tiers.refresh()
        except Forbidden:
            if self._namespace is None:
                raise
            self.reads_tiers = False
            logger.warning(
                "LatencyTiers, which belong to no namespace, may not be read: the tiers are those of FAIRLEAD_TIERS, "
                "else the default ones. To use LatencyTiers grant their rights (operator/rbac.yaml) and restart"
            )
        await self.refresh()

    def observe(self, plural: str, type_: str | None, item: Json) -> bool:
        """Take in one event; whether it repeats something known, as happens after events were missed."""
        declared = self._by_plural[plural]
        key = _key(item)
        known = key in declared
        if type_ == "DELETED":
            declared.remove(key, item["metadata"].get("uid"))
        else:
            declared.put(item)
        return known and type_ is None

    async def withdraw_old_defaults(self) -> None:
        """Take `default: true` from tiers that an older operator created with it, where nobody has edited them and the
        installation does not name them as its default now: latency would hide tools from clients that chose no tier.
        Raises ApiError.
        """
        named = {tier.metadata.name for tier in self._default_tiers if tier.spec.default}
        if not any(tier.spec.default and tier.metadata.name not in named for tier in self._tiers.sound()):
            return
        items, _ = await self._kube.list(Scope(LATENCY_TIERS, Json))
        for item in items:
            metadata = item["metadata"]
            name = metadata["name"]
            if name in named or not old_default(item):
                continue
            # the version has the API server refuse this where somebody edits the tier at the same time
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"default": False}}
            try:
                self._tiers.put(await self._kube.merge(LATENCY_TIERS, None, name, patch))
            except NotFound:
                continue
            except Forbidden:
                logger.warning(
                    "latency tier %s is the default because an older operator made it so, and hides tools from clients "
                    "that name no tier; this operator may not patch latencytiers: grant its rights "
                    "(operator/rbac.yaml) and restart, or set spec.default of the tier to false", name,
                )  # fmt: skip
                continue
            logger.info("latency tier %s is no longer the default: clients that name no tier see every tool", name)

    async def create_default_tiers(self) -> None:
        """Make the default tiers where there is none: a chart cannot hold objects of kinds that it installs itself."""
        if len(self._tiers) or not self.reads_tiers:
            return
        for tier in self._default_tiers:
            body = tier.to_wire()
            body.pop("status", None)
            body["metadata"] = {"name": tier.metadata.name}
            try:
                self._tiers.put(await self._kube.create(LATENCY_TIERS, None, body, manager=SEEDER))
            except Conflict:
                continue
            except Invalid as error:
                logger.error("latency tier %s of FAIRLEAD_TIERS cannot be created: %s", tier.metadata.name, error)
                continue
            logger.info("latency tier %s created", tier.metadata.name)
