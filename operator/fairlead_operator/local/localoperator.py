"""The operator of one machine: composes inventory, platform, packages and controller, and scans files for changes.

The child processes are shared with the gateway, which runs in the same process. Everything runs in one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from fairlead_api.documents.servers import MESSAGE_CHARS, FileProblem, ServerEntry
from fairlead_api.load import ManifestProblem
from fairlead_api.meta import ServerKey
from fairlead_mcp.egress import Egress
from fairlead_mcp.host import ChildHost
from fairlead_mcp.printed import PrintedLines
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import ControllerOptions, PlatformAdapters
from fairlead_operator.local import approvals
from fairlead_operator.local.api_documents import LocalDocuments
from fairlead_operator.local.documents import (
    DirectoryCredentialStore,
    DirectoryDocuments,
    UnwrittenFiles,
    private_directory,
)
from fairlead_operator.local.installers import PackageVersion, Tools
from fairlead_operator.local.inventory import Contents, Inventory
from fairlead_operator.local.packages import PackageStore, StepRunner
from fairlead_operator.local.platform import ChildObserver, LocalConnector, LocalPlatform, StatusObserver
from fairlead_operator.local.sources import Scan
from fairlead_operator.openapi.api_listings import ApiListings
from fairlead_operator.ports import Gateways
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.server.document_entries import entry_of_outdated, entry_of_refused
from fairlead_operator.server.prefixes import default_prefix, requested_prefix
from fairlead_operator.telemetry import Telemetry
from fairlead_operator.workqueue import ItemBackoff

SCAN_SECONDS: Final = 0.25
"""Seconds between two scans of the files; a change takes effect within twice this time."""
DOCUMENTS_SECONDS: Final = 2.0
"""Minimum seconds between two writes of measured latencies. Writes of local files are cheap, and a user who has just
called a tool wants to see how fast it was.
"""
RETRY_SECONDS: Final = 4.0
"""Maximum seconds between two attempts for a server whose files cannot be written. Retries load no API server."""
UNWRITTEN_SECONDS: Final = 15.0
"""Seconds after which a file that could not be written is no longer reported, because nothing retries the write."""


class Scanner(Protocol):
    """Source of declarations."""

    def scan(self) -> Scan | None:
        """All present declarations; None if nothing changed since the last scan."""
        ...


class FixedDeclarations:
    """Declarations that never change, as in the quick start."""

    def __init__(self, contents: Contents) -> None:
        self._scan: Scan | None = Scan(contents, ())

    def scan(self) -> Scan | None:
        """Implements Scanner."""
        scan, self._scan = self._scan, None
        return scan


@dataclass(frozen=True)
class Folders:
    """Folders of the operator's files."""

    documents: Path
    credentials: Path
    packages: Path
    approvals: Path | None = None
    """Folder into which `fairlead approve` writes approvals; None: approvals are not read."""


@dataclass(frozen=True, kw_only=True)
class LocalObserver:
    """Callbacks for events of one machine's servers."""

    statuses: StatusObserver
    problems: Callable[[tuple[ManifestProblem, ...]], None]
    """Receives all problems of the files, and of the folders of the documents, whenever they change."""
    on_document_write: Callable[[], None] = lambda: None
    """Called after each write of a document."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Settings of an operator of one machine."""

    environ: Mapping[str, str]
    """Environment variables that may be passed on to servers."""
    gateways: Gateways | None = None
    """Gateways that are polled for measurements; None: tiers decide by declared latencies."""
    egress: Egress | None = None
    installation: str = ""
    """Name in the `Via` header of requests to servers."""
    telemetry: Telemetry | None = None
    reconciler: ReconcilerOptions = field(default_factory=ReconcilerOptions)
    default_tier: str = ""


