"""Composition of the operator on a cluster: only the leader, the replica that holds the Leases, watches and writes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from kubernetes.aio.client import Configuration

from fairlead_api.meta import LABEL_DOCUMENT, LABEL_MANAGED_BY, MANAGED_BY, ServerKey
from fairlead_api.v1alpha1.latencytier import LatencyTier
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.informer import Informer, Store
from fairlead_kube.resources import (
    CONFIG_MAPS,
    DOMAIN_POLICIES,
    EVENTS,
    LATENCY_TIERS,
    PODS,
    SECRETS,
    WORKLOAD_KINDS,
    Kind,
    Scope,
)
from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.via import pseudonym
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, Wakeups, compose
from fairlead_operator.controller import Controller, ControllerOptions, PlatformAdapters
from fairlead_operator.discovery.connector import NetworkConnector
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.enforcement.daily_probe import DailyProbe
from fairlead_operator.enforcement.probe import ClusterProbe
from fairlead_operator.enforcement.probe_answer import NAME as PROBE_RECORD
from fairlead_operator.gateways.http import HttpGateways
from fairlead_operator.handlers import handlers
from fairlead_operator.heap import keep_trimmed
from fairlead_operator.kopfthread import KopfThread
from fairlead_operator.kube.api_documents import ConfigMapDocuments
from fairlead_operator.kube.config_maps import ChangedConfigMaps
from fairlead_operator.kube.credentials import (
    SELECTOR,
    STORE_SELECTOR,
    CredentialStore,
    LabelledSecrets,
    Resolver,
    store_key,
)
from fairlead_operator.kube.declared_resources import KubeDeclarations
from fairlead_operator.kube.documents import KubeDocuments
from fairlead_operator.kube.drift import DriftRepairs, WriteTarget
from fairlead_operator.kube.events import Events
from fairlead_operator.kube.failure_logs import FailureLogs
from fairlead_operator.kube.installationsecret import InstallationSecret
from fairlead_operator.kube.lease import Lease, LeaseOptions, Timings
from fairlead_operator.kube.owned import OwnedObjects
from fairlead_operator.kube.owners import account_references, adopt
from fairlead_operator.kube.platform import KubePlatform, KubePlatformParts
from fairlead_operator.kube.pods import Pods
from fairlead_operator.kube.preflight import serves_domain_policies
from fairlead_operator.kube.seeded_tiers import TierSeeder
from fairlead_operator.kube.watched_lease import (
    DURATION_FACTOR,
    OtherReleases,
    explain,
    lease_location,
    release_identity_prefix,
)
from fairlead_operator.openapi.api_listings import ApiListings
from fairlead_operator.publish.configured_tiers import read_tiers
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.server.podwarnings import FIELD_SELECTOR
from fairlead_operator.settings import Settings
from fairlead_operator.telemetry import Telemetry

logger = logging.getLogger(__name__)

EVENTS_RESYNC_SECONDS: Final = 86_400.0
"""Seconds between full lists of events. A missed event does no harm: Kubernetes repeats it while its cause lasts."""
LIST_RETRY_SECONDS: Final = 1.0
TIERS_SETTLE_SECONDS: Final = 1.0
"""Seconds that a user who deletes all tiers has to create new ones, before the default tiers are created again."""


@dataclass(frozen=True)
class Dependencies:
    """Dependencies of the operator that tests replace; the defaults are for production."""

    resolve: Resolve | None = None
    """Maps the host names of servers to addresses; the default is DNS."""
    end_process: Callable[[], None] | None = None
    """Ends the process when the leader's tasks do not stop after the Lease was lost."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = dataclasses.field(default_factory=random.Random)
    owners: Sequence[Json] = ()
    """Owner references that were read from the cluster, in addition to the ServiceAccount."""


@dataclass(frozen=True)
class StartupConfiguration:
    """Values that are read once, at the start, from the files and variables that the settings name."""

    tiers: Collection[LatencyTier]
    """Default tiers, created on a cluster without any LatencyTier."""
    owners: Sequence[Json]
    """Owner references for the objects that the operator creates in the release's namespace."""
    egress: Egress
    """Addresses that servers may have."""

    @classmethod
    def load(cls, settings: Settings, owners: Sequence[Json]) -> StartupConfiguration:
        """Read the values; `owners` are added to the ServiceAccount. Raises BadSetting."""
        account = account_references(settings.release.owner_token, settings.release.release_namespace)
        return cls(read_tiers(settings.publish.tiers), [*account, *owners], settings.egress.rules)


