"""Inventory of the resources that are declared on this machine, in place of an API server's objects. No I/O.

The inventory sets the metadata that an API server would set: UID, generation (number of changes of the spec) and
creation time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fairlead_api.documents.catalog import Credential
from fairlead_api.load import ManifestOrigin, ManifestProblem, RefusedServer
from fairlead_api.meta import ServerKey, short_hash
from fairlead_api.v1alpha1.causes import cause_of
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus

ResourceName = tuple[str, str, str]
"""Kind, namespace and name of a resource."""


@dataclass(frozen=True)
class DeclaredSecret:
    """A Secret or ConfigMap in a manifest, to which `env` and `auth` may refer."""

    namespace: str
    name: str
    data: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, keys={sorted(self.data)})"


@dataclass(frozen=True)
class DeclaredServer:
    """An McpServer, with the members of a client configuration that the McpServer kind lacks."""

    server: McpServer
    credential: Credential = field(default_factory=Credential)
    cwd: str | None = None
    """Absolute path of the working directory; None: the working directory of `fairlead up`."""
    origin: str = ""
    """File and line of the declaration, for messages."""
    secret: DeclaredSecret | None = None
    """Secrets for `spec.auth` and `spec.discovery.auth` that the client configuration itself contains."""

    @property
    def key(self) -> ServerKey:
        return self.server.key


@dataclass(frozen=True)
class Contents:
    """All declared resources."""

    servers: Mapping[ServerKey, DeclaredServer] = field(default_factory=dict)
    tiers: tuple[LatencyTier, ...] = ()
    policies: tuple[ToolPolicy, ...] = ()
    secrets: Mapping[tuple[str, str], DeclaredSecret] = field(default_factory=dict)
    config_maps: Mapping[tuple[str, str], DeclaredSecret] = field(default_factory=dict)
    refused_servers: Mapping[ServerKey, RefusedServer] = field(default_factory=dict)
    """Servers with an invalid declaration. A server that is also in `servers` keeps running as declared before."""
    origins: Mapping[ResourceName, ManifestOrigin] = field(default_factory=dict)
    """Position of each tier and policy, for messages."""


@dataclass(frozen=True)
class Difference:
    """Differences between the contents of an inventory before and after a change."""

    servers: frozenset[ServerKey]
    """Added, changed and removed servers."""
    rules: bool
    """Whether the rules document has to be compiled again."""

    def __bool__(self) -> bool:
        return bool(self.servers) or self.rules


class Inventory:
    """The current contents. Implements the port Declarations.

    `on_fault` is called when the faults of policies or tiers change.
    """

    def __init__(
        self, now: Callable[[], datetime] = lambda: datetime.now(UTC), on_fault: Callable[[], None] = lambda: None
    ) -> None:
        self._now = now
        self._on_fault = on_fault
        self._contents = Contents()
        self._faults: dict[ResourceName, str] = {}
        """Sentence about the parts without effect of each policy and tier that has such parts."""

    def __repr__(self) -> str:
        return f"<Inventory of {len(self._contents.servers)} servers>"

    @property
    def contents(self) -> Contents:
        return self._contents

    @property
    def faults(self) -> list[ManifestProblem]:
        """Parts of policies and tiers that have no effect, such as a rule that matches no tool."""
        return [
            ManifestProblem(origin.file, origin.line, f"{name[0]} {name[2]}", self._faults[name])
            for name, origin in self._contents.origins.items()
            if name in self._faults
        ]

    def get(self, key: ServerKey) -> DeclaredServer | None:
        """The server with this key; None if it is not declared."""
        return self._contents.servers.get(key)

    def replace(self, contents: Contents) -> Difference:
        """Replace the contents, and return the difference."""
        old_contents = self._contents
        servers = {key: self._identify(declaration) for key, declaration in contents.servers.items()}
        self._contents = replace(contents, servers=servers)
        self._faults = {name: fault for name, fault in self._faults.items() if name in contents.origins}
        changed_servers = {
            key for key in {*old_contents.servers, *servers} if old_contents.servers.get(key) != servers.get(key)
        }
        if (old_contents.secrets, old_contents.config_maps) != (contents.secrets, contents.config_maps):
            changed_servers |= set(servers)
        labels_changed = _labels(old_contents.servers.values()) != _labels(servers.values())
        rules_changed = labels_changed or (old_contents.tiers, old_contents.policies) != (
            contents.tiers,
            contents.policies,
        )
        return Difference(frozenset(changed_servers), rules_changed)

    async def tiers(self) -> Collection[LatencyTier]:
        """Every LatencyTier that is declared."""
        return self._contents.tiers

    async def policies(self) -> Collection[ToolPolicy]:
        """Every ToolPolicy that is declared."""
        return self._contents.policies

    def policy_faults(self) -> Mapping[ServerKey, str]:
        """Always empty: the last readable version of a broken file stays in use."""
        return {}

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        """Labels of every declared server."""
        return _labels(self._contents.servers.values())

    async def write_policy_status(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        """Store which parts of the policy have no effect: a declaration in a file has no status that could tell it.

        Conflicts are left out: a policy that denies what another one allows is how exceptions are written.
        """
        self._set_fault(("ToolPolicy", *policy.key), status.condition(ConditionType.PARTIALLY_INVALID))

    async def write_tier_conditions(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        """Store which tiers have `default: true` without effect."""
        for tier in self._contents.tiers:
            conflicts = [
                condition
                for condition in conditions.get(tier.metadata.name, ())
                if condition.type == ConditionType.CONFLICTED
            ]
            self._set_fault(("LatencyTier", *tier.key), conflicts[0] if conflicts else None)

    async def write_tool_counts(self, counts: Mapping[str, int]) -> None:
        """No-op: declarations in files have no status. `fairlead tiers` shows the numbers."""

    def _set_fault(self, name: ResourceName, condition: Condition | None) -> None:
        fault = cause_of(condition)[1] if condition is not None and condition.status == "True" else ""
        if fault == self._faults.get(name, ""):
            return
        self._faults.pop(name, None)
        if fault:
            self._faults[name] = fault
        self._on_fault()

    def _identify(self, declaration: DeclaredServer) -> DeclaredServer:
        key = declaration.key
        previous = self._contents.servers.get(key)
        if previous is None:
            identity = {"uid": f"local-{short_hash(*key)}", "generation": 1, "creation_timestamp": self._now()}
        else:
            previous_metadata = previous.server.metadata
            has_changed = previous.server.spec != declaration.server.spec
            identity = {
                "uid": previous_metadata.uid,
                "generation": previous_metadata.generation + has_changed,
                "creation_timestamp": previous_metadata.creation_timestamp,
            }
        metadata = declaration.server.metadata.model_copy(update=identity)
        server = declaration.server.model_copy(update={"metadata": metadata})
        return replace(declaration, server=server)


def _labels(servers: Iterable[DeclaredServer]) -> dict[ServerKey, Mapping[str, str]]:
    return {declaration.key: declaration.server.metadata.labels for declaration in servers}
