"""Ports of the reconciler, as Protocols: a cluster and a laptop are two sets of adapters behind them.

Pure declarations. `kube/` implements them on the Kubernetes API, `local/` on manifests on disk and child processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from fairlead_api.documents.catalog import Credential, CredentialRef, Endpoint, HttpEndpoint
from fairlead_api.documents.oauth import OAuthSettings
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
from fairlead_mcp.server_listing import RawListing
from fairlead_mcp.session import McpSession
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.openapi.api_source import ApiSource

MethodObserver = Callable[[str], None]
"""Callback that receives the method of each notification."""
Environment = Literal["cluster", "local"]


class PlatformTrouble(Exception):
    """The platform cannot be read or written now; the caller retries. Base of the errors of `local/`."""

    @property
    def reason(self) -> str:
        """Value of the metrics' label `reason`, as `ApiError.reason` is."""
        return type(self).__name__


PLATFORM_ERRORS: Final = (PlatformTrouble, ApiError)
"""Raised by the adapters of `local/` and `kube/`."""
REFUSALS: Final = (Forbidden, Invalid, TooBig)
"""Those PLATFORM_ERRORS that retries do not cure: a full quota, an admission policy, missing rights."""


class UnreadableServer(Exception):
    """A resource violates the rules of its kind. The adapter has already reported that to users."""


@dataclass(frozen=True)
class ConditionVerdict:
    """Outcome of one step of a reconcile, which becomes a condition of the server."""

    ok: bool | None
    """None: not known yet; checked again soon."""
    cause: Cause
    message: str
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Values for the placeholders in capitals, such as SECRET, in the advice about the cause."""
    fault: Cause | None = field(default=None, compare=False)
    """Cause behind `cause`, which the advice is about; None if that is `cause` itself."""

    @property
    def reason(self) -> Reason:
        """Reason of the condition."""
        return REASON_OF[self.cause]


@dataclass(frozen=True)
class PodCount:
    """Pods of a server, for its `scale` subresource."""

    replicas: int
    """Number of existing pods, ready or not."""
    selector: str
    """Label selector of the pods."""


@dataclass(frozen=True)
class Workload:
    """State of a server's workload: whether it runs, and its endpoint."""

    verdict: ConditionVerdict
    """True: the workload runs as far as the platform can see; only a discovery proves that it serves MCP."""
    endpoint: Endpoint | None
    revision: str = ""
    """Changes when the running process or pods are replaced, which makes a discovery due at once."""
    outage: ConditionVerdict | None = None
    """Why a started workload cannot be reached, as the platform sees it; becomes the verdict Verified. None if the
    platform sees no obstacle.
    """
    pod_count: PodCount | None = None
    """None for a server without pods."""
    recheck_after_s: float | None = None
    """Seconds until the workload has to be checked again; None if events report all changes."""
    network_enforcement: ConditionVerdict | None = None
    """Whether the NetworkPolicies of the pods are enforced; None without pods, or without the daily probe."""
    undone_writes: ConditionVerdict | None = None
    """Names the client that keeps undoing the operator's writes for this server; None without such a client."""
    missing_pods: ConditionVerdict | None = None
    """Why some pods cannot start while others serve; None if no pods serve, or if none is known to fail."""
    replacing: bool = False
    """Whether pods of an earlier spec still run, and those that take their place are starting."""

    @property
    def side_verdicts(self) -> tuple[ConditionVerdict | None, ConditionVerdict | None]:
        """`network_enforcement` and `undone_writes`, which do not affect whether the workload counts as running."""
        return self.network_enforcement, self.undone_writes


class TokenCredential(Credential, frozen=True, kw_only=True):
    """The client with which the operator obtains a token for each of its own sessions."""

    oauth: OAuthSettings


@dataclass(frozen=True)
class OperatorCredential:
    """Credential of the operator's own sessions: discoveries, notification streams and probes."""

    value: Credential | None = None
    """A `TokenCredential` where tokens have to be obtained; None: no credential."""
    hash: str = ""
    """Changes when the credential changes."""


@dataclass(frozen=True)
class ResolvedCredential:
    """Credential of a server: sent to the server's host, or used to obtain tokens for the server."""

    verdict: ConditionVerdict
    """Verdict ResolvedRefs about all Secrets that the server refers to."""
    ref: CredentialRef | None = None
    """Where the gateway reads `value`; None for a server without credentials."""
    value: Credential | None = None
    """Credential for calls; None for a server without credentials."""
    pods_refusal: ConditionVerdict | None = None
    """Why no pods may be started or changed: a Secret that they read may not be used, or could not be checked. None:
    pods may be started.
    """
    absent_secrets: frozenset[str] = frozenset()
    """Names of the Secrets that do not exist and to which only optional references refer."""
    oauth: OAuthSettings | None = None
    """How tokens for calls are obtained with `value`; None if `value` is sent as it is."""
    own_credential: OperatorCredential | None = None
    """Credential of the operator's own sessions; None if it equals the credential for calls."""

    @property
    def operator_credential(self) -> OperatorCredential:
        """Credential with which the operator itself connects to the server."""
        return self.own_credential or OperatorCredential(self.value, self.ref.hash if self.ref else "")


TIER_MOVED: Final = "TierMoved"
"""Reason of the announcement that a tool has entered or left tiers."""


@dataclass(frozen=True)
class Announcement:
    """A message to users: an Event on a cluster, a line in the terminal elsewhere."""

    kind: Literal["Normal", "Warning"]
    reason: str
    note: str

    @property
    def level(self) -> int:
        """Level of the log entry with the same text."""
        return logging.INFO if self.kind == "Normal" else logging.WARNING


