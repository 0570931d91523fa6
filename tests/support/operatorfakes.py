"""The operator's ports in memory: worlds for tests of the reconciler and the controller. Nothing in here does I/O.

`MemoryPlatform` stores the reports and announcements that it receives (`reported`, `announced`). Tests set its answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Credential, Endpoint, HttpEndpoint
from fairlead_api.documents.store import Blob, DocumentAssembler, part_names
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Condition, Resource
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus
from fairlead_api.v1alpha1.toolpolicy import ToolPolicy, ToolPolicyStatus
from fairlead_kube.errors import ApiError
from fairlead_mcp import capabilities
from fairlead_mcp.eras import Era, Negotiated
from fairlead_mcp.errors import ConnectionLost, RpcError, Timeout
from fairlead_mcp.session import McpSession
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.ports import (
    Announcement,
    ConditionVerdict,
    Environment,
    MethodObserver,
    PlatformTrouble,
    ResolvedCredential,
    UnreadableServer,
    Workload,
)

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
URL = "http://demo.example/mcp"
RUNS = Workload(ConditionVerdict(True, Cause.PROGRAMMED, "it runs"), HttpEndpoint(url=URL))
NO_CREDENTIAL = ResolvedCredential(ConditionVerdict(True, Cause.RESOLVED_REFS, "fine"))


def mcp_server(name: str = "demo", *, age: int = 0, uid: str = "", generation: int = 1, **spec: Any) -> McpServer:
    """An McpServer with a URL unless `spec` replaces it. `age` is in seconds before NOW."""
    created = datetime.fromtimestamp(NOW.timestamp() - age, UTC)
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-of-{name}",
        "generation": generation,
        "creationTimestamp": created.isoformat(),
    }
    runs = {"image", "package", "url", "command"} & set(spec)
    return McpServer.model_validate({"metadata": metadata, "spec": spec if runs else {"url": URL, **spec}})


@dataclass
class MemoryPlatform:
    """Stores servers in a dictionary, and results in other dictionaries."""

    servers: dict[ServerKey, McpServer] = field(default_factory=dict)
    environment: Environment = "cluster"
    workload: Workload = RUNS
    resolved: ResolvedCredential = NO_CREDENTIAL
    trouble: PlatformTrouble | None = None
    unreadable: set[ServerKey] = field(default_factory=set)
    reported: list[McpServerStatus] = field(default_factory=list)
    announced: list[Announcement] = field(default_factory=list)
    forgotten: list[ServerKey] = field(default_factory=list)
    retried: list[ServerKey] = field(default_factory=list)
    swept: list[set[ServerKey]] = field(default_factory=list)
    words: str = ""
    """Text that `failure_line` returns for every server: the last lines of its log."""

    def declare(self, *servers: McpServer) -> None:
        for server in servers:
            self.servers[server.key] = server

    async def keys(self) -> Collection[ServerKey]:
        return list(self.servers)

    async def get(self, key: ServerKey) -> McpServer | None:
        if key in self.unreadable:
            raise UnreadableServer("spec.url: too long")
        return self.servers.get(key)

    async def credential(self, server: McpServer) -> ResolvedCredential:
        return self.resolved

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        if self.trouble is not None:
            raise self.trouble
        return self.workload

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        if status.to_wire() != server.status.to_wire():
            self.reported.append(status)
            self.servers[server.key] = server.model_copy(update={"status": status})

    async def announce(self, resource: Resource, announcement: Announcement) -> None:
        self.announced.append(announcement)

    async def failure_line(self, server: McpServer) -> str:
        return self.words

    def retry(self, key: ServerKey) -> None:
        self.retried.append(key)

    async def forget(self, key: ServerKey) -> None:
        self.forgotten.append(key)

    async def sweep(self, existing_keys: Collection[ServerKey]) -> None:
        self.swept.append(set(existing_keys))


@dataclass
class MemoryDocuments:
    """Stores blobs in a dictionary. `writes` counts stored and deleted blobs."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    writes: int = 0
    trouble: PlatformTrouble | ApiError | None = None
    """Error that publishing raises until it is reset."""

    async def heads(self) -> Mapping[str, Mapping[str, str]]:
        return {blob.name: blob.labels for blob in self.blobs.values() if not blob.is_part}

    async def read(self, name: str) -> bytes | None:
        reader = DocumentAssembler()
        reader.replace(self.blobs.values())
        return reader.documents.get(name)

    async def holds(self, blobs: list[Blob]) -> bool:
        return all(self.blobs.get(blob.name) == blob for blob in blobs)

    async def publish(self, blobs: list[Blob]) -> None:
        if self.trouble is not None:
            raise self.trouble
        for blob in blobs:
            self.blobs[blob.name] = blob
        self.writes += 1

    async def withdraw(self, name: str) -> None:
        self.blobs.pop(name, None)
        self.writes += 1

    async def tidy(self) -> None:
        named = {part for blob in self.blobs.values() for part in part_names(blob)}
        for name in [blob.name for blob in self.blobs.values() if blob.is_part and blob.name not in named]:
            del self.blobs[name]


