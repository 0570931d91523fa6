"""Ports of the reconciler, as Protocols: a cluster and a laptop are two sets of adapters behind them.

Pure declarations. `kube/` implements them on the Kubernetes API, `local/` on manifests on disk and child processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from fairlead_api.documents.catalog import Credential, CredentialRef, Endpoint
from fairlead_api.documents.store import Blob
from fairlead_api.meta import ServerKey
from fairlead_api.reports import Report
from fairlead_api.v1alpha1.causes import REASON_OF, Cause
from fairlead_api.v1alpha1.common import Condition, Resource
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus
from fairlead_kube.errors import ApiError, Forbidden, Invalid, TooBig
from fairlead_mcp.session import McpSession
from fairlead_operator.idleconnection import IdleConnection

Heard = Callable[[str], None]
Environment = Literal["cluster", "local"]


class PlatformTrouble(Exception):
    """The platform cannot be read or written now; the caller tries again later. Base of errors off a cluster."""

    @property
    def reason(self) -> str:
        """One word for metrics, as an ApiError has it."""
        return type(self).__name__


PLATFORM_ERRORS: Final = (PlatformTrouble, ApiError)
"""Raised by the adapters of `local/` and by those of `kube/`."""
REFUSALS: Final = (Forbidden, Invalid, TooBig)
"""Those of PLATFORM_ERRORS that somebody has to lift: a quota, an admission policy, missing rights."""


class UnreadableServer(Exception):
    """A resource that breaks the rules of its kind. The adapter has said so where people look."""


@dataclass(frozen=True)
class ConditionVerdict:
    """The outcome of one step for one server; becomes a condition."""

    ok: bool | None
    """None = not known yet, retried soon."""
    cause: Cause
    message: str
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Objects of this server for words in capitals in the advice about the cause."""

    @property
    def reason(self) -> Reason:
        """Reason of the condition."""
        return REASON_OF[self.cause]


@dataclass(frozen=True)
class PodCount:
    """Pods of a server, as its `scale` subresource tells them."""

    replicas: int
    """Pods that there are, ready or not."""
    selector: str
    """Labels that they are selected by, as text."""


@dataclass(frozen=True)
class Workload:
    """Workload of a server, whether it runs, and its endpoint."""

    verdict: ConditionVerdict
    """ok: it runs as far as the platform can tell; only a discovery proves that it serves."""
    endpoint: Endpoint | None
    revision: str = ""
    """Changes when what runs is replaced: a reason to discover again at once."""
    down: ConditionVerdict | None = None
    """Set while it was started and cannot be reached, as the platform sees; becomes the verdict about the server."""
    pods: PodCount | None = None
    """None where no pods are run."""
    again: float | None = None
    """Seconds until its state is to be looked at once more, without an event; None = an event tells."""
    network: ConditionVerdict | None = None
    """Whether the NetworkPolicies of its pods are enforced; None where no pods are run, or nobody looks."""
    disputed: ConditionVerdict | None = None
    """Who undoes what is written for it, again and again; None while nobody does."""

    @property
    def beside(self) -> tuple[ConditionVerdict | None, ConditionVerdict | None]:
        """Verdicts that say nothing about whether it runs: `network` and `disputed`."""
        return self.network, self.disputed


@dataclass(frozen=True)
class ResolvedCredential:
    """A credential that may be sent to the server's host; `ref` and `value` are None for a server that needs none."""

    verdict: ConditionVerdict
    ref: CredentialRef | None = None
    value: Credential | None = None
    pods: ConditionVerdict | None = None
    """Why no pods may be started or changed: a Secret that they would read may not be used, or could not be looked at.
    None: they may."""
    absent: frozenset[str] = frozenset()
    """Secrets of optional references that do not exist."""


TIER_MOVED: Final = "TierMoved"
"""Reason of an announcement that a tool is in other tiers than before."""


@dataclass(frozen=True)
class Announcement:
    """Something a person should see: an Event on a cluster, a line in the terminal off one."""

    kind: Literal["Normal", "Warning"]
    reason: str
    note: str

    @property
    def level(self) -> int:
        """Level of a log entry that says the same."""
        return logging.INFO if self.kind == "Normal" else logging.WARNING


