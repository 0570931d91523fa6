"""Stores of Fairlead's custom resources: LatencyTiers and ToolPolicies parsed once per change, McpServers as JSON.

Kopf's events (`handlers`) fill the stores, and so do complete lists at the start and every `list_seconds` (`Informer`).
The lists are needed because Kopf does not report deletions that happened while its connection was down, and a deleted
policy must not stay in force.
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
from fairlead_kube.client import EXCESS_MEMBER, Json, Kube
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
class BrokenResource:
    """A resource that violates the model of its kind: it is older than a validation rule, or was written without
    validation.
    """

    item: Json
    """The resource as the API server returned it."""
    problem: str
    """The errors of the validation, for a message."""


class DeclaredResources(ObjectStore[R | BrokenResource], Generic[R]):
    """Store of all resources of a kind, in all namespaces or in one; each resource is parsed once per change."""

    def __init__(
        self,
        kind: Kind,
        model: type[R],
        on_change: Callable[[ServerKey, R | BrokenResource | None, R | BrokenResource | None], None],
    ) -> None:
        super().__init__(self._parse, on_change)
        self._kind = kind
        self._model = model

    def valid(self) -> list[R]:
        """Resources that could be parsed."""
        return [content for content in self.values() if not isinstance(content, BrokenResource)]

    def broken_resources(self) -> dict[ServerKey, BrokenResource]:
        """Resources that could not be parsed."""
        return {key: content for key in self if isinstance(content := self.get(key), BrokenResource)}

    def _parse(self, item: Json) -> R | BrokenResource:
        content = _parse_resource(self._model, _slim(item))
        if isinstance(content, BrokenResource):
            logger.warning("%s %s cannot be read: %s", self._kind.kind, key_of(item), content.problem)
        return content


class DeclaredServers(ObjectStore[bytes]):
    """Store of all McpServers, in all namespaces or in one, as JSON that is parsed on access.

    A parsed server with its status takes ten times the memory of its JSON, and a reconcile reads only one server.
    """

    def __init__(self, on_change: Callable[[ServerKey, bytes | None, bytes | None], None]) -> None:
        super().__init__(lambda item: msgspec.json.encode(_slim(item)), on_change)

    def server(self, key: ServerKey) -> McpServer | BrokenResource | None:
        """The server as last seen; None if it does not exist."""
        text = self.get(key)
        return None if text is None else _parse_resource(McpServer, msgspec.json.decode(text))

    def labels(self, key: ServerKey) -> Mapping[str, str] | None:
        """Labels of a server; None if it does not exist or cannot be parsed."""
        text = self.get(key)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=_LabelledServer).metadata.labels
        except msgspec.ValidationError:
            return None


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _LabelledServer(msgspec.Struct):
    """The part of an McpServer's JSON that contains its labels."""

    metadata: _Labels


def _slim(item: Json) -> Json:
    """A copy of an API object whose `managedFields` only show who wrote the status and when, to save memory."""
    metadata = dict(item["metadata"])
    if managed := metadata.get("managedFields"):
        metadata["managedFields"] = [
            {k: v for k, v in entry.items() if k in _MANAGER}
            for entry in managed
            if entry.get("subresource") == "status"
        ]
    return {**item, "metadata": metadata}


def _parse_resource(model: type[R], item: Json) -> R | BrokenResource:
    if EXCESS_MEMBER in item:
        return BrokenResource(item, f"the resource is too large to be read: it has {item[EXCESS_MEMBER]}")
    try:
        return model.model_validate(item)
    except ValidationError as error:
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return BrokenResource(item, problem)


def deny_all_policy(item: Json) -> ToolPolicy:
    """Replacement of a policy that cannot be parsed: it denies everybody all tools of the servers that the policy
    selects.

    Without the replacement, other policies could allow what the broken policy was meant to deny.
    """
    try:
        selector = ServerSelector.model_validate(item.get("spec", {}).get("servers") or {})
    except (ValidationError, AttributeError):
        selector = ServerSelector()
    try:  # the stored status, so that an equal status is not written again each time
        status = ToolPolicyStatus.model_validate(item.get("status") or {})
    except ValidationError:
        status = ToolPolicyStatus()
    spec = ToolPolicySpec(servers=selector, rules=[PolicyRule(action="Deny", tools=["*"])])
    return ToolPolicy(metadata=ObjectMeta.model_validate(item["metadata"]), spec=spec, status=status)


