"""The operator of one machine: composes inventory, platform, packages and controller, and keeps them fed.

Shares its child processes with the gateway. Runs in one event loop.
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
from fairlead_operator.controller import World
from fairlead_operator.local import approvals
from fairlead_operator.local.documents import DirectoryCredentialStore, DirectoryDocuments, private_directory
from fairlead_operator.local.installers import PackageVersion, Tools
from fairlead_operator.local.inventory import Contents, Inventory
from fairlead_operator.local.packages import PackageStore, StepRunner
from fairlead_operator.local.platform import ChildObserver, LocalConnector, LocalPlatform, StatusObserver
from fairlead_operator.local.sources import Scan
from fairlead_operator.ports import Gateways
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.server.document_entries import entry_of_outdated, entry_of_refused
from fairlead_operator.server.prefixes import default_prefix, requested_prefix
from fairlead_operator.telemetry import Telemetry

SCAN_SECONDS: Final = 0.25
"""How often files are looked at; a change is taken over within twice this time."""


class Scanner(Protocol):
    """Where declarations come from."""

    def scan(self) -> Scan | None:
        """Everything that is declared now; None when nothing changed since the last time."""
        ...


class Fixed:
    """Declarations that never change: the quick start."""

    def __init__(self, contents: Contents) -> None:
        self._scan: Scan | None = Scan(contents, ())

    def scan(self) -> Scan | None:
        """Implements Scanner."""
        scan, self._scan = self._scan, None
        return scan


@dataclass(frozen=True)
class Folders:
    """Where things are kept."""

    documents: Path
    credentials: Path
    packages: Path
    approvals: Path | None = None
    """Where `fairlead approve` says what may be in force; None = nowhere."""


@dataclass(frozen=True, kw_only=True)
class LocalObserver:
    """Hears of what happens to the servers of one machine."""

    statuses: StatusObserver
    problems: Callable[[tuple[ManifestProblem, ...]], None]
    """Gets all faults of the files each time that they change."""
    written: Callable[[], None] = lambda: None
    """Called when a document was written."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Settings of an operator of one machine."""

    environ: Mapping[str, str]
    """Variables that servers may be given."""
    gateways: Gateways | None = None
    """Polled for measurements; without them tiers go by declared latency."""
    egress: Egress | None = None
    installation: str = ""
    """Name in the `Via` header of requests to servers."""
    telemetry: Telemetry | None = None
    reconciler: ReconcilerOptions = field(default_factory=ReconcilerOptions)
    default_tier: str = ""


class LocalOperator:
    """Operator of one machine, without a cluster."""

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
            private_directory(folders.packages), tools, self._runner, on_change=self._package_changed
        )
        self.inventory = Inventory()
        self.documents = DirectoryDocuments(folders.documents, observer.written)
        self._platform = LocalPlatform(
            self.inventory,
            children,
            self._packages,
            DirectoryCredentialStore(folders.credentials),
            observer.statuses,
            environ=options.environ,
        )
        connector = LocalConnector(children, options.egress, options.installation)
        world = World(self._platform, self.documents, connector, self.inventory, options.gateways)
        decided = InstallationOptions(options.reconciler, default_tier=options.default_tier, gateway_approvals=True)
        self._prefix_style = decided.options.prefix_style
        self.controller = compose(world, decided, telemetry=options.telemetry)
        self._stop_listening = children.listen(
            ChildObserver(self.controller.queue.add, self.controller.reconciler.hint)
        )

    def __repr__(self) -> str:
        return f"<LocalOperator {self.inventory!r}>"

    @property
    def declared(self) -> Mapping[ServerKey, str]:
        """Every server that is declared now, with where."""
        return {key: declared.origin for key, declared in self.inventory.contents.servers.items()}

    @property
    def refused(self) -> Collection[ServerKey]:
        """Servers that are not run, as their declaration cannot be used."""
        return self.inventory.contents.refused.keys() - self.inventory.contents.servers.keys()

    def installation(self, key: ServerKey) -> PrintedLines | None:
        """Lines that the installers of a server's package printed; None where none ran."""
        return self._platform.installation(key)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the latency tiers that there are now."""
        return tuple(tier.metadata.name for tier in self.inventory.contents.tiers or DEFAULT_TIERS)

    def look(self) -> None:
        """Take over what is declared and approved now. Called before `run`, and by it."""
        self._look_for_approvals()
        scan = self._scanner.scan()
        if scan is None:
            return
        difference = self.inventory.replace(scan.contents)
        self._problems(scan.problems)
        for key in difference.servers:
            self.controller.queue.add(key)
        files = [FileProblem(file=each.file, message=str(each)[:MESSAGE_CHARS]) for each in scan.of_files]
        self.controller.entries.refuse({each.key: each for each in self._refused_entries()}, files)
        if difference.rules:
            self.controller.rules_wanted.set()
        self._packages.retain(self._platform.needed_packages())

    def _refused_entries(self) -> Iterator[ServerEntry]:
        contents = self.inventory.contents
        taken = {requested_prefix(each.server, self._prefix_style) for each in contents.servers.values()}
        for refused in contents.refused.values():
            prefix = default_prefix(refused.key, self._prefix_style) if refused.prefix is None else refused.prefix
            if refused.key in contents.servers:
                yield entry_of_outdated(refused)
            else:
                yield entry_of_refused(refused, None if prefix in taken else prefix)

    def _look_for_approvals(self) -> None:
        if self._approvals is None:
            return
        before, now = self._platform.approvals, approvals.read(self._approvals)
        self._platform.approvals = now
        for key in {*before, *now}:
            if before.get(key) != now.get(key):
                self.controller.queue.add(key)

    async def prepare(self) -> None:
        """Enter all that is declared into the documents, for a gateway that starts before `run`. Raises
        PlatformTrouble.
        """
        await self.controller.prepare()
        await self.controller.entries.publish()

    async def run(self) -> None:
        """Work until cancelled; then installations end, child processes are left to their host."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.controller.run(), name="controller")
                group.create_task(self._keep_looking(), name="manifests")
        finally:
            self._stop_listening()
            await self._packages.close()
            await self._runner.aclose()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            self.look()

    def _package_changed(self, package: PackageVersion) -> None:
        for key in self._platform.users_of(package):
            self.controller.queue.add(key)
