"""Composition of the operator on a cluster: the holder of the Lease watches, decides and writes. Component tests build
it with a `resolve` of their own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kubernetes.aio.client import Configuration

from fairlead_api.meta import LABEL_DOCUMENT, LABEL_MANAGED_BY, MANAGED_BY, ServerKey
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.informer import Informer, Store
from fairlead_kube.resources import (
    CONFIG_MAPS,
    MCP_SERVERS,
    OWN_KINDS,
    PODS,
    SECRETS,
    TOOL_POLICIES,
    WORKLOAD_KINDS,
    Kind,
    Scope,
)
from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.via import pseudonym
from fairlead_operator.controller import Controller, ControllerOptions, World
from fairlead_operator.discovery.connect import NetworkConnector
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.gateways.http import HttpGateways
from fairlead_operator.handlers import EmbeddedKopf
from fairlead_operator.kube.account import owners
from fairlead_operator.kube.credentials import (
    SELECTOR,
    STORE_SELECTOR,
    CredentialStore,
    LabelledSecrets,
    Resolver,
    store_key,
)
from fairlead_operator.kube.declared import KubeDeclarations
from fairlead_operator.kube.documents import KubeDocuments
from fairlead_operator.kube.events import Events
from fairlead_operator.kube.lease import Lease, Timings
from fairlead_operator.kube.owned import Owned, OwnedStore
from fairlead_operator.kube.platform import KubePlatform
from fairlead_operator.kube.pods import Pods
from fairlead_operator.publish.configured import tiers_in
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.server.manifests import Images
from fairlead_operator.settings import Settings
from fairlead_operator.telemetry import Telemetry

logger = logging.getLogger(__name__)

LIST_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Dependencies:
    """Replaceable dependencies of the operator, for tests; None and the defaults are the real ones."""

    resolve: Resolve | None = None
    """Maps the host names of servers to addresses; the default is DNS."""
    end_process: Callable[[], None] | None = None
    """Called when the leader's tasks do not end after the Lease is lost."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = dataclasses.field(default_factory=random.Random)


@dataclass(frozen=True)
class StartupConfiguration:
    """Values read once, at the start, from files and variables that the settings name."""

    tiers: Collection[LatencyTier]
    """Created where there is none."""
    owners: Sequence[Json]
    """Owner references of all objects in the release's namespace."""
    egress: Egress
    """Where servers may be."""

    @classmethod
    def by(cls, settings: Settings) -> StartupConfiguration:
        """Raises BadSetting, BadEgress."""
        own = owners(settings.owner_token, settings.release_namespace)
        return cls(tiers_in(settings.tiers), own, settings.egress)


class Operator:
    """One replica. `run` it; it leads when it holds the Lease."""

    def __init__(self, settings: Settings, configuration: Configuration, wiring: Dependencies) -> None:
        self.settings = settings
        self.telemetry = Telemetry()
        self._configuration = configuration
        self._wiring = wiring
        self._given = StartupConfiguration.by(settings)
        self._kube = Kube.connect(configuration)
        duration = settings.lease_seconds
        self.lease = Lease(
            dataclasses.replace(self._kube, on_write=self._count),
            settings.release_namespace,
            settings.lease_name,
            settings.replica,
            timings=Timings(duration=duration, renew=duration * 2 / 15, deadline=duration * 2 / 3, grace=duration / 5),
            rng=wiring.rng,
            end_process=wiring.end_process,
            owners=self._given.owners,
        )
        self.controller: Controller | None = None
        """While this replica leads."""

    def __repr__(self) -> str:
        return f"<Operator {self.lease!r} {self.controller!r}>"

    async def run(self) -> None:
        """Contend, lead, contend again, until cancelled; the Lease is released on the way out."""
        try:
            await self.lease.run(self._lead)
        finally:
            await self._kube.aclose()

    def _count(self, verb: str, kind: Kind) -> None:
        self.telemetry.writes.labels(verb, kind.plural).inc()

    async def _lead(self) -> None:
        kube = dataclasses.replace(self._kube, allowance=self.lease.allowance, on_write=self._count)
        self.telemetry.leader.set(1)
        try:
            leadership = _Leadership(
                self._configuration, self._wiring, self.telemetry, kube, self.settings, self._given
            )
            await leadership.run(self)
        finally:
            self.controller = None
            self.telemetry.leader.set(0)
            self.telemetry.pictures.forget()


