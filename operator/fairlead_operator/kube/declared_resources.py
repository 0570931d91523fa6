"""Stores of what people declare: LatencyTiers and ToolPolicies parsed once per change, McpServers as their JSON.

Kopf's events fill it (`handlers`), and complete lists do, at the start and every `list_seconds` (`Informer`): Kopf
reports no deletion that happened while its connection was down, and a revoked policy must not stay in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec
from pydantic import ValidationError

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.common import Condition, ObjectMeta, Resource
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import PolicyRule, ServerSelector, ToolPolicy, ToolPolicySpec, ToolPolicyStatus
from fairlead_kube.client import EXCESS, Json, Kube
from fairlead_kube.errors import Invalid, NotFound
from fairlead_kube.informer import Store
from fairlead_kube.resources import LATENCY_TIERS, MCP_SERVERS, TOOL_POLICIES, Kind
from fairlead_kube.store import ObjectStore, key_of
from fairlead_operator.kube.drift import DriftRepairs, Writers, WriteTarget, content_of
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Resource)
_MANAGER: Final = frozenset({"manager", "time", "subresource"})


@dataclass(frozen=True)
class Broken:
    """A resource that breaks the rules of its kind: older than the rule, or written past it."""

    item: Json
    problem: str


class Declared(ObjectStore[R | Broken], Generic[R]):
    """All resources of a kind, or those of one namespace, each parsed once per change."""

    def __init__(
        self, kind: Kind, model: type[R], changed: Callable[[ServerKey, R | Broken | None, R | Broken | None], None]
    ) -> None:
        super().__init__(self._parse, changed)
        self._kind = kind
        self._model = model

    def sound(self) -> list[R]:
        """Those that could be read."""
        return [content for content in self.values() if not isinstance(content, Broken)]

    def broken(self) -> dict[ServerKey, Broken]:
        """Those that could not."""
        return {key: content for key in self if isinstance(content := self.get(key), Broken)}

    def _parse(self, item: Json) -> R | Broken:
        content = _parse_resource(self._model, _slim(item))
        if isinstance(content, Broken):
            logger.warning("%s %s cannot be read: %s", self._kind.kind, key_of(item), content.problem)
        return content


class DeclaredServers(ObjectStore[bytes]):
    """All McpServers, or those of one namespace, each as JSON and parsed when it is looked at.

    A reconcile looks at one, nothing looks at all of them, and a parsed server with its status takes ten times the
    memory of its JSON.
    """

    def __init__(self, changed: Callable[[ServerKey, bytes | None, bytes | None], None]) -> None:
        super().__init__(lambda item: msgspec.json.encode(_slim(item)), changed)

    def server(self, key: ServerKey) -> McpServer | Broken | None:
        """The server as last seen; None where there is none."""
        text = self.get(key)
        return None if text is None else _parse_resource(McpServer, msgspec.json.decode(text))

    def labels(self, key: ServerKey) -> Mapping[str, str] | None:
        """Its labels; None where there is no such server, or one that cannot be read."""
        text = self.get(key)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=_Labelled).metadata.labels
        except msgspec.ValidationError:
            return None


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Labels


def _slim(item: Json) -> Json:
    """With nothing of its managers but who wrote its status, and when."""
    metadata = dict(item["metadata"])
    if managed := metadata.get("managedFields"):
        metadata["managedFields"] = [
            {k: v for k, v in entry.items() if k in _MANAGER}
            for entry in managed
            if entry.get("subresource") == "status"
        ]
    return {**item, "metadata": metadata}


def _parse_resource(model: type[R], item: Json) -> R | Broken:
    if EXCESS in item:
        return Broken(item, f"it holds {item[EXCESS]}, which is more than is read")
    try:
        return model.model_validate(item)
    except ValidationError as error:
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return Broken(item, problem)


def closing(item: Json) -> ToolPolicy:
    """Policy in place of one that cannot be read: it denies everything that it selects, to everybody. Which subjects it
    was meant to deny is unknown, and without it others might allow that.
    """
    try:
        selector = ServerSelector.model_validate(item.get("spec", {}).get("servers") or {})
    except (ValidationError, AttributeError):
        selector = ServerSelector()
    try:  # what is shown of it, or it would be written again each time
        status = ToolPolicyStatus.model_validate(item.get("status") or {})
    except ValidationError:
        status = ToolPolicyStatus()
    spec = ToolPolicySpec(servers=selector, rules=[PolicyRule(action="Deny", tools=["*"])])
    return ToolPolicy(metadata=ObjectMeta.model_validate(item["metadata"]), spec=spec, status=status)


class KubeDeclarations:
    """The three kinds together: implements `ports.Declarations`. `default_tiers` are in force where `reads_tiers` is
    False. `tiers_gone` is called when the last LatencyTier was deleted.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        server_changed: Callable[[ServerKey], None],
        rules_changed: Callable[[], None],
        default_tiers: Collection[LatencyTier] = DEFAULT_TIERS,
        drift: DriftRepairs | None = None,
        tiers_gone: Callable[[], None] = lambda: None,
    ) -> None:
        self._kube = kube
        self._tiers_gone = tiers_gone
        self._drift = drift or DriftRepairs()
        self._server_changed = server_changed
        self._rules_changed = rules_changed
        self._default_tiers = default_tiers
        self.reads_tiers = True
        """False where an installation of one namespace has no rights beyond it: its tiers are the default ones."""
        self._labels: dict[ServerKey, Mapping[str, str]] = {}
        self._of_tiers = asyncio.Lock()
        self.servers = DeclaredServers(self._on_change)
        self._tiers: Declared[LatencyTier] = Declared(LATENCY_TIERS, LatencyTier, self._tier_changed)
        self._policies: Declared[ToolPolicy] = Declared(TOOL_POLICIES, ToolPolicy, self._rule_changed)

    @property
    def has_tiers(self) -> bool:
        """Whether there is a LatencyTier, sound or not."""
        return len(self._tiers) > 0

    def stores(self) -> Mapping[Kind, Store[Json]]:
        """Stores of the kinds that may be read."""
        stores: dict[Kind, Store[Json]] = {MCP_SERVERS: self.servers, TOOL_POLICIES: self._policies}
        return {**stores, LATENCY_TIERS: self._tiers} if self.reads_tiers else stores

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
            applied = await self._show(TOOL_POLICIES, policy, body)
        except NotFound:
            return
        except Invalid as error:  # with its status goes its spec, which may be older than a rule of its kind
            logger.warning("the status of ToolPolicy %s is not shown: %s", policy.key, error)
            return
        if applied is not None:
            self._policies.update(applied)

    async def show_tiers(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        await self._show_tiers(
            {name: {"conditions": shown, "default": name == default} for name, shown in conditions.items()}
        )

    async def show_tools(self, counts: Mapping[str, int]) -> None:
        await self._show_tiers({name: {"tools": count} for name, count in counts.items()})

    async def _show_tiers(self, updates: Mapping[str, Mapping[str, object]]) -> None:
        """Set members of the status of tiers, by name. One writer at a time: an apply carries the whole status."""
        async with self._of_tiers:
            for tier in self._tiers.sound():
                update, generation = updates.get(tier.metadata.name), tier.metadata.generation
                if update is None:
                    continue
                status = tier.status.model_copy(update={**update, "observed_generation": generation})
                if status == tier.status:
                    continue
                body = {"metadata": {"name": tier.metadata.name}, "status": status.to_wire()}
                try:
                    applied = await self._show(LATENCY_TIERS, tier, body)
                except NotFound:
                    continue
                if applied is not None:
                    self._tiers.update(applied)

    async def _show(self, kind: Kind, resource: Resource, body: Json) -> Json | None:
        """Write a status; None where somebody undoes it too often. Raises ApiError."""
        namespace = resource.metadata.namespace if kind.namespaced else None
        return await self._drift.write(
            WriteTarget(kind, namespace or "", resource.metadata.name, "status"),
            content_of(body["status"]),
            Writers.of({"metadata": {"managedFields": resource.metadata.managed_fields}}, "status"),
            self._rules_changed,
            partial(self._kube.apply, kind, namespace, body, subresource="status"),
        )

    def _on_change(self, key: ServerKey, before: object, after: object) -> None:
        self._server_changed(key)
        if self._relabelled(key):
            self._rules_changed()

    def _rule_changed(self, key: ServerKey, before: object, after: object) -> None:
        self._rules_changed()

    def _tier_changed(self, key: ServerKey, before: object, after: object) -> None:
        self._rules_changed()
        if not self.has_tiers:
            self._tiers_gone()

    def _relabelled(self, key: ServerKey) -> bool:
        """Whether a server came, went or has other labels: of its changes, and most are of its status, rules know no
        others.
        """
        labels = self.servers.labels(key)
        if labels == self._labels.get(key):
            return False
        if labels is None:
            del self._labels[key]
        else:
            self._labels[key] = labels
        return True