class KubeDeclarations:
    """Implements `ports.Declarations` with one store for each of the three kinds.

    `default_tiers` apply if `reads_tiers` is False. `tiers_gone` is called when the last LatencyTier was deleted.
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
        """Whether LatencyTiers can be read. False for an installation of one namespace without cluster-wide rights."""
        self._labels: dict[ServerKey, Mapping[str, str]] = {}
        self._tier_lock = asyncio.Lock()
        self.servers = DeclaredServers(self._on_change)
        self._tiers: DeclaredResources[LatencyTier] = DeclaredResources(LATENCY_TIERS, LatencyTier, self._tier_changed)
        self._policies: DeclaredResources[ToolPolicy] = DeclaredResources(TOOL_POLICIES, ToolPolicy, self._rule_changed)

    @property
    def has_tiers(self) -> bool:
        """Whether a LatencyTier exists, valid or not."""
        return len(self._tiers) > 0

    def stores(self) -> Mapping[Kind, Store[Json]]:
        """Stores of the kinds that this installation may read."""
        stores: dict[Kind, Store[Json]] = {MCP_SERVERS: self.servers, TOOL_POLICIES: self._policies}
        return {**stores, LATENCY_TIERS: self._tiers} if self.reads_tiers else stores

    async def tiers(self) -> Collection[LatencyTier]:
        return self._tiers.valid() if self.reads_tiers else self._default_tiers

    async def policies(self) -> Collection[ToolPolicy]:
        return [
            *self._policies.valid(),
            *(deny_all_policy(broken.item) for broken in self._policies.broken_resources().values()),
        ]

    def policy_faults(self) -> Mapping[ServerKey, str]:
        return {key: broken.problem for key, broken in self._policies.broken_resources().items()}

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        return dict(self._labels)

    async def write_policy_status(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        body = {"metadata": {"name": policy.metadata.name}, "status": status.to_wire()}
        try:
            answer = await self._write_status(TOOL_POLICIES, policy, body)
        except NotFound:
            return
        except Invalid as error:  # the API server validates the spec too, which may be older than a validation rule
            logger.warning("the status of ToolPolicy %s cannot be written: %s", policy.key, error)
            return
        if answer is not None:
            self._policies.update(answer)

    async def write_tier_conditions(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        await self._write_tier_status(
            {
                name: {"conditions": tier_conditions, "default": name == default}
                for name, tier_conditions in conditions.items()
            }
        )

    async def write_tool_counts(self, counts: Mapping[str, int]) -> None:
        await self._write_tier_status({name: {"tools": count} for name, count in counts.items()})

    async def _write_tier_status(self, updates: Mapping[str, Mapping[str, object]]) -> None:
        """Set members of the status of tiers, by tier name. Writes are serialized, because each server-side apply sends
        the whole status and would overwrite a concurrent change of another member.
        """
        async with self._tier_lock:
            for tier in self._tiers.valid():
                update, generation = updates.get(tier.metadata.name), tier.metadata.generation
                if update is None:
                    continue
                status = tier.status.model_copy(update={**update, "observed_generation": generation})
                if status == tier.status:
                    continue
                body = {"metadata": {"name": tier.metadata.name}, "status": status.to_wire()}
                try:
                    answer = await self._write_status(LATENCY_TIERS, tier, body)
                except NotFound:
                    continue
                if answer is not None:
                    self._tiers.update(answer)

    async def _write_status(self, kind: Kind, resource: Resource, body: Json) -> Json | None:
        """Write a status; None if the write is postponed because another client keeps undoing it. Raises ApiError."""
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
        if self._update_labels(key):
            self._rules_changed()

    def _rule_changed(self, key: ServerKey, before: object, after: object) -> None:
        self._rules_changed()

    def _tier_changed(self, key: ServerKey, before: object, after: object) -> None:
        self._rules_changed()
        if not self.has_tiers:
            self._tiers_gone()

    def _update_labels(self, key: ServerKey) -> bool:
        """Update the labels of a server; returns whether the server was added, deleted or relabelled. Other changes of
        a server, most of which concern its status, do not affect the rules document.
        """
        labels = self.servers.labels(key)
        if labels == self._labels.get(key):
            return False
        if labels is None:
            del self._labels[key]
        else:
            self._labels[key] = labels
        return True
