"""Declared resources of this machine, by key: the counterpart of the API server's objects. No I/O.

Filled by `sources` and by the quick start, read by `platform`. Gives each resource what an API server would: a uid, a
generation that counts changes of the spec, and a creation time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fairlead_api.documents.catalog import Credential
from fairlead_api.load import RefusedServer
from fairlead_api.meta import ServerKey, short_hash
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus


@dataclass(frozen=True)
class DeclaredSecret:
    """A Secret (or ConfigMap) of a manifest: what env and auth may refer to."""

    namespace: str
    name: str
    data: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, keys={sorted(self.data)})"


@dataclass(frozen=True)
class DeclaredServer:
    """An McpServer, and what a client configuration says beyond it."""

    server: McpServer
    credential: Credential = field(default_factory=Credential)
    cwd: str | None = None
    """Absolute; None = the folder that `fairlead up` runs in."""
    origin: str = ""
    """Where it is declared, for people."""

    @property
    def key(self) -> ServerKey:
        return self.server.key


@dataclass(frozen=True)
class Contents:
    """Everything that is declared."""

    servers: Mapping[ServerKey, DeclaredServer] = field(default_factory=dict)
    tiers: tuple[LatencyTier, ...] = ()
    policies: tuple[ToolPolicy, ...] = ()
    secrets: Mapping[tuple[str, str], DeclaredSecret] = field(default_factory=dict)
    config_maps: Mapping[tuple[str, str], DeclaredSecret] = field(default_factory=dict)
    refused: Mapping[ServerKey, RefusedServer] = field(default_factory=dict)
    """Servers whose declaration cannot be used; one that is among `servers` runs on as it was declared before."""


@dataclass(frozen=True)
class Difference:
    """Keys that a replacement added, changed and removed."""

    servers: frozenset[ServerKey]
    """New, changed and gone."""
    rules: bool
    """The rules document has to be compiled again."""

    def __bool__(self) -> bool:
        return bool(self.servers) or self.rules


class Inventory:
    """The current contents. Implements the Declarations port."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._contents = Contents()

    def __repr__(self) -> str:
        return f"<Inventory of {len(self._contents.servers)} servers>"

    @property
    def contents(self) -> Contents:
        return self._contents

    def get(self, key: ServerKey) -> DeclaredServer | None:
        """The server of that key; None when it is gone."""
        return self._contents.servers.get(key)

    def replace(self, contents: Contents) -> Difference:
        """Take over what is declared now, and say what differs from before."""
        before = self._contents
        servers = {key: self._identify(declared) for key, declared in contents.servers.items()}
        self._contents = replace(contents, servers=servers)
        changed = {key for key in {*before.servers, *servers} if before.servers.get(key) != servers.get(key)}
        if (before.secrets, before.config_maps) != (contents.secrets, contents.config_maps):
            changed |= set(servers)
        labels_moved = _labels(before.servers.values()) != _labels(servers.values())
        rules = labels_moved or (before.tiers, before.policies) != (contents.tiers, contents.policies)
        return Difference(frozenset(changed), rules)

    async def tiers(self) -> Collection[LatencyTier]:
        """Every LatencyTier that is declared."""
        return self._contents.tiers

    async def policies(self) -> Collection[ToolPolicy]:
        """Every ToolPolicy that is declared."""
        return self._contents.policies

    def policy_faults(self) -> Mapping[ServerKey, str]:
        """None: a file that cannot be read stays as it was read last."""
        return {}

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        """Every server with its labels."""
        return _labels(self._contents.servers.values())

    async def show_policy(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        """Declarations in files have no status; what is amiss is announced."""

    async def show_tiers(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        """Declarations in files have no status."""

    async def show_tools(self, counts: Mapping[str, int]) -> None:
        """Declarations in files have no status; `fairlead tiers` shows the sizes."""

    def _identify(self, declared: DeclaredServer) -> DeclaredServer:
        key = declared.key
        before = self._contents.servers.get(key)
        if before is None:
            identity = {"uid": f"local-{short_hash(*key)}", "generation": 1, "creation_timestamp": self._now()}
        else:
            before_metadata = before.server.metadata
            moved = before.server.spec != declared.server.spec
            identity = {
                "uid": before_metadata.uid,
                "generation": before_metadata.generation + moved,
                "creation_timestamp": before_metadata.creation_timestamp,
            }
        metadata = declared.server.metadata.model_copy(update=identity)
        server = declared.server.model_copy(update={"metadata": metadata})
        return DeclaredServer(server, declared.credential, declared.cwd, declared.origin)


def _labels(servers: Iterable[DeclaredServer]) -> dict[ServerKey, Mapping[str, str]]:
    return {declared.key: declared.server.metadata.labels for declared in servers}