class Platform(Protocol):
    """Where servers are declared and run. Every method but `announce` and `last_words` may raise
    PLATFORM_ERRORS."""

    @property
    def environment(self) -> Environment: ...

    async def keys(self) -> Collection[ServerKey]:
        """Every McpServer that exists now."""
        ...

    async def get(self, key: ServerKey) -> McpServer | None:
        """The resource as last seen; None when it is gone. Raises UnreadableServer."""
        ...

    async def credential(self, server: McpServer) -> ResolvedCredential:
        """Resolve the Secrets that the server refers to and store their values where the gateway finds them."""
        ...

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        """Make the server run as its spec says; does nothing where it already does."""
        ...

    async def last_words(self, server: McpServer) -> str:
        """Line that the process of a server on stdio printed last of why it failed, without secrets; empty where none
        is known, or where the failure has it already. Never raises.
        """
        ...

    def retry(self, key: ServerKey) -> None:
        """Try a server that failed again now, where the platform itself decides when; never raises."""
        ...

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        """Show the status; writes only where it differs from what is shown."""
        ...

    async def announce(self, resource: Resource, announcement: Announcement) -> None:
        """Tell people. Never raises; what cannot be told is logged."""
        ...

    async def forget(self, key: ServerKey) -> None:
        """The resource is gone: end what runs for it and is not collected by itself."""
        ...

    async def sweep(self, alive: Collection[ServerKey]) -> None:
        """Forget what is kept of servers that are not `alive`: their deletion may have gone unseen."""
        ...


class Documents(Protocol):
    """Where documents are published. Only the leader calls it. Every method may raise PLATFORM_ERRORS."""

    async def listing(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the document heads that are stored, with their labels; changes as they do."""
        ...

    async def read(self, name: str) -> bytes | None:
        """The whole document of that name, None when there is none or it does not add up."""
        ...

    async def holds(self, blobs: list[Blob]) -> bool:
        """Whether these blobs are stored as they are; labels and annotations that others added do not matter."""
        ...

    async def publish(self, blobs: list[Blob]) -> None:
        """Store the blobs of one document in the given order (head last), then delete parts that it no longer names."""
        ...

    async def withdraw(self, name: str) -> None:
        """Delete a document and its parts; fine when it is gone."""
        ...

    async def tidy(self) -> None:
        """Delete parts that no head names and that are not being written: a writer was killed before its head."""
        ...


class Declarations(Protocol):
    """Declared tiers and policies, from which the rules document is compiled."""

    async def tiers(self) -> Collection[LatencyTier]:
        """Every LatencyTier that exists now; an installation without any follows the default ones."""
        ...

    async def policies(self) -> Collection[ToolPolicy]:
        """Every ToolPolicy that exists now."""
        ...

    def policy_faults(self) -> Mapping[ServerKey, str]:
        """Policies that cannot be read, and why; among `policies` something that denies all stands for them."""
        ...

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        """Every McpServer that exists now, with its labels: what the selectors of policies select from."""
        ...

    async def show_policy(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        """Show the status of a policy. Raises PLATFORM_ERRORS."""
        ...

    async def show_tiers(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        """Show the conditions of tiers, by name, and which of them is the default; writes only where that differs from
        what is shown.

        Raises PLATFORM_ERRORS.
        """
        ...

    async def show_tools(self, counts: Mapping[str, int]) -> None:
        """Show how many tools fit each tier, by its name; writes only where that differs from what is shown.

        Raises PLATFORM_ERRORS.
        """
        ...


class GatewayTrouble(Exception):
    """A gateway replica cannot be asked now."""


class Gateways(Protocol):
    """The replicas of the gateway, asked for what they measured."""

    async def replicas(self) -> Collection[str]:
        """Names of those that exist now, by which `report` finds them. Raises GatewayTrouble."""
        ...

    async def report(self, replica: str, cursor: str, wait: float) -> Report:
        """Everything since a cursor, at once where something is urgent, else within `wait` seconds.

        Raises GatewayTrouble.
        """
        ...


class Connector(Protocol):
    """Opens the connection that a discovery runs over."""

    def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        heard: Heard | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AbstractAsyncContextManager[McpSession]:
        """A negotiated session. Raises fairlead_mcp.errors.McpError, on entry or from the session's methods.

        `heard(method)` is called with each notification that comes over it; it may not raise. `capabilities` (raw
        JSON) are declared to the server, and what it then asks is declined; None declares none.
        """
        ...

    async def line(self, key: ServerKey, endpoint: Endpoint, address: tuple[str, int] | None) -> IdleConnection | None:
        """An idle connection to where the server is; None for one that is watched over by other means.

        `address` is the address of the line before: tried while names cannot be resolved. Raises ConnectFailed.
        """
        ...