@dataclass
class MemoryDeclarations:
    """Declared tiers and policies, from which rules are compiled."""

    tier_list: list[LatencyTier] = field(default_factory=list)
    policy_list: list[ToolPolicy] = field(default_factory=list)
    label_map: dict[ServerKey, dict[str, str]] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    """Number of tools by tier, from the last report."""

    async def tiers(self) -> Collection[LatencyTier]:
        return self.tier_list

    async def policies(self) -> Collection[ToolPolicy]:
        return self.policy_list

    def policy_faults(self) -> Mapping[ServerKey, str]:
        return {}

    async def labels(self) -> Mapping[ServerKey, Mapping[str, str]]:
        return self.label_map

    async def write_policy_status(self, policy: ToolPolicy, status: ToolPolicyStatus) -> None:
        self.policy_list = [
            each.model_copy(update={"status": status}) if each.key == policy.key else each for each in self.policy_list
        ]

    async def write_tier_conditions(self, conditions: Mapping[str, list[Condition]], default: str | None) -> None:
        self.tier_conditions = dict(conditions)

    async def write_tool_counts(self, counts: Mapping[str, int]) -> None:
        self.shown = dict(counts)


def tool_named(name: str) -> dict[str, Any]:
    """The smallest definition that can be offered."""
    return {"name": name, "inputSchema": {"type": "object"}}


@dataclass
class Script:
    """Behavior of a server: listings by method, an error to raise, or a hang."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    listings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=lambda: {"tools": {}})
    instructions: str | None = None
    ttl_ms: int | None = None
    """`ttlMs` of its listings."""
    listened: asyncio.Event | None = None
    """If set, the server has a notification stream, which ends when the event is set."""
    says: tuple[str, ...] = ()
    """Methods of the notifications that the stream sends when it is opened."""
    error: Exception | None = None
    hang: bool = False
    takes: float = 0.0
    """Seconds of the loop's clock that `tools/list` takes."""
    failing: dict[str, Exception] = field(default_factory=dict)
    """Error to raise instead of the listing, by method."""
    gated: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Tools that are listed only to clients with a capability, by name of the capability."""
    incomparable: Exception | None = None
    """Error for sessions that declare capabilities."""
    has_metadata: bool = False
    """Whether it publishes protected-resource metadata."""
    connections: int = 0
    """Number of sessions without capabilities."""
    comparable: asyncio.Event | None = None
    """Event that sessions with capabilities wait for."""
    compared: list[bytes] = field(default_factory=list)
    """Capabilities of the other sessions."""


class ScriptedChannel:
    """Transport of a session with a server in this process."""

    remarks: tuple[str, ...] = ()

    def __init__(
        self, script: Script, capabilities: bytes | None = None, on_notification: MethodObserver | None = None
    ) -> None:
        self._script = script
        self._on_notification = on_notification
        self._capabilities = capabilities
        self.negotiated: Negotiated | None = None

    async def connect(self, deadline: float) -> Negotiated:
        script = self._script
        if self._capabilities is None:
            script.connections += 1
        else:
            script.compared.append(self._capabilities)
            if script.comparable is not None:
                await script.comparable.wait()
            if script.incomparable is not None:
                raise script.incomparable
        if script.hang:
            await asyncio.Event().wait()
        if script.error is not None:
            raise script.error
        self.negotiated = Negotiated(
            era=Era.MODERN,
            protocol_version="2026-07-28",
            server_info=Raw(b'{"name":"scripted","version":"1"}'),
            capabilities=Raw(msgspec.json.encode(script.capabilities)),
            instructions=script.instructions,
        )
        return self.negotiated

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = "") -> Raw:
        member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/", maxsplit=1)[0])
        if method in self._script.failing:
            raise self._script.failing[method]
        if method == "tools/list" and self._script.takes:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await asyncio.sleep(self._script.takes)
            except TimeoutError as error:
                raise Timeout("the server did not answer in time", sent=True) from error
        more = [
            tool
            for name, tools in self._script.gated.items()
            if capabilities.declares(self._capabilities, name)
            for tool in tools
        ]
        listings = {"tools/list": [*self._script.tools, *more], **self._script.listings}
        if method not in listings:
            raise RpcError(-32601, "Method not found")
        hint = {} if self._script.ttl_ms is None else {"ttlMs": self._script.ttl_ms}
        return Raw(msgspec.json.encode({member: listings[method], **hint}))

    async def listen(self, deadline: float) -> None:
        if self._script.listened is not None:
            if self._on_notification is not None:
                for method in self._script.says:
                    self._on_notification(method)
            await self._script.listened.wait()
            raise ConnectionLost("the stream ended", sent=True)
        raise RpcError(-32601, "Method not found")

    async def aclose(self) -> None:
        return None


@dataclass
class ScriptedConnector:
    """Sessions with scripted servers, by key. A server without a script refuses the connection."""

    scripts: dict[ServerKey, Script] = field(default_factory=dict)

    @asynccontextmanager
    async def session(
        self,
        key: ServerKey,
        endpoint: Endpoint,
        credential: Credential | None,
        on_notification: MethodObserver | None = None,
        *,
        capabilities: bytes | None = None,
    ) -> AsyncIterator[McpSession]:
        async with McpSession(ScriptedChannel(self.scripts[key], capabilities, on_notification)) as session:
            yield session

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, negotiated: tuple[str, int] | None
    ) -> IdleConnection | None:
        return None

    def end_shared_process(self, key: ServerKey) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        return self.scripts[key].has_metadata


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until `condition` is true. Only for conditions that nothing outside of this loop can change."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a step of the loop, not a wait
            await asyncio.sleep(0)
