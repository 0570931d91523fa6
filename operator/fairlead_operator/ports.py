"""What the reconciler needs of the world, as Protocols: a cluster and a laptop are two sets of adapters behind them.

Pure declarations. `kube/` implements them on the Kubernetes API, `local/` on manifests on disk and child processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_mcp.session import McpSession

from fairlead_api.documents.catalog import Credential, CredentialRef, Endpoint
from fairlead_api.documents.store import Blob
from fairlead_api.meta import ServerKey

Environment = Literal["cluster", "local"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one step for one server; becomes a condition."""

    ok: bool | None
    """None = not known yet, retried soon."""
    reason: str
    """A constant of `fairlead_api.v1alpha1.conditions`."""
    message: str


@dataclass(frozen=True)
class Workload:
    """What runs (or does not) for a server, and where it is reached."""

    verdict: Verdict
    """ok: it runs as far as the platform can tell; only a discovery proves that it serves."""
    endpoint: Endpoint | None


@dataclass(frozen=True)
class ResolvedCredential:
    """A credential that may be sent to the server's host; `ref` and `value` are None for a server that needs none."""

    verdict: Verdict
    ref: CredentialRef | None = None
    value: Credential | None = None


@dataclass(frozen=True)
class Announcement:
    """Something a person should see: an Event on a cluster, a line in the terminal off one."""

    kind: Literal["Normal", "Warning"]
    reason: str
    note: str


class Platform(Protocol):
    """Where servers are declared and run."""

    @property
    def environment(self) -> Environment: ...

    async def keys(self) -> Collection[ServerKey]:
        """Every McpServer that exists now."""
        ...

    async def get(self, key: ServerKey) -> McpServer | None:
        """The resource as last seen; None when it is gone."""
        ...

    async def credential(self, server: McpServer) -> ResolvedCredential:
        """Resolve the Secrets that the server refers to and store their values where the gateway finds them."""
        ...

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        """Make the server run as its spec says; does nothing where it already does."""
        ...

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        """Show the status; writes only where it differs from what is shown."""
        ...

    async def announce(self, server: McpServer, announcement: Announcement) -> None:
        """Tell people. Never raises; what cannot be told is logged."""
        ...

    async def forget(self, key: ServerKey) -> None:
        """The resource is gone: end what runs for it and is not collected by itself."""
        ...


class Documents(Protocol):
    """Where documents are published. Only the leader calls it."""

    async def listing(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the document heads that are stored, with their labels."""
        ...

    async def read(self, name: str) -> bytes | None:
        """The whole document of that name, None when there is none or it does not add up."""
        ...

    async def publish(self, blobs: list[Blob]) -> None:
        """Store the blobs of one document in the given order (head last), then delete parts that it no longer names."""
        ...

    async def withdraw(self, name: str) -> None:
        """Delete a document and its parts; fine when it is gone."""
        ...


class Connector(Protocol):
    """Opens the connection that a discovery runs over."""

    def session(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> AbstractAsyncContextManager[McpSession]:
        """A negotiated session. Raises fairlead_mcp.errors.McpError, on entry or from the session's methods."""
        ...
