"""Implements ports for one machine: servers are child processes of this process, or remote at a URL.

Nothing here waits for an installation or for the start of a process: `ensure` returns the present state, and a server
is reconciled again when its state changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Literal, Protocol

from msgspec import structs

from fairlead_api.documents.catalog import ChildEndpoint, Credential, Endpoint, EventsEndpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.mcpserver import DefinitionApproval, McpServer, McpServerStatus
from fairlead_mcp import via
from fairlead_mcp.capabilities import decline
from fairlead_mcp.child import Child
from fairlead_mcp.egress import Egress
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.gated import LISTING_SECONDS
from fairlead_mcp.host import ChildHost
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.printed import PrintedLines
from fairlead_mcp.programs import find_program, folder_problem, missing_program, program_problem
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamState
from fairlead_operator.discovery.connector import NetworkConnector
from fairlead_operator.idle_connection import IdleConnection
from fairlead_operator.local.api_documents import LocalDocuments
from fairlead_operator.local.documents import DirectoryCredentialStore
from fairlead_operator.local.installers import Launch, PackageVersion
from fairlead_operator.local.inventory import DeclaredServer, Inventory
from fairlead_operator.local.packages import Failed, Installing, PackageStore
from fairlead_operator.local.references import inherited_environment, resolve
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.ports import Announcement, ConditionVerdict, MethodObserver, ResolvedCredential, Workload

logger = logging.getLogger(__name__)

_REMOTE: Final = ConditionVerdict(True, Cause.PROGRAMMED, "the server runs elsewhere, at its URL")
_RUNNING: Final = ConditionVerdict(True, Cause.PROGRAMMED, "the server's process runs")
_STARTING: Final = ConditionVerdict(None, Cause.DEPLOYING, "the server's process is starting")
_NEVER_STARTED: Final = frozenset({Cause.COMMAND_NOT_FOUND, Cause.START_FAILED, Cause.BACKING_OFF})
"""Failures of a process that never ran. Any other failure ended a running process."""

_SECOND_PROCESS_REASON: Final = (
    "Fairlead started a second process of it, to compare the tools that it lists to different clients"
)


class StatusObserver(Protocol):
    """Receives statuses and announcements of servers. Its methods are called in the event loop and must not raise."""

    def on_status(self, server: McpServer, status: McpServerStatus) -> None:
        """Receive each new status of a server."""
        ...

    def on_announcement(self, resource: Resource, announcement: Announcement) -> None:
        """Receive an announcement, which would be an Event on a cluster."""
        ...

    def on_removal(self, key: ServerKey) -> None:
        """Receive the key of a removed server."""
        ...


class LocalPlatform:
    """Implements the port Platform on one machine, with manifests on disk and child processes.

    `environ` supplies PATH, in which commands are searched, and the variables that their processes inherit.
    """

    environment: Literal["local"] = "local"

    def __init__(
        self,
        inventory: Inventory,
        children: ChildHost,
        packages: PackageStore,
        credentials: DirectoryCredentialStore,
        observer: StatusObserver,
        *,
        environ: Mapping[str, str],
    ) -> None:
        self._inventory = inventory
        self._children = children
        self._packages = packages
        self._credentials = credentials
        self._observer = observer
        self._environ = environ
        self._api_documents = LocalDocuments(inventory)
        self._statuses: dict[ServerKey, McpServerStatus] = {}
        self.approvals: Mapping[ServerKey, str] = {}
        """Hashes approved with `fairlead approve`, by server; they override the annotation of a manifest."""

    def __repr__(self) -> str:
        return f"<LocalPlatform {self._inventory!r}>"

    async def keys(self) -> Collection[ServerKey]:
        """Every server that is declared now."""
        return list(self._inventory.contents.servers)

    async def get(self, key: ServerKey) -> McpServer | None:
        """The server with its last reported status; None after its removal."""
        declaration = self._inventory.get(key)
        if declaration is None:
            return None
        status, approval = self._statuses.get(key), self.approvals.get(key)
        changes: dict[str, object] = {} if status is None else {"status": status}
        if approval is not None:
            changes["spec"] = declaration.server.spec.model_copy(update={"approval": DefinitionApproval(hash=approval)})
        return declaration.server.model_copy(update=changes) if changes else declaration.server

    async def credential(self, server: McpServer) -> ResolvedCredential:
        """Resolve references to Secrets and ConfigMaps of the manifests, and store the values for the gateway."""
        declaration = self._inventory.get(server.key)
        if declaration is None:
            return ResolvedCredential(
                ConditionVerdict(None, Cause.REFS_UNREADABLE, "the server was deleted in the meantime")
            )
        resolved_credential = resolve(declaration, self._inventory.contents)
        value = resolved_credential.value or Credential()
        if resolved_credential.verdict.ok:
            value = structs.replace(value, env={**inherited_environment(declaration, self._environ), **value.env})
        if value == Credential():
            self._credentials.drop(server.key)
            return replace(resolved_credential, value=None)
        return replace(resolved_credential, ref=self._credentials.store(server.key, value), value=value)

    async def ensure(self, server: McpServer, credential: ResolvedCredential) -> Workload:
        """Start the process of a stdio server. Idempotent: the process of an equal spec keeps running."""
        declaration = self._inventory.get(server.key)
        spec = server.spec
        if declaration is None or not credential.verdict.ok:
            self._children.retire(server.key)
            return Workload(ConditionVerdict(None, Cause.PENDING, "the server's references are not resolved"), None)
        if spec.url is not None:
            self._children.retire(server.key)
            kind = EventsEndpoint if spec.effective_transport == "sse" else HttpEndpoint
            endpoint = kind(url=spec.url, host_header=spec.host_header, ca_bundle=spec.ca_bundle)
            return Workload(_REMOTE, endpoint)
        if (api := ApiSource.of(server)) is not None:
            self._children.retire(server.key)
            return Workload(_REMOTE, api.endpoint(), revision=self._api_documents.revision(api.location))
        launch = self._launch(declaration)
        if isinstance(launch, ConditionVerdict):
            self._children.retire(server.key)
            return Workload(launch, None)
        return self._start(declaration, launch, credential.value)

    def retry(self, key: ServerKey) -> None:
        """Restart a process in back-off now, and retry a failed installation now."""
        declaration = self._inventory.get(key)
        package = None if declaration is None else _package(declaration.server)
        if package is not None:
            self._packages.retry(package)
        child = self._children.find(key)
        if child is not None:
            child.retry()

    async def report(self, server: McpServer, status: McpServerStatus) -> None:
        """Store the status, and report it to the observer if it changed."""
        if self._inventory.get(server.key) is not None and self._statuses.get(server.key) != status:
            self._statuses[server.key] = status
            self._observer.on_status(server, status)

    async def announce(self, resource: Resource, announcement: Announcement) -> None:
        """Pass the announcement to the observer."""
        self._observer.on_announcement(resource, announcement)

    async def failure_line(self, server: McpServer) -> str:
        """Always empty: the failure of a child process already contains its last line."""
        return ""

    async def sweep(self, existing_keys: Collection[ServerKey]) -> None:
        """Forget all servers that no longer exist."""
        for key in [key for key in self._statuses if key not in existing_keys]:
            await self.forget(key)

    async def forget(self, key: ServerKey) -> None:
        """End the server's process; drop its credential and its status."""
        self._children.retire(key)
        self._credentials.drop(key)
        self._statuses.pop(key, None)
        self._observer.on_removal(key)

    def needed_packages(self) -> set[PackageVersion]:
        """The packages of all servers that are declared now."""
        packages = (_package(declaration.server) for declaration in self._inventory.contents.servers.values())
        return {package for package in packages if package is not None}

    def installation(self, key: ServerKey) -> PrintedLines | None:
        """Lines that the installers of a server's package printed; None if none ran."""
        declaration = self._inventory.get(key)
        package = None if declaration is None else _package(declaration.server)
        return None if package is None else self._packages.printed_lines(package)

    def users_of(self, package: PackageVersion) -> list[ServerKey]:
        """The servers whose package is `package`."""
        servers = self._inventory.contents.servers.items()
        return [key for key, declaration in servers if _package(declaration.server) == package]

    def _launch(self, declaration: DeclaredServer) -> Launch | ConditionVerdict:
        """The command to run, or the verdict why there is none yet."""
        spec = declaration.server.spec
        package = _package(declaration.server)
        if package is not None:
            state = self._packages.require(package)
            if isinstance(state, Installing):
                return ConditionVerdict(None, Cause.INSTALLING, state.progress)
            if isinstance(state, Failed):
                cause = Cause.REGISTRY_UNREACHABLE if state.network else Cause.INSTALL_FAILED
                return ConditionVerdict(False, cause, f"{state.message}; the installation is retried automatically")
            extra_args = spec.package.args if spec.package is not None else []
            return replace(state.launch, args=(*state.launch.args, *extra_args))
        if spec.command is None:
            return ConditionVerdict(False, Cause.NOT_SUPPORTED_HERE, "a container image runs only on a cluster")
        program, *arguments = spec.command
        path = find_program(program, self._environ, declaration.cwd)
        if path is None and (problem := folder_problem(declaration.cwd) or program_problem(program, declaration.cwd)):
            return ConditionVerdict(False, Cause.START_FAILED, f"{program} cannot be started: {problem}")
        if path is None:
            return ConditionVerdict(False, Cause.COMMAND_NOT_FOUND, missing_program(program, declaration.cwd))
        return Launch(path, tuple(arguments))

    def _start(self, declaration: DeclaredServer, launch: Launch, credential: Credential | None) -> Workload:
        endpoint = ChildEndpoint(command=launch.command, args=launch.args, cwd=declaration.cwd)
        child = self._children.get(declaration.key, child_spec(endpoint, credential))
        programmed_verdict, outage = _verdicts(child, launch.skipped_steps)
        return Workload(programmed_verdict, endpoint, revision=str(child.starts), outage=outage)


