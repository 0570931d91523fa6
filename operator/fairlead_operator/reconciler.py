"""Reconciles one McpServer: from its manifest to its workload, documents and status.

Level-based: a reconcile compares the present with the desired state and does not depend on what changed. All I/O goes
through the protocols of `ports`, so a cluster and a laptop run the same code. A reconcile never waits for an MCP
server: `discovery.discoverer` queries servers in its own tasks and enqueues the server when there is a result. One
server has at most one reconcile at a time.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import catalog_name
from fairlead_api.documents.servers import ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_api.reports import GrantedListing
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus, ProbePolicy
from fairlead_kube.errors import NamespaceTerminating
from fairlead_mcp.masking import Mask
from fairlead_mcp.server_listing import PackedListing
from fairlead_operator.calibration.plan import ProbePlan, plan
from fairlead_operator.calibration.prober import MIN_GAP_S, Prober, ProbeSet
from fairlead_operator.clocks import Clocks
from fairlead_operator.condition_assembly import verdict_of
from fairlead_operator.discovery import first_grant
from fairlead_operator.discovery.catalog_build import CallAccess
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.first_verdict import FIRST_DISCOVERY, before_first_answer, until_silent
from fairlead_operator.discovery.overrides import override_verdict
from fairlead_operator.discovery.refused_listing import explain_refusal
from fairlead_operator.discovery.security_schemes import scheme_verdict
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryState, DiscoveryTarget
from fairlead_operator.discovery.unmatched_patterns import pattern_verdict
from fairlead_operator.gateways.failed_grants import FailedGrants
from fairlead_operator.latency.status_latencies import StatusLatencies
from fairlead_operator.off_loop import unpack_listing
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.outcome import Done, Outcome, Stalled, Waiting
from fairlead_operator.pinning.definitions import PinnedDefinitions, ignore_held_back
from fairlead_operator.ports import (
    PLATFORM_ERRORS,
    REFUSALS,
    ApiLister,
    ConditionVerdict,
    Connector,
    Documents,
    Platform,
    ResolvedCredential,
    UnreadableServer,
    Workload,
)
from fairlead_operator.publish.catalogs import Catalogs
from fairlead_operator.reconcilefindings import ReconcileFindings
from fairlead_operator.server.announcements import catalog_announcement, condition_announcements
from fairlead_operator.server.catalog_changes import ToolChanges
from fairlead_operator.server.document_entries import entry_for, entry_of_new
from fairlead_operator.server.prefixes import Prefixes, PrefixStyle, holder_by_status
from fairlead_operator.server.spec_checks import RESTRICTED, PodTemplateChecker, check
from fairlead_operator.server.status import NOT_REACHED, Facts, Verdicts, build_status, combine
from fairlead_operator.server.tierfloors import TierFloors

logger = logging.getLogger(__name__)

STALLED_RETRY_S: Final = 60.0
"""Seconds until a refused write is tried again: somebody may remove the cause without an event of the McpServer."""
FIRST_ANSWER_GRACE_S: Final = 1.0
"""Seconds for which a server's first answer is awaited before the status says that it is missing. Most answers arrive
sooner, and each status costs a write to the API server."""


@dataclass(frozen=True)
class ReconcilerOptions:
    """Settings of an installation that apply to all servers."""

    prefix_style: PrefixStyle = "name"
    prefix_retention: float = 0.0
    """Seconds for which the prefix of a deleted server is reserved for that server."""
    discovery: DiscoveryOptions = field(default_factory=DiscoveryOptions)
    """Timing of discoveries."""
    pod_templates: PodTemplateChecker = RESTRICTED
    probe: ProbePolicy = "Declared"
    """Default of `spec.calibration.probe`."""


@dataclass(frozen=True, kw_only=True)
class ReconcilerParts:
    """Ports and components that a reconcile needs."""

    platform: Platform
    documents: Documents
    connector: Connector
    apis: ApiLister | None = None
    """None where no server is an HTTP API."""
    prefixes: Prefixes
    store_prefixes: Callable[[], Awaitable[object]] | None = None
    """Stores the prefix reservation of a deleted server; awaited before the server's catalog is withdrawn."""
    prober: Prober | None = None
    """None: no tool is probed."""
    latencies: StatusLatencies | None = None
    """None: statuses show no latency."""
    definitions: PinnedDefinitions | None = None
    """None: definitions are pinned, but those that are held back are not counted in a metric."""