class Operator:
    """One replica of the operator. It leads while it holds two Leases: the Lease of its release, and the Lease over the
    watched namespaces, which keeps two releases from managing the same servers.
    """

    def __init__(self, settings: Settings, configuration: Configuration, dependencies: Dependencies) -> None:
        self.settings = settings
        self.telemetry = Telemetry()
        self.configuration = configuration
        self.dependencies = dependencies
        self.startup = StartupConfiguration.load(settings, dependencies.owners)
        self._kube = Kube.connect(configuration)
        lease = settings.lease
        duration = lease.seconds
        timings = Timings(duration=duration, renew=duration * 2 / 15, deadline=duration * 2 / 3, grace=duration / 5)
        options = LeaseOptions(
            timings=timings,
            rng=dependencies.rng,
            end_process=dependencies.end_process,
            owners=self.startup.owners,
        )
        release_namespace = settings.release.release_namespace
        self.lease = Lease(
            dataclasses.replace(self._kube, on_write=self._count_write),
            release_namespace,
            lease.name,
            lease.replica,
            options,
        )
        """Lease of the release: elects one of its replicas."""
        watched = settings.release.watch_namespace
        release_prefix = release_identity_prefix(release_namespace, lease.name)
        namespace, name = lease_location(watched)
        self._other_releases = OtherReleases(self._kube, watched, release_prefix, duration)
        self.watched_lease = Lease(
            dataclasses.replace(self._kube, allowance=self.lease.allowance, on_write=self._count_write),
            namespace,
            name,
            f"{release_prefix}{lease.replica}",
            dataclasses.replace(
                options,
                timings=dataclasses.replace(timings, renew=2 * timings.renew, duration=DURATION_FACTOR * duration),
                owners=self.startup.owners if namespace == release_namespace else (),
                release_prefix=release_prefix,
                superior_holder=self._other_releases.superior_holder,
                explain=partial(explain, watched_namespace=watched),
            ),
        )
        """Lease over the watched namespaces, for which the holder of `lease` contends with other releases."""
        self.controller: Controller | None = None
        """The running controller; None while this replica does not lead."""

    def __repr__(self) -> str:
        return f"<Operator {self.lease!r} {self.controller!r}>"

    async def run(self) -> None:
        """Contend for the Leases and lead while both are held, until cancelled; releases the Leases at the end."""
        try:
            await self.lease.run(lambda: self.watched_lease.run(self._lead))
        finally:
            await self._kube.aclose()

    def _allowance(self) -> float:
        return min(self.lease.allowance(), self.watched_lease.allowance())

    def _count_write(self, verb: str, kind: Kind) -> None:
        self.telemetry.writes.labels(verb, kind.plural).inc()

    async def _lead(self) -> None:
        await self._other_releases.wait_until_vacant()
        kube = dataclasses.replace(self._kube, allowance=self._allowance, on_write=self._count_write)
        logger.info("leading as %s", self.lease.identity)
        self.telemetry.leader.set(1)
        try:
            domain_policies = await serves_domain_policies(kube)
            await _Leadership(self, kube, domain_policies=domain_policies).run(self)
        finally:
            self.controller = None
            self.telemetry.leader.set(0)
            self.telemetry.forget()