class Platform(Protocol):
    """Reads declared servers, runs them and reports their status. Every method except `announce`, `failure_line` and
    `retry` may raise PLATFORM_ERRORS.
    """

    @property
    def environment(self) -> Environment: ...

    async def keys(self) -> Collection[ServerKey]:
        """Every McpServer that exists now."""
        ...

    async def get(self, key: ServerKey) -> McpServer | None:
        """The resource as last seen; None after its deletion. Raises UnreadableServer."""
        ...

    async def credential(self, server: McpServer) -> ResolvedCredential:
        """Resolve the Secrets that the server refers to and store their values where the gateway finds them."""
        ...

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        """Start, change or stop the server's workload as its spec says; idempotent."""
        ...

    async def failure_line(self, server: McpServer) -> str:
        """The line in which a stdio server's process explains its failure, with secrets masked.

        Empty if the process printed no such line, or if the failure's message already contains the line. Never raises.
        """
        ...

    def retry(self, key: ServerKey) -> None:
        """Restart a failed server now instead of at the end of the platform's back-off; never raises."""
        ...

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        """Write the status if it differs from the stored one."""
        ...

    async def announce(self, resource: Resource, announcement: Announcement) -> None:
        """Show a message to users. Never raises; a failure to show it is logged."""
        ...

    async def forget(self, key: ServerKey) -> None:
        """Clean up after a deleted resource: end processes and delete objects without garbage collection."""
        ...

    async def sweep(self, existing_keys: Collection[ServerKey]) -> None:
        """Clean up after all servers that no longer exist, because events of deletions can be missed."""
        ...


class Documents(Protocol):
    """Store of published documents. Only the leader calls it. Every method may raise PLATFORM_ERRORS."""

    async def heads(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the head of each stored document, by the document's name; a live view."""
        ...

    async def read(self, name: str) -> bytes | None:
        """The document of that name, joined from its parts; None when it is missing, incomplete or damaged."""
        ...

    async def holds(self, blobs: list[Blob]) -> bool:
        """Whether these blobs are stored unchanged, apart from labels and annotations that other clients added."""
        ...

    async def publish(self, blobs: list[Blob]) -> None:
        """Store the blobs of one document in this order, with the head last; then delete the earlier parts of the
        document that the new head does not name.
        """
        ...

    async def withdraw(self, name: str) -> None:
        """Delete a document and its parts; no error when it does not exist."""
        ...

    async def tidy(self) -> None:
        """Delete orphaned parts, left by a writer that was killed before it wrote the head."""
        ...


class Declarations(Protocol):
    """Declared tiers and policies, from which the rules document is compiled."""

    async def tiers(self) -> Collection[LatencyTier]:
        """Every LatencyTier that exists now; without any, the default tiers apply."""
        ...

    async def policies(self) -> Collection[ToolPolicy]:
        """Every ToolPolicy that exists now."""
        ...

    def policy_faults(self) -> Mapping[ServerKey, str]:
        """Policies that cannot be read, with the error; `policies` contains a deny-all policy in place of each."""
        ...

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        """Labels of every McpServer that exists now, for the selectors of policies."""
        ...

    async def write_policy_status(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        """Write the status of a policy. Raises PLATFORM_ERRORS."""
        ...

    async def write_tier_conditions(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        """Write the conditions of tiers, by tier name, and which tier is the default, where they differ from the stored
        status. Raises PLATFORM_ERRORS.
        """
        ...

    async def write_tool_counts(self, counts: Mapping[str, int]) -> None:
        """Write the number of tools in each tier, by tier name, where it differs from the stored status. Raises
        PLATFORM_ERRORS.
        """
        ...


class GatewayTrouble(Exception):
    """A gateway replica cannot be queried now."""


class Gateways(Protocol):
    """Source of the measurements of all gateway replicas."""

    async def replicas(self) -> Collection[str]:
        """Names of the existing replicas, as `report` takes them. Raises GatewayTrouble."""
        ...

    async def report(self, replica: str, cursor: str, wait: float) -> Report:
        """The replica's report since `cursor`, by a long poll: the replica answers at once if there is a late attempt
        or a request of a user, else within `wait` seconds. Raises GatewayTrouble.
        """
        ...


class Connector(Protocol):
    """Opens connections to MCP servers for discoveries and probes."""

    def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        on_notification: MethodObserver | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AbstractAsyncContextManager[McpSession]:
        """A negotiated session. Raises fairlead_mcp.errors.McpError, on entry or from the session's methods.

        With a `TokenCredential`, a token is obtained first; if the server refuses it, a second token is obtained.

        `on_notification(method)` is called for each notification that the session receives; it must not raise.
        `capabilities` are the client capabilities (raw JSON) that the session declares; None: no capabilities. The
        session declines requests that the server sends because of these capabilities.
        """
        ...

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, address: tuple[str, int] | None
    ) -> IdleConnection | None:
        """Open an idle connection to the server's host, whose end shows that the server is down; None for a server
        whose end is detected by other means.

        `address` is the address of the previous connection, which is used while DNS fails. Raises ConnectFailed.
        """
        ...

    def end_shared_process(self, key: ServerKey) -> None:
        """End the process that the operator's sessions with a stdio server in a pod share, because the server has been
        replaced or does not answer. The next session starts a new process. No-op for other servers.
        """
        ...

    async def aclose(self) -> None:
        """End all shared processes."""
        ...

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        """Whether a server publishes protected resource metadata (RFC 9728), with which users can sign in. Never
        raises.
        """
        ...


class ApiLister(Protocol):
    """Lists the tools of HTTP APIs."""

    async def list(self, key: ServerKey, source: ApiSource) -> RawListing:
        """The tools of an API, from its OpenAPI document. Raises fairlead_mcp.errors.McpError."""
        ...

    def forget(self, key: ServerKey) -> None:
        """Drop the cached listing of a deleted server."""
        ...