@dataclass(frozen=True, kw_only=True)
class ReconcilerObserver:
    """Callbacks for the results of reconciles."""

    enqueue: Callable[[ServerKey], None]
    """Receives the key of a server that has to be reconciled again."""
    on_catalog: Callable[[Catalog], None] = lambda catalog: None
    """Receives each catalog after its publication."""
    on_tool_changes: Callable[[ToolChanges], None] = lambda changes: None
    """Receives the tools that a published catalog added, removed or changed."""
    on_refused_catalog: Callable[[], None] = lambda: None
    """Called for each catalog that the API server refuses."""
    on_ready: Callable[[ServerKey, Condition | None], None] = lambda key, ready: None
    """Receives each condition Ready; None when the server was deleted."""
    on_entry: Callable[[ServerKey, ServerEntry | None], None] = lambda key, entry: None
    """Receives the server's entry in the servers document; None for a server that is ready or was deleted."""


class Reconciler:
    """Reconciles McpServers; each server has at most one reconcile at a time."""

    def __init__(
        self,
        parts: ReconcilerParts,
        observer: ReconcilerObserver,
        options: ReconcilerOptions | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        options, clocks = options or ReconcilerOptions(), clocks or Clocks()
        self._platform = parts.platform
        self._enqueue = observer.enqueue
        self._on_catalog = observer.on_catalog
        self._on_refused_catalog = observer.on_refused_catalog
        self._on_ready = observer.on_ready
        self._on_entry = observer.on_entry
        self._prober = parts.prober
        self._latencies = parts.latencies
        self._plans: dict[ServerKey, tuple[tuple[str, int], ProbePlan]] = {}
        """Probe plan of each server, with the catalog hash and the generation from which it was made."""
        self._now = clocks.now
        self._monotonic = clocks.monotonic
        self._pod_templates = options.pod_templates
        self._default_probe_policy = options.probe
        self._prefixes = parts.prefixes
        self._store_prefixes = parts.store_prefixes
        self.floors = TierFloors(observer.enqueue)
        self.failed_grants = FailedGrants(observer.enqueue, clocks.monotonic)
        self._discoverer = Discoverer(
            parts.connector, observer.enqueue, apis=parts.apis, options=options.discovery, clocks=clocks
        )
        self.catalogs = Catalogs(parts.documents, clocks.now, observer.on_tool_changes)
        self._definitions = parts.definitions or PinnedDefinitions(parts.documents, ignore_held_back, clocks.now)
        self._listing_findings: dict[ServerKey, ListingFindings] = {}
        """Findings about the last listing of each server."""
        self._terminating_servers: set[ServerKey] = set()
        """Servers for which the deletion of their namespace was logged."""

    async def start(self) -> None:
        """Enter every server's claim to a prefix before the first reconcile, so that the order of reconciles does not
        decide which server gets a prefix that several servers claim.

        Stored catalogs show which server held a prefix until now; in a new installation, the servers' statuses do. If a
        server was deleted while no operator led, or its McpServer cannot be read, its prefix is reserved for it. Raises
        PLATFORM_ERRORS.
        """
        servers = {server.key: server async for server in self._servers()}
        for catalog in await self.catalogs.orphans([(key, server.metadata.uid) for key, server in servers.items()]):
            if catalog.prefix is not None:
                self._prefixes.reserve(catalog.prefix, catalog.key)
        for server in servers.values():
            self._prefixes.claim(server)
        for prefix, keys in self._prefixes.contenders().items():
            holder = holder_by_status(servers[key] for key in keys)
            for key in keys:
                stored_catalog = await self.catalogs.read(key, servers[key].metadata.uid)
                if stored_catalog is not None and stored_catalog.prefix == prefix:
                    holder = key
            if holder is not None:
                self._prefixes.confirm_holder(prefix, holder)
        self._prefixes.end_start_phase()

    async def new_server_entries(self) -> list[ServerEntry]:
        """Entries of the servers that have no catalog before the first reconcile. Raises PLATFORM_ERRORS."""
        catalog_names = await self.catalogs.names()
        return [
            entry_of_new(server.key, self._prefixes.grant(server)[1])
            async for server in self._servers()
            if catalog_name(server.key) not in catalog_names
        ]

    async def _servers(self) -> AsyncIterator[McpServer]:
        for key in await self._platform.keys():
            try:
                server = await self._platform.get(key)
            except UnreadableServer:
                continue
            if server is not None:
                yield server

    async def aclose(self) -> None:
        """Cancel running discoveries and probes, and wait for their end."""
        if self._prober is not None:
            await self._prober.aclose()
        await self._discoverer.aclose()

    def request_discovery(self, key: ServerKey) -> None:
        """Schedule a discovery of a server that announced changed lists, at the rate of `DiscoveryOptions`."""
        self._discoverer.request_discovery(key)

    def refresh(self, key: ServerKey) -> None:
        """Discover the server now, and restart it now if it failed.

        The result appears in the server's catalog, or in its entry where it has no catalog.
        """
        self._platform.retry(key)
        self._discoverer.refresh(key)

    def take_listings(self, reports: Iterable[GrantedListing]) -> None:
        """Publish each listing that a gateway read with a user's token and that is newer than the server's last one."""
        for report in reports:
            listing = first_grant.read_user_listing(report)
            if listing is None:
                logger.warning(
                    "the listing of %s/%s that a gateway reported cannot be decoded", report.namespace, report.server
                )
            else:
                self._discoverer.take_listing(*listing)

    def recheck(self, key: ServerKey) -> None:
        """Discover the server soon, because a gateway could not reach it, or its OpenAPI document was changed."""
        self._discoverer.discover_promptly(key)

    async def reconcile(self, key: ServerKey) -> Outcome:
        """Reconcile one server. PLATFORM_ERRORS become part of the outcome and are not raised."""
        try:
            server = await self._platform.get(key)
            if server is None:
                return await self._forget(key)
            return await self._reconcile_existing(server)
        except UnreadableServer as error:
            logger.warning("%s cannot be read: %s", key, error)
            return Stalled(Cause.INVALID)
        except NamespaceTerminating as error:
            if key not in self._terminating_servers:
                logger.info("%s is not reconciled while its namespace is being deleted: %s", key, error)
                self._terminating_servers.add(key)
            return Waiting(error.reason)
        except PLATFORM_ERRORS as error:
            logger.warning("%s could not be reconciled and will be retried: %s", key, error)
            return Waiting(error.reason)

    async def _forget(self, key: ServerKey) -> Outcome:
        self._discoverer.forget(key)
        self._listing_findings.pop(key, None)
        self._plans.pop(key, None)
        self._terminating_servers.discard(key)
        await self._definitions.drop(key)
        self._stop_probes(key)
        self.floors.forget(key)
        is_served = catalog_name(key) in await self.catalogs.names()
        for other in self._prefixes.release(key, served=is_served):
            self._enqueue(other)
        await self._store_reservation(key)
        await self.catalogs.withdraw(key)
        await self._platform.forget(key)
        self._on_ready(key, None)
        self._on_entry(key, None)
        return Done()

    async def _store_reservation(self, key: ServerKey) -> None:
        """Store the prefix reservation before the catalog is deleted, so that a crash in between loses neither."""
        if self._store_prefixes is None or not self._prefixes.has_reservation(key):
            return
        try:
            await self._store_prefixes()
        except REFUSALS as error:  # not raised: the catalog has to be withdrawn even if a quota is full
            logger.warning("the prefix of %s is reserved only until this operator restarts: %s", key, error)

    def expire_prefixes(self) -> None:
        """End expired prefix reservations and reconcile the servers that claim those prefixes."""
        for key in self._prefixes.expire():
            self._enqueue(key)

    async def _reconcile_existing(self, server: McpServer) -> Outcome:
        for other in self._prefixes.claim(server):
            self._enqueue(other)
        accepted_verdict = check(server, self._platform.environment, self._pod_templates)
        if not accepted_verdict.ok:
            return await self._reject_spec(server, accepted_verdict)
        conflicted_verdict, prefix = self._prefixes.grant(server)
        credential = await self._platform.credential(server)
        workload = await self._platform.ensure(server, credential)
        discovery = self._discover(server, credential, workload)
        if discovery is not None and discovery.wants_sign_in:
            credential = first_grant.with_consent(server, credential)
        findings = ReconcileFindings(server, accepted_verdict, prefix, credential, workload, discovery)
        findings.note_replaced_pods(self._monotonic())
        await self._add_failure_line(findings)
        catalog, refusal = await self._publish_or_refusal(findings)
        calibrated_verdict = self._calibrate(findings, catalog)
        optional_verdicts = (
            *self._definitions.verdicts(server.key),
            combine(workload.missing_pods, self._partially_invalid(server, catalog)),
            conflicted_verdict,
            *workload.side_verdicts,
        )
        verified_verdict = self._verification(findings)
        authorized_verdict = self._authorization(server)
        verdicts = Verdicts(
            accepted_verdict,
            credential.verdict,
            refusal or workload.verdict,
            verified_verdict,
            calibrated_verdict,
            *optional_verdicts,
            authorized=authorized_verdict,
        )
        listing_findings = self._listing_findings.get(server.key)
        tools_left_out = listing_findings.tools_left_out if listing_findings is not None else None
        latency = self._latencies.summary(server.key) if self._latencies is not None else None
        approvals = self._definitions.approvals(server.key)
        facts = Facts(workload.endpoint, catalog, tools_left_out, latency, workload.pod_count, approvals)
        status = build_status(server, verdicts, facts, self._now(), self._platform.environment)
        self._on_entry(server.key, self._entry(findings, status, conflicted_verdict))
        if (seconds := self._seconds_until_report(findings, verdicts)) > 0:
            return Done(seconds)
        await self._report_status(server, status)
        outcome = self._outcome(findings) if refusal is None else Stalled(refusal.cause, STALLED_RETRY_S)
        if authorized_verdict is not None and isinstance(outcome, Done):
            return outcome.no_later_than(self.failed_grants.seconds_until_due(server.key))
        return outcome

    def _partially_invalid(self, server: McpServer, catalog: Catalog | None) -> ConditionVerdict | None:
        """The verdict PartiallyInvalid; None if each part of the spec has an effect."""
        listing_findings = self._listing_findings.get(server.key)
        names = combine(pattern_verdict(server, listing_findings), override_verdict(server, listing_findings))
        return combine(combine(names, scheme_verdict(server, catalog)), self.floors.verdict(server))

    async def _reject_spec(self, server: McpServer, accepted_verdict: ConditionVerdict) -> Outcome:
        self._discoverer.stop(server.key, accepted_verdict.message)
        self._stop_probes(server.key)
        await self.catalogs.withdraw(server.key)
        conflicted_verdict, _ = self._prefixes.grant(server)
        verdicts = Verdicts(accepted_verdict, conflicted=conflicted_verdict)
        status = build_status(server, verdicts, Facts(), self._now(), self._platform.environment)
        refresh_result = self._discoverer.last_refresh(server.key)
        self._on_entry(server.key, entry_for(server.key, None, status, refresh_result, conflicted=conflicted_verdict))
        await self._report_status(server, status)
        return Stalled(accepted_verdict.cause)

    def _discover(self, server: McpServer, credential: ResolvedCredential, workload: Workload) -> DiscoveryState | None:
        """Start, pause or stop the server's discovery, depending on its workload and credential."""
        endpoint = workload.endpoint
        verdicts = (workload.verdict, workload.outage, credential.verdict)
        failing_verdicts = [verdict for verdict in verdicts if verdict is not None and not verdict.ok]
        # Only a failure ends a requested refresh. While a verdict is unknown, the refresh remains pending.
        problem = next((verdict.message for verdict in failing_verdicts if verdict.ok is False), "")
        if endpoint is None:
            self._discoverer.stop(server.key, problem)
            return None
        if failing_verdicts:
            return self._discoverer.pause(server.key, problem)
        operator_credential = credential.operator_credential
        target = DiscoveryTarget(
            server.metadata.uid,
            endpoint,
            operator_credential.hash,
            workload.revision,
            token_per_call=credential.oauth is not None and not server.spec.starts_with_keys,
            refusal=first_grant.refusal_meaning(server, operator_credential.value, self._platform.environment),
            api=ApiSource.of(server),
        )
        interval = server.spec.discovery.interval.seconds
        return self._discoverer.discover_if_due(
            server.key, target, operator_credential.value, interval, await_comparison=server.spec.pin
        )

    async def _add_failure_line(self, findings: ReconcileFindings) -> None:
        """Add the log line in which a stdio server's process explains its failure to the discovery failure, once per
        failure.
        """
        state, server = findings.discovery, findings.server
        failure = state.failure if state is not None else None
        if state is None or failure is None or not failure.wants_log_line or server.spec.effective_transport != "stdio":
            return
        line = await self._platform.failure_line(server)
        if state.failure is failure:
            state.failure = dataclasses.replace(failure, log_line=line)

    def _verification(self, findings: ReconcileFindings) -> ConditionVerdict | None:
        """The verdict Verified from the server's last answer; None before an answer, so that a restart of the operator
        does not change the condition.
        """
        if findings.workload.outage is not None:
            return findings.workload.outage
        if findings.credential.verdict.ok is None:
            return None
        if findings.workload.verdict.ok is not True or not findings.credential.verdict.ok or findings.discovery is None:
            return NOT_REACHED
        if findings.discovery.failure is not None and not findings.discovery.failure.is_silence:
            return explain_refusal(findings.server, findings.discovery.failure)
        listing_verdict = self._listing_findings.get(findings.server.key, ListingFindings()).verdict()
        if findings.discovery.wants_sign_in:
            interval = findings.server.spec.discovery.interval.seconds
            return first_grant.verdict(findings.discovery, listing_verdict, interval, self._now())
        if findings.discovery.listing is not None:
            return listing_verdict
        return before_first_answer(findings.server.status, findings.discovery, self._monotonic())

    def _authorization(self, server: McpServer) -> ConditionVerdict | None:
        """The verdict Authorized; None for a server whose calls need no grants."""
        auth = server.spec.auth
        if auth is None or auth.grant is None:
            return None
        return self.failed_grants.verdict(server.key, verdict_of(server.status.condition(ConditionType.AUTHORIZED)))

    def _seconds_until_report(self, findings: ReconcileFindings, verdicts: Verdicts) -> float:
        """Seconds until the status is written: positive while it would only say that the first answer is awaited."""
        if verdicts.verified is not FIRST_DISCOVERY or findings.discovery is None or findings.discovery.task is None:
            return 0.0
        return findings.discovery.began_at + FIRST_ANSWER_GRACE_S - self._monotonic()

    async def _publish_or_refusal(self, findings: ReconcileFindings) -> tuple[Catalog | None, ConditionVerdict | None]:
        """The published catalog; and the verdict Programmed if the API server refuses a new catalog (quota, rights)."""
        try:
            return await self._publish(findings), None
        except NamespaceTerminating:
            raise
        except REFUSALS as error:
            self._on_refused_catalog()
            logger.warning("the catalog of %s was refused and is not published: %s", findings.server.key, error)
            refusal = ConditionVerdict(False, Cause.APPLY_REFUSED, f"the server's tools are not published: {error}")
            return await self.catalogs.read(findings.server.key, findings.server.metadata.uid), refusal

    async def _publish(self, findings: ReconcileFindings) -> Catalog | None:
        """Publish or withdraw the catalog as the findings require; return the published catalog."""
        server = findings.server
        stored_catalog = await self.catalogs.read(server.key, server.metadata.uid)
        if stored_catalog is None:  # a document that was deleted or damaged is restored from the copy in memory
            stored_catalog = self.catalogs.retained_copy(server.key, server.metadata.uid)
        catalog = await self._catalog(findings, stored_catalog)
        if catalog is None or _removes_tools(findings):
            await self.catalogs.withdraw(server.key)
            return None
        published = await self.catalogs.publish(catalog, stored_catalog)
        self._on_catalog(published)
        if not published.sign_in and (stored_catalog is None or stored_catalog.hash != published.hash):
            await self._platform.announce(server, catalog_announcement(stored_catalog, published))
        return published

    async def _catalog(self, findings: ReconcileFindings, stored_catalog: Catalog | None) -> Catalog | None:
        """The catalog from the last successful discovery, else the stored catalog. A stored catalog can be marked
        offline but not online.
        """
        server, state, endpoint = findings.server, findings.discovery, findings.workload.endpoint
        refresh_result = (state and state.refreshed) or (stored_catalog and stored_catalog.refreshed)
        if state is not None and endpoint is not None:
            credential = findings.credential
            access = CallAccess(endpoint, credential.ref, findings.prefix, credential.oauth)
            if (earlier_listing := first_grant.stored_listing(state, stored_catalog)) is not None:
                state.listing = PackedListing.of(earlier_listing)
                state.lists_read_at = 0.0 if stored_catalog is None else stored_catalog.lists_read_at
            if state.listing is not None:
                self.catalogs.release(server.key)
                previous_catalog = None if stored_catalog is None or stored_catalog.sign_in else stored_catalog
                listing = first_grant.published_listing(server, state, await unpack_listing(state.listing))
                offer = await self._definitions.offer(server, listing, access, previous_catalog)
                self._store_findings(server.key, offer.findings)
                for announcement in offer.announcements:
                    await self._platform.announce(server, announcement)
                return msgspec.structs.replace(
                    offer.catalog, online=findings.online, refreshed=refresh_result, lists_read_at=state.lists_read_at
                )
            if state.wants_sign_in and findings.online:
                self.catalogs.release(server.key)
                return msgspec.structs.replace(
                    first_grant.sign_in_catalog(server, access),
                    refreshed=refresh_result,
                    lists_read_at=state.lists_read_at,
                )
        if stored_catalog is None or (state is not None and first_grant.is_obsolete(state, stored_catalog)):
            return None
        self.catalogs.retain(stored_catalog)
        return msgspec.structs.replace(
            stored_catalog, online=findings.stored_tools_online(stored_catalog), refreshed=refresh_result
        )

    def _calibrate(self, findings: ReconcileFindings, catalog: Catalog | None) -> ConditionVerdict | None:
        """Start or stop probes of the server; return the verdict Calibrated."""
        key, endpoint = findings.server.key, findings.workload.endpoint
        if self._prober is None:
            return None
        discovery = findings.discovery
        if catalog is None or endpoint is None or not findings.online or discovery is None or discovery.listing is None:
            self._stop_probes(key)
            return None
        target, calibration = discovery.target, findings.server.spec.calibration
        rate = findings.server.spec.limits.calls_per_second
        probe_set = ProbeSet(
            target.uid,
            endpoint,
            target.credential_hash,
            target.revision,
            self._plan(findings.server, catalog),
            calibration.samples,
            calibration.interval.seconds,
            max(MIN_GAP_S, 1 / rate if rate else 0.0),
        )
        self._prober.hold(key, probe_set, findings.credential.operator_credential.value)
        return self._prober.verdict(key)

    def _plan(self, server: McpServer, catalog: Catalog) -> ProbePlan:
        version = (catalog.hash, server.metadata.generation)
        cached_plan = self._plans.get(server.key)
        if cached_plan is None or cached_plan[0] != version:
            cached_plan = self._plans[server.key] = version, plan(server, catalog, self._default_probe_policy)
        return cached_plan[1]

    def _stop_probes(self, key: ServerKey) -> None:
        if self._prober is not None:
            self._prober.drop(key)

    def _store_findings(self, key: ServerKey, findings: ListingFindings) -> None:
        """Store the findings about a listing, and log them if they changed."""
        previous_findings = self._listing_findings.get(key, ListingFindings())
        self._listing_findings[key] = findings
        if previous_findings != findings:
            for line in findings.lines:
                logger.warning("%s: %s", key, line)

    def _entry(
        self, findings: ReconcileFindings, status: McpServerStatus, conflicted_verdict: ConditionVerdict | None
    ) -> ServerEntry | None:
        key = findings.server.key
        return entry_for(
            key,
            findings.prefix,
            status,
            self._discoverer.last_refresh(key),
            removes_tools=_removes_tools(findings),
            mask=Mask(findings.credential.operator_credential.value),
            conflicted=conflicted_verdict,
        )

    async def _report_status(self, server: McpServer, status: McpServerStatus) -> None:
        await self._platform.report(server, status)
        ready_condition = status.condition(ConditionType.READY)
        self._on_ready(server.key, ready_condition)
        for announcement in condition_announcements(server.status, status):
            logger.log(announcement.level, "%s: %s: %s", server.key, announcement.reason, announcement.note)
            await self._platform.announce(server, announcement)

    def _outcome(self, findings: ReconcileFindings) -> Outcome:
        """Outcome of the reconcile, from the workload's verdict if it is not True, else from the credential's verdict.

        The credential's verdict also decides if the workload only waits for Secrets.
        """
        workload, credential = findings.workload, findings.credential
        workload_decides = workload.verdict.ok is not True and credential.pods_refusal is None
        verdict = workload.verdict if workload_decides else credential.verdict
        if verdict.cause in (Cause.APPLY_FAILED, Cause.REFS_UNREADABLE, Cause.SECRET_BEING_READ):
            return Waiting(verdict.cause)
        if verdict.ok is False:
            return Stalled(verdict.cause, STALLED_RETRY_S)
        if findings.discovery is None or workload.outage is not None or verdict.ok is None:
            outcome = Done(workload.recheck_after_s)
        else:
            outcome = Done(self._seconds_until_discovery(findings.discovery)).no_later_than(workload.recheck_after_s)
        # Absent Secrets are polled for, because a Secret that is created without the label causes no event.
        return outcome.no_later_than(STALLED_RETRY_S if credential.absent_secrets else None)

    def _seconds_until_discovery(self, state: DiscoveryState) -> float | None:
        """Seconds until the server's discovery needs a reconcile; None if its end causes one."""
        if state.task is None:
            return self._discoverer.until_due(state)
        if state.listing is None and state.failure is None:
            seconds_until_silent = until_silent(state, self._monotonic())
            return seconds_until_silent if seconds_until_silent > 0 else None
        return None


def _removes_tools(findings: ReconcileFindings) -> bool:
    """Whether the server's tools are withdrawn, because it is offline and its spec says `onDisconnect: Remove`."""
    return not findings.online and findings.server.spec.discovery.on_disconnect == "Remove"