class LocalConnector:
    """Implements the port Connector: sessions over the running child process, or over the network."""

    def __init__(self, children: ChildHost, egress: Egress | None = None, installation: str = "") -> None:
        self._children = children
        self._installation = installation
        self._single_process_specs: dict[ServerKey, ChildSpec] = {}
        """Servers whose second process ended the first, with their specs."""
        self._network = NetworkConnector(egress=egress, installation=installation)

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
        """A negotiated session. Raises McpError.

        The child keeps running after the session, and `ChildObserver` receives its notifications. A legacy child
        received its clients' capabilities when it started, so a session with other `capabilities` starts another child,
        which ends with the session.
        """
        if not isinstance(endpoint, ChildEndpoint):
            async with self._network.session(
                key, endpoint, credential, on_notification, capabilities=capabilities
            ) as session:
                yield session
            return
        spec = child_spec(endpoint, credential)
        child = self._children.get(key, spec)
        is_modern = child.negotiated is not None and child.negotiated.era is Era.MODERN
        if capabilities is None or is_modern:
            async with McpSession.over_child(child, capabilities or b"{}") as session:
                via.refuse_own(session.negotiated.gateways, self._installation)
                yield session
            return
        async with self._second_process(key, child, capabilities) as session:
            yield session

    @asynccontextmanager
    async def _second_process(self, key: ServerKey, child: Child, capabilities: bytes) -> AsyncIterator[McpSession]:
        """A session with a second process, beside that of `child`. The process ends with the session. Raises McpError.

        Some servers end every other process that listens on their port, and so end `child`. It is then restarted at
        once, and no second process of this spec is started again.
        """
        spec = child.program.spec
        if self._single_process_specs.get(key) == spec:
            raise _first_process_ended(key)
        await child.wait_until_ready(child.clock() + LISTING_SECONDS)
        loop = asyncio.get_running_loop()
        name = f"{key} as seen with client capabilities"
        session = McpSession.over_child(self._children.get(name, spec, Offering(capabilities, decline)))
        loss, connecting = loop.create_task(child.end()), loop.create_task(session.connect(LISTING_SECONDS))
        try:
            await asyncio.wait((loss, connecting), return_when=asyncio.FIRST_COMPLETED)
            if loss.done():
                raise _first_process_ended(key)
            await connecting
            yield session
        finally:
            self._children.retire(name)
            if loss.done() and child.state is not StreamState.CLOSED:
                self._single_process_specs[key] = spec
                logger.warning("%s; it is restarted", _first_process_ended(key))
                child.program.printed.add("run", f"ended because {_SECOND_PROCESS_REASON}; it is restarted")
                child.retry()
            loss.cancel()
            connecting.cancel()
            await asyncio.gather(loss, connecting, return_exceptions=True)

    def end_shared_process(self, key: ServerKey) -> None:
        """Implements Connector."""
        self._network.end_shared_process(key)

    async def aclose(self) -> None:
        """Implements Connector."""
        await self._network.aclose()

    async def open_idle_connection(
        self, key: ServerKey, endpoint: Endpoint, address: tuple[str, int] | None
    ) -> IdleConnection | None:
        """An idle connection to a remote server; None for a child, whose end its `ChildHost` reports."""
        return await self._network.open_idle_connection(key, endpoint, address)

    async def offers_sign_in(self, key: ServerKey, endpoint: HttpEndpoint) -> bool:
        """Whether a remote server publishes protected resource metadata (RFC 9728)."""
        return await self._network.offers_sign_in(key, endpoint)