class _Leadership:
    """Everything that exists while this replica leads; made anew each time, so that nothing stale is left over."""

    def __init__(
        self,
        configuration: Configuration,
        wiring: Dependencies,
        telemetry: Telemetry,
        kube: Kube,
        settings: Settings,
        given: StartupConfiguration,
    ) -> None:
        release, watched = settings.release_namespace, settings.watch_namespace or None
        self.owned = Owned(kube, self._enqueue)
        self.pods = Pods(self._enqueue)
        self.secrets = LabelledSecrets(self._enqueue_namespace)
        self.store = CredentialStore(kube, release, self._credential_lost, given.owners)
        self.documents = KubeDocuments(kube, release, self._disturbed, given.owners)
        self._list_seconds = settings.list_seconds
        self.declarations = KubeDeclarations(
            kube,
            server_changed=self._enqueue,
            rules_changed=self._rules_changed,
            namespace=watched,
            default_tiers=given.tiers,
        )
        platform = KubePlatform(
            kube,
            release,
            self.declarations.servers,
            self.owned,
            Resolver(kube, self.secrets),
            self.store,
            Events(kube, settings.replica, monotonic=wiring.monotonic),
            self.pods,
            Images(settings.listener_image, settings.runner_image),
            settings.pod_template_rules,
        )
        connector = NetworkConnector(
            resolve=wiring.resolve, egress=given.egress,
            installation=settings.installation or pseudonym(settings.pull_token),
        )  # fmt: skip
        self.gateways = HttpGateways(settings.gateway_urls, settings.pull_token, wiring.resolve or resolve_by_dns)
        self.controller = Controller(
            World(platform, self.documents, connector, self.declarations, self.gateways),
            options=ReconcilerOptions(
                settings.prefix_style,
                DiscoveryOptions(settings.discovery_timeout, settings.interval_floor),
                settings.pod_template_rules,
            ),
            rhythm=ControllerOptions(
                sweep=settings.sweep_seconds, workers=settings.workers, figures=settings.figures_seconds
            ),
            default_action=settings.default_action,
            default_tier=settings.default_tier,
            environment=settings.environment,
            telemetry=telemetry,
            now=wiring.now,
            monotonic=wiring.monotonic,
            rng=wiring.rng,
        )
        self.feed = EmbeddedKopf(configuration, self._observe, watched, self._begin)
        self.informers = [
            Informer(kube, scope, store, relisted=self._relisted, random=wiring.rng.random)
            for scope, store in self._scopes(release, watched)
        ]

    async def run(self, operator: Operator) -> None:
        """Fill the stores, then work from them."""
        try:
            await self._work(operator)
        finally:
            await self.gateways.aclose()

    async def _work(self, operator: Operator) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=repr(informer))
            for informer in self.informers:
                await informer.synced.wait()
            await self._begin()
            kinds = OWN_KINDS if self.declarations.reads_tiers else (MCP_SERVERS, TOOL_POLICIES)
            group.create_task(self.feed.run(kinds), name="kopf feed")
            group.create_task(self._keep_listing(), name="complete lists")
            operator.controller = self.controller
            group.create_task(self.controller.run(), name="controller")

    async def _begin(self) -> None:
        while True:
            try:
                await self.declarations.start()
                await self.declarations.withdraw_old_defaults()
                await self.declarations.create_default_tiers()
                return
            except ApiError as error:
                logger.warning("cannot list what is declared: %s", error)
                await asyncio.sleep(LIST_RETRY_SECONDS)

    async def _keep_listing(self) -> None:
        """Find what Kopf lost: after an outage it reports what exists, and never what was deleted meanwhile."""
        pause, failing = self._list_seconds, False
        while True:
            await asyncio.sleep(pause)
            try:
                await self.declarations.refresh()
            except ApiError as error:
                if not failing:
                    logger.warning(
                        "McpServers, LatencyTiers and ToolPolicies cannot be listed; what is deleted meanwhile stays "
                        "in force until they can: %s",
                        error,
                    )
                pause, failing = min(LIST_RETRY_SECONDS, self._list_seconds), True
            else:
                pause, failing = self._list_seconds, False

    def _scopes(self, release: str, watched: str | None) -> list[tuple[Scope[Json], Store[Json]]]:
        ours = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
        workloads: list[tuple[Scope[Json], Store[Json]]] = [
            (Scope(kind, Json, watched, ours), OwnedStore(self.owned, kind)) for kind in WORKLOAD_KINDS
        ]
        return [
            *workloads,
            (Scope(PODS, Json, watched, ours), self.pods),
            (Scope(CONFIG_MAPS, Json, release, LABEL_DOCUMENT), self.documents),
            (Scope(SECRETS, Json, release, STORE_SELECTOR), self.store),
            (Scope(SECRETS, Json, watched, SELECTOR), self.secrets),
        ]

    # Called by the stores.

    def _observe(self, plural: str, type_: str | None, item: Json) -> None:
        if self.declarations.observe(plural, type_, item):
            self.controller.resync()

    def _rules_changed(self) -> None:
        self.controller.declarations_changed()

    def _relisted(self) -> None:
        self.controller.resync()

    def _enqueue(self, key: ServerKey) -> None:
        self.controller.enqueue(key)

    def _enqueue_namespace(self, namespace: str) -> None:
        for key in self.declarations.servers:
            if key.namespace == namespace:
                self.controller.enqueue(key)

    def _credential_lost(self, entry: str) -> None:
        for key in self.declarations.servers:
            if store_key(key) == entry:
                self.controller.enqueue(key)

    def _disturbed(self, name: str, labels: Mapping[str, str]) -> None:
        self.controller.document_disturbed(name, labels)


def build(settings: Settings, configuration: Configuration, *, wiring: Dependencies | None = None) -> Operator:
    """An operator for the API server of `configuration`; to be called in the event loop that it will run in."""
    return Operator(settings, configuration, wiring or Dependencies())