class _Leadership:
    """All components of the leader. Each term of leadership has a new object, so that no state of an earlier term
    remains.
    """

    def __init__(self, operator: Operator, kube: Kube, *, domain_policies: bool) -> None:
        """`domain_policies`: whether the cluster serves network policies that select peers by domain name."""
        dependencies, telemetry = operator.dependencies, operator.telemetry
        settings, startup = operator.settings, operator.startup
        release_namespace, watched = settings.release.release_namespace, settings.release.watch_namespace or None
        controller, publish, pods = settings.controller, settings.publish, settings.pods
        measurements = settings.measurements
        credentials_name = settings.release.credentials_name
        installation_options = InstallationOptions(
            ReconcilerOptions(
                publish.prefix_style,
                publish.prefix_retention_seconds,
                DiscoveryOptions(controller.discovery_timeout, controller.interval_floor),
                pods.template_rules,
            ),
            ControllerOptions(
                sweep_s=controller.sweep_seconds, workers=controller.workers, figures_s=controller.figures_seconds
            ),
            default_action=publish.default_action,
            default_tier=publish.default_tier,
            gateway_approvals=publish.gateway_approvals,
            environment=measurements.environment,
            clocks=Clocks(now=dependencies.now, monotonic=dependencies.monotonic, rng=dependencies.rng),
        )
        wakeups = Wakeups.of(installation_options)
        queue = wakeups.queue
        kinds = (*WORKLOAD_KINDS, *([DOMAIN_POLICIES] if domain_policies else ()))
        self.drift = drift = DriftRepairs(lambda kind: telemetry.undone_writes.labels(kind.plural).inc())
        self.owned = OwnedObjects(kube, queue.add, kinds, drift)
        self.pods = Pods(queue.add, dependencies.now)
        self._tiers_gone = asyncio.Event()
        self.declarations = KubeDeclarations(
            kube,
            server_changed=queue.add,
            rules_changed=wakeups.rules.set,
            default_tiers=startup.tiers,
            drift=drift,
            tiers_gone=self._tiers_gone.set,
        )
        servers = self.declarations.servers

        def secret_changed(secret: ServerKey, before: object, after: object) -> None:
            for key in servers:
                if key.namespace == secret.namespace:
                    queue.add(key)

        def enforcement_changed() -> None:
            for key in servers:
                queue.add(key)

        def restore_credential(entry: str) -> None:
            for key in servers:
                if store_key(key) == entry:
                    queue.add(key)

        def restore_document(name: str, labels: Mapping[str, str]) -> None:
            self.controller.restore_document(name, labels)

        self.secrets = LabelledSecrets(settings.release.secrets_read_in, secret_changed)
        self.credential_store = CredentialStore(
            kube, release_namespace, restore_credential, startup.owners, credentials_name, drift
        )
        self.documents = KubeDocuments(kube, release_namespace, restore_document, startup.owners, drift)
        self.network_probe: DailyProbe | None = None
        if pods.network_policy_probe == "Daily":
            self.network_probe = DailyProbe(
                kube,
                release_namespace,
                ClusterProbe(kube, release_namespace, pods.probe_pods, startup.owners),
                enforcement_changed,
                telemetry.show_enforcement,
                dependencies.now,
                startup.owners,
            )
        name = settings.release.installation_secret
        self.installation_secret = (
            InstallationSecret(kube, release_namespace, name, startup.owners, drift) if name else None
        )
        resolver = Resolver(kube, self.secrets, credentials_name)
        parts = KubePlatformParts(
            servers=servers,
            owned=self.owned,
            resolver=resolver,
            credential_store=self.credential_store,
            events=Events(kube, settings.lease.replica, monotonic=dependencies.monotonic),
            pods=self.pods,
            installation=dataclasses.replace(pods.manifest_context(release_namespace), domain_policies=domain_policies),
            pod_templates=pods.template_rules,
            enforcement=self.network_probe.verdict if self.network_probe is not None else None,
            failure_logs=FailureLogs(kube, self.pods.newest, resolver.environment_values) if pods.logs else None,
            enqueue=queue.add,
            drift=drift,
        )
        platform = KubePlatform(kube, parts)
        connector = NetworkConnector(
            resolve=dependencies.resolve,
            egress=startup.egress,
            installation=measurements.installation or pseudonym(measurements.pull_token),
        )
        apis = ApiListings(ConfigMapDocuments(kube).read, startup.egress, dependencies.resolve)
        self.gateways = HttpGateways(
            measurements.gateway_urls, measurements.pull_token, dependencies.resolve or resolve_by_dns
        )
        adapters = PlatformAdapters(platform, self.documents, connector, self.declarations, self.gateways, apis)
        self.controller = compose(adapters, installation_options, wakeups=wakeups, telemetry=telemetry)
        if watched is None and publish.prefix_style == "name":
            logger.warning(
                "FAIRLEAD_PREFIX_STYLE=name: prefixes of tools do not contain the namespace, so of two servers with "
                "the same name, the first to claim the prefix keeps it; the other is Conflicted. If teams share this "
                "installation, set servers.prefixStyle=namespace-name in the chart; this renames the tools of all "
                "servers without spec.prefix"
            )
        self._kube = kube
        self._enqueue = queue.add
        self._configuration = operator.configuration
        self._release_namespace = release_namespace
        self._watched_namespace = watched
        """The watched namespace; None: all namespaces."""
        self._list_seconds = controller.list_seconds
        self._random = dependencies.rng.random
        self._seeder = TierSeeder(kube, startup.tiers, optional=watched is not None)

    async def run(self, operator: Operator) -> None:
        """Fill the informers' stores, then reconcile from them until cancelled."""
        try:
            await self._run_tasks(operator)
        finally:
            self.drift.close()
            await self.gateways.aclose()

    async def _run_tasks(self, operator: Operator) -> None:
        self.declarations.reads_tiers = await self._seeder.run()
        if self.network_probe is not None:
            await self.network_probe.restore()
        fairlead_informers = {
            kind: Informer(self._kube, scope, store, watches=False, resync=self._list_seconds, random=self._random)
            for kind, (scope, store) in self._fairlead_scopes().items()
        }
        # The first list of events is not awaited below, because the operator has to lead even if its ServiceAccount
        # may not read events, as with the Role of an older release.
        warnings = Informer(
            self._kube,
            Scope(EVENTS, Json, self._watched_namespace, fields=FIELD_SELECTOR),
            self.pods.warnings,
            resync=EVENTS_RESYNC_SECONDS,
            random=self._random,
        )
        config_maps = ChangedConfigMaps(
            self._kube,
            self.declarations.servers,
            document_changed=self.controller.reconciler.recheck,
            environment_changed=self._enqueue,
        )
        other_informers = (Informer(self._kube, *scope, random=self._random) for scope in self._other_scopes())
        informers = [*fairlead_informers.values(), *other_informers]

        def observe(kind: Kind, type_: str | None, item: Json) -> None:
            fairlead_informers[kind].observe(type_, item)

        kopf_thread = KopfThread(
            self._configuration,
            partial(handlers, tiers=self.declarations.reads_tiers),
            observe,
            self._watched_namespace,
            self._wait_for_kinds,
        )
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=repr(informer))
            for informer in informers:
                await informer.synced.wait()
            group.create_task(warnings.run(), name=repr(warnings))
            group.create_task(kopf_thread.run(), name="kopf")
            operator.controller = self.controller
            group.create_task(self.controller.run(), name="controller")
            group.create_task(config_maps.run(), name="changed ConfigMaps")
            group.create_task(keep_trimmed(), name="heap")
            group.create_task(self._keep_tiers(), name="default tiers")
            group.create_task(self._adopt(operator.startup.owners), name="owners of earlier objects")
            if self.network_probe is not None:
                group.create_task(self.network_probe.run(), name="network probe")

    async def _adopt(self, owners: Sequence[Json]) -> None:
        """Add the owners of this release to the documents and Secrets that an earlier release wrote."""
        namespace = self._release_namespace
        scopes = [
            Scope(CONFIG_MAPS, Json, namespace, LABEL_DOCUMENT),
            Scope(CONFIG_MAPS, Json, namespace, name=PROBE_RECORD),
            Scope(SECRETS, Json, namespace, STORE_SELECTOR),
        ]
        await adopt(self._kube, namespace, scopes, owners)

    async def _keep_tiers(self) -> None:
        """Create the default tiers again after all LatencyTiers were deleted, with a growing delay if that recurs."""
        target = WriteTarget(LATENCY_TIERS, "", "the set of LatencyTiers")
        while True:
            await self._tiers_gone.wait()
            self._tiers_gone.clear()
            await asyncio.sleep(TIERS_SETTLE_SECONDS)
            if self.declarations.has_tiers or self.drift.postpone(target, self._tiers_gone.set):
                continue
            logger.warning("all LatencyTiers were deleted: the default tiers are created again")
            try:
                await self._seeder.seed()
            except ApiError as error:
                logger.warning("LatencyTiers cannot be listed or created: %s", error)
                await asyncio.sleep(self._list_seconds)
                self._tiers_gone.set()
            else:
                self.drift.count_repair(target, "", self._tiers_gone.set)

    async def _wait_for_kinds(self) -> None:
        """Wait until the API server serves Fairlead's kinds and at least one LatencyTier exists."""
        while True:
            try:
                for scope, _ in self._fairlead_scopes().values():
                    await self._kube.probe(scope)
                await self._seeder.seed()
                return
            except ApiError as error:
                logger.warning("Fairlead's custom resources cannot be listed yet, so the operator waits: %s", error)
                await asyncio.sleep(LIST_RETRY_SECONDS)

    def _fairlead_scopes(self) -> dict[Kind, tuple[Scope[Json], Store[Json]]]:
        """Scope and store of each of Fairlead's kinds that this operator may read."""
        return {
            kind: (Scope(kind, Json, self._watched_namespace if kind.namespaced else None), store)
            for kind, store in self.declarations.stores().items()
        }

    def _other_scopes(self) -> list[tuple[Scope[Json], Store[Json]]]:
        """Scope and store of the objects of Kubernetes' kinds that this operator reads."""
        managed = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
        workloads: list[tuple[Scope[Json], Store[Json]]] = [
            (Scope(kind, Json, self._watched_namespace, managed), store) for kind, store in self.owned.stores.items()
        ]
        secret = self.installation_secret
        return [
            *workloads,
            *([(secret.scope, secret)] if secret is not None else []),
            (Scope(PODS, Json, self._watched_namespace, managed), self.pods.store),
            (Scope(CONFIG_MAPS, Json, self._release_namespace, LABEL_DOCUMENT), self.documents.store),
            (Scope(SECRETS, Json, self._release_namespace, STORE_SELECTOR), self.credential_store.store),
            *((Scope(SECRETS, Json, namespace, SELECTOR), store) for namespace, store in self.secrets.stores.items()),
        ]


def build(settings: Settings, configuration: Configuration, *, dependencies: Dependencies | None = None) -> Operator:
    """An operator for the API server of `configuration`; call it in the event loop that the operator will run in."""
    return Operator(settings, configuration, dependencies or Dependencies())