class LocalOperator:
    """The operator of one machine, without a cluster."""

    def __init__(
        self,
        scanner: Scanner,
        folders: Folders,
        children: ChildHost,
        tools: Tools,
        observer: LocalObserver,
        options: LocalOptions,
    ) -> None:
        self._scanner = scanner
        self._approvals = folders.approvals
        self._problems = observer.problems
        self._runner = StepRunner()
        self._packages = PackageStore(
            private_directory(folders.packages), tools, self._runner, on_change=self._on_package_change
        )
        self.inventory = Inventory(on_fault=self._report_problems)
        self._scan = Scan(self.inventory.contents, ())
        self._storage_problems: tuple[ManifestProblem, ...] = ()
        self._unwritten_files = UnwrittenFiles(self._report_unwritten)
        self.documents = DirectoryDocuments(folders.documents, observer.on_document_write, self._unwritten_files)
        self._platform = LocalPlatform(
            self.inventory,
            children,
            self._packages,
            DirectoryCredentialStore(folders.credentials, self._unwritten_files),
            observer.statuses,
            environ=options.environ,
        )
        self._api_documents = LocalDocuments(self.inventory)
        connector = LocalConnector(children, options.egress, options.installation)
        apis = ApiListings(self._api_documents.read, options.egress)
        adapters = PlatformAdapters(self._platform, self.documents, connector, self.inventory, options.gateways, apis)
        installation_options = InstallationOptions(
            options.reconciler,
            ControllerOptions(documents_s=DOCUMENTS_SECONDS, backoff=ItemBackoff(limit=RETRY_SECONDS)),
            default_tier=options.default_tier,
            gateway_approvals=True,
        )
        self._prefix_style = installation_options.reconciler.prefix_style
        self.controller = compose(adapters, installation_options, telemetry=options.telemetry)
        self._stop_listening = children.listen(
            ChildObserver(self.controller.queue.add, self.controller.reconciler.request_discovery)
        )

    def __repr__(self) -> str:
        return f"<LocalOperator {self.inventory!r}>"

    @property
    def declared_servers(self) -> Mapping[ServerKey, str]:
        """Each declared server, with the file and line of its declaration."""
        return {key: declaration.origin for key, declaration in self.inventory.contents.servers.items()}

    @property
    def refused_servers(self) -> Collection[ServerKey]:
        """Servers that do not run, because their declaration is invalid."""
        return self.inventory.contents.refused_servers.keys() - self.inventory.contents.servers.keys()

    def installation(self, key: ServerKey) -> PrintedLines | None:
        """Lines that the installers of a server's package printed; None if none ran."""
        return self._platform.installation(key)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the declared latency tiers, or of the default tiers if none is declared."""
        return tuple(tier.metadata.name for tier in self.inventory.contents.tiers or DEFAULT_TIERS)

    def scan(self) -> None:
        """Scan files and approvals once, and enqueue the servers that changed. `run` does so periodically."""
        self._scan_approvals()
        self._unwritten_files.forget_older(UNWRITTEN_SECONDS)
        for key in self._api_documents.find_changed():
            self.controller.queue.add(key)
        scan = self._scanner.scan()
        if scan is None:
            return
        self._scan = scan
        difference = self.inventory.replace(scan.contents)
        for key in difference.servers:
            self.controller.queue.add(key)
        self._report_problems()
        if difference.rules:
            self.controller.rules_outdated.set()
        self._packages.retain(self._platform.needed_packages())

    def _report_unwritten(self, failure: tuple[Path, str] | None) -> None:
        """Report why documents or credentials cannot be written; None: they can be written again."""
        problems = () if failure is None else (_unwritten_problem(*failure),)
        if problems != self._storage_problems:
            self._storage_problems = problems
            self._report_problems()

    def _report_problems(self) -> None:
        faults = self.inventory.faults
        self._problems((*self._storage_problems, *self._scan.problems, *faults))
        file_problems = (*self._storage_problems, *self._scan.file_problems, *faults)
        files = [FileProblem(file=problem.file, message=str(problem)[:MESSAGE_CHARS]) for problem in file_problems]
        self.controller.entries.refuse({problem.key: problem for problem in self._refused_entries()}, files)

    def _refused_entries(self) -> Iterator[ServerEntry]:
        contents = self.inventory.contents
        prefixes = {requested_prefix(declared.server, self._prefix_style) for declared in contents.servers.values()}
        for refused_server in contents.refused_servers.values():
            prefix = (
                default_prefix(refused_server.key, self._prefix_style)
                if refused_server.prefix is None
                else refused_server.prefix
            )
            if refused_server.key in contents.servers:
                yield entry_of_outdated(refused_server)
            else:
                yield entry_of_refused(refused_server, None if prefix in prefixes else prefix)

    def _scan_approvals(self) -> None:
        if self._approvals is None:
            return
        old_approvals, new_approvals = self._platform.approvals, approvals.read(self._approvals)
        self._platform.approvals = new_approvals
        for key in {*old_approvals, *new_approvals}:
            if old_approvals.get(key) != new_approvals.get(key):
                self.controller.queue.add(key)

    async def prepare(self) -> None:
        """Publish entries of all declared servers, for a gateway that starts before `run`. Raises PlatformTrouble."""
        self.documents.reserve_space()
        await self.controller.prepare()
        await self.controller.entries.publish()

    async def run(self) -> None:
        """Run until cancelled; then cancel installations. Child processes keep running until their `ChildHost` ends
        them.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.controller.run(), name="controller")
                group.create_task(self._keep_scanning(), name="manifests")
        finally:
            self._stop_listening()
            await self._packages.close()
            await self._runner.aclose()

    async def _keep_scanning(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            self.scan()

    def _on_package_change(self, package: PackageVersion) -> None:
        for key in self._platform.users_of(package):
            self.controller.queue.add(key)


def _unwritten_problem(file: Path, reason: str) -> ManifestProblem:
    effect = "until it can be written, which is retried every few seconds, servers neither start nor change"
    advice = "free space there, or choose another folder with --state-dir"
    return ManifestProblem(str(file.parent), 0, "", f"cannot be written: {reason}; {effect}: {advice}")