def child_spec(endpoint: ChildEndpoint, credential: Credential | None) -> ChildSpec:
    """Spec of an endpoint's process. Operator and gateway compute equal specs, so that they share one process."""
    return ChildSpec.of(endpoint.command, endpoint.args, credential.env if credential else None, endpoint.cwd)


def _first_process_ended(key: ServerKey) -> ConnectFailed:
    return ConnectFailed(f"{key} ended because {_SECOND_PROCESS_REASON}", reason="StartFailed")


class ChildObserver:
    """Reconciles a server when its child process changes state, or announces a changed list."""

    def __init__(self, reconcile: Callable[[ServerKey], None], on_list_change: Callable[[ServerKey], None]) -> None:
        """`reconcile` is called after a change of state, `on_list_change` after an announcement."""
        self._reconcile = reconcile
        self._on_list_change = on_list_change

    def child_changed(self, key: Hashable, child: Child) -> None:
        """Implements ChildListener."""
        if isinstance(key, ServerKey):
            self._reconcile(key)

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        """Implements ChildListener."""
        if isinstance(key, ServerKey) and method.endswith("/list_changed"):
            self._on_list_change(key)


def _package(server: McpServer) -> PackageVersion | None:
    package = server.spec.package
    if package is None:
        return None
    return PackageVersion(package.registry, package.name, package.version, package.executable, package.allow_build)


def _verdicts(child: Child, skipped_steps: str) -> tuple[ConditionVerdict, ConditionVerdict | None]:
    """Whether the process runs, and why it ended if it ran before. A failure mentions `skipped_steps` of the
    installation, which may explain it.
    """
    if child.state is StreamState.RUNNING:
        return _RUNNING, None
    if child.failure is None or child.state is StreamState.CLOSED:
        if child.program.silent:
            return ConditionVerdict(None, Cause.SILENT, child.program.silence()), None
        if child.program.step:
            return ConditionVerdict(None, Cause.INSTALLING, child.program.step), None
        return _STARTING, None
    try:
        cause = Cause(child.failure.reason)
    except ValueError:
        cause = Cause.CONNECTION_LOST
    message = f"{child.failure}; {skipped_steps}" if skipped_steps else str(child.failure)
    verdict = ConditionVerdict(False, cause, message)
    return (verdict, None) if cause in _NEVER_STARTED else (_RUNNING, verdict)
