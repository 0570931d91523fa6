"""Reconciles one McpServer: from its manifest to its workload, documents and status.

Level-based: only the present and the desired state matter, not the change. Knows the world through `ports` alone, so a
cluster and a laptop run the same code. Never waits for an MCP server: `discovery.discoverer` asks them in tasks of its
own and enqueues the server again. One look per server at a time.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import catalog_name
from fairlead_api.documents.servers import ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerStatus, ProbePolicy
from fairlead_mcp.masking import Mask
from fairlead_operator.calibration.plan import ProbePlan, plan
from fairlead_operator.calibration.prober import APART_S, Prober, ProbeSet
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.catalog_build import Reached
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.first_verdict import BEING_ASKED, of_first_answer, until_silent
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryState, DiscoveryTarget
from fairlead_operator.latency.figures import Figures
from fairlead_operator.outcome import Done, Outcome, Stalled, Waiting
from fairlead_operator.pinning.definitions import PinnedDefinitions, count_nothing
from fairlead_operator.ports import (
    PLATFORM_ERRORS,
    REFUSALS,
    ConditionVerdict,
    Connector,
    Documents,
    Platform,
    ResolvedCredential,
    UnreadableServer,
    Workload,
)
from fairlead_operator.publish.catalog_changes import ToolChanges
from fairlead_operator.publish.catalogs import Catalogs
from fairlead_operator.reconcilefindings import ReconcileFindings
from fairlead_operator.server.announcements import catalog_news, condition_news
from fairlead_operator.server.document_entries import entry_for, entry_of_new
from fairlead_operator.server.prefixes import Prefixes, PrefixStyle
from fairlead_operator.server.spec_checks import RESTRICTED, PodTemplateChecker, check
from fairlead_operator.server.status import NOT_REACHED, Facts, Verdicts, build_status
from fairlead_operator.server.tierfloors import TierFloors

logger = logging.getLogger(__name__)

STALLED_RETRY: Final = 60.0
"""Seconds after which a refusal is tried again that somebody may have lifted without touching the McpServer."""
SETTLING: Final = 1.0
"""Seconds for which nobody is told that a first answer is awaited: most come sooner, and a status is a write."""


@dataclass(frozen=True)
class ReconcilerOptions:
    """Settings of an installation that bear on every server."""

    prefix_style: PrefixStyle = "name"
    prefix_retention: float = 0.0
    """Seconds for which the prefix of a deleted server is reserved for that server."""
    pace: DiscoveryOptions = field(default_factory=DiscoveryOptions)
    pod_templates: PodTemplateChecker = RESTRICTED
    probe: ProbePolicy = "Declared"
    """For servers that do not say which of their tools may be probed."""


@dataclass(frozen=True, kw_only=True)
class ReconcilerParts:
    """Ports and parts of an installation that a look at a server goes through."""

    platform: Platform
    documents: Documents
    connector: Connector
    prefixes: Prefixes
    store_prefixes: Callable[[], Awaitable[object]] | None = None
    """Awaited before the catalog of a server is withdrawn whose prefix is reserved from now on."""
    prober: Prober | None = None
    """Without it no tool is probed."""
    figures: Figures | None = None
    """Without them no status shows any."""
    definitions: PinnedDefinitions | None = None


@dataclass(frozen=True, kw_only=True)
class ReconcilerObserver:
    """Hears of what looks at servers lead to."""

    changed: Callable[[ServerKey], None]
    """Called when a server needs another look."""
    published: Callable[[Catalog], None] = lambda catalog: None
    tools_changed: Callable[[ToolChanges], None] = lambda changes: None
    """Gets what a catalog that was published changed."""
    shown: Callable[[ServerKey, Condition | None], None] = lambda key, ready: None
    """Gets each condition Ready, and None where the server is gone."""
    entered: Callable[[ServerKey, ServerEntry | None], None] = lambda key, entry: None
    """Gets the server's entry for gateways, None for a server that is ready or gone."""


class Reconciler:
    """Reconciles McpServers, one look at a time."""

    def __init__(
        self,
        parts: ReconcilerParts,
        observer: ReconcilerObserver,
        options: ReconcilerOptions | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        options, clocks = options or ReconcilerOptions(), clocks or Clocks()
        self._platform = parts.platform
        self._changed = observer.changed
        self._published = observer.published
        self._shown = observer.shown
        self._entered = observer.entered
        self._prober = parts.prober
        self._figures = parts.figures
        self._plans: dict[ServerKey, tuple[tuple[str, int], ProbePlan]] = {}
        """Plan of probes by the catalog's hash and the server's generation, which determine it."""
        self._now = clocks.now
        self._monotonic = clocks.monotonic
        self._pod_templates = options.pod_templates
        self._probe = options.probe
        self._prefixes = parts.prefixes
        self._store_prefixes = parts.store_prefixes
        self.floors = TierFloors(observer.changed)
        self._rounds = Discoverer(parts.connector, observer.changed, pace=options.pace, clocks=clocks)
        self.catalogs = Catalogs(parts.documents, clocks.now, observer.tools_changed)
        self._definitions = parts.definitions or PinnedDefinitions(parts.documents, count_nothing, clocks.now)
        self._remarks: dict[ServerKey, ListingFindings] = {}

    async def start(self) -> None:
        """Learn every server's claim to a prefix before the first look, so that the order of looks decides nothing.

        The catalogs that are stored say who had which prefix until now: for a server that was deleted while no operator
        led, or that cannot be read, it is reserved. Raises PLATFORM_ERRORS.
        """
        servers = {server.key: server async for server in self._servers()}
        for catalog in await self.catalogs.orphans([(key, server.metadata.uid) for key, server in servers.items()]):
            if catalog.prefix is not None:
                self._prefixes.reserve(catalog.prefix, catalog.key)
        for server in servers.values():
            self._prefixes.claim(server)
        for prefix, keys in self._prefixes.contenders().items():
            for key in keys:
                stored = await self.catalogs.read(key, servers[key].metadata.uid)
                if stored is not None and stored.prefix == prefix:
                    self._prefixes.confirm(prefix, key)
                    break
        self._prefixes.settle()

    async def unseen(self) -> list[ServerEntry]:
        """Entries of the servers that have no catalog, before the first look. Raises PLATFORM_ERRORS."""
        stored = await self.catalogs.names()
        return [
            entry_of_new(server.key, self._prefixes.grant(server)[1])
            async for server in self._servers()
            if catalog_name(server.key) not in stored
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
        """End the discoveries and the probes that run."""
        if self._prober is not None:
            await self._prober.aclose()
        await self._rounds.aclose()

    def hint(self, key: ServerKey) -> None:
        """The server announced that its lists have changed: ask it soon, within the floor."""
        self._rounds.hint(key)

    def refresh(self, key: ServerKey) -> None:
        """Somebody wants the server asked now, and one that failed tried again now; its catalog, or its entry where it
        has none, says what came of it.
        """
        self._platform.retry(key)
        self._rounds.refresh(key)

    def doubt(self, key: ServerKey) -> None:
        """Somebody could not reach the server: see whether it is there."""
        self._rounds.soon(key)

    async def reconcile(self, key: ServerKey) -> Outcome:
        """One look. What the world refuses is in the outcome, not raised."""
        try:
            server = await self._platform.get(key)
            if server is None:
                return await self._forget(key)
            return await self._look(server)
        except UnreadableServer as error:
            logger.warning("%s cannot be read: %s", key, error)
            return Stalled(Cause.INVALID)
        except PLATFORM_ERRORS as error:
            logger.warning("%s: tried again later: %s", key, error)
            return Waiting(error.reason)

    async def _forget(self, key: ServerKey) -> Outcome:
        self._rounds.forget(key)
        self._remarks.pop(key, None)
        self._plans.pop(key, None)
        await self._definitions.drop(key)
        self._leave_alone(key)
        self.floors.forget(key)
        served = catalog_name(key) in await self.catalogs.names()
        for other in self._prefixes.release(key, served=served):
            self._changed(other)
        await self._remember_prefixes(key)
        await self.catalogs.withdraw(key)
        await self._platform.forget(key)
        self._shown(key, None)
        self._entered(key, None)
        return Done()

    async def _remember_prefixes(self, key: ServerKey) -> None:
        """Store the reservation before the catalog goes: an operator that ends in between leaves one of the two."""
        if self._store_prefixes is None or not self._prefixes.has_reservation(key):
            return
        try:
            await self._store_prefixes()
        except REFUSALS as error:  # tools of a deleted server may not stay listed because of a full quota
            logger.warning("%s: the reservation of its prefix ends with this operator: %s", key, error)

    def expire_prefixes(self) -> None:
        """End reservations whose time is over, and have the servers looked at that waited for them."""
        for key in self._prefixes.expire():
            self._changed(key)

    async def _look(self, server: McpServer) -> Outcome:
        for other in self._prefixes.claim(server):
            self._changed(other)
        accepted = check(server, self._platform.environment, self._pod_templates)
        if not accepted.ok:
            return await self._refuse(server, accepted)
        conflicted, prefix = self._prefixes.grant(server)
        credential = await self._platform.credential(server)
        workload = await self._platform.ensure(server, credential)
        look = ReconcileFindings(
            server, accepted, prefix, credential, workload, self._round(server, credential, workload)
        )
        await self._ask_last_words(look)
        catalog, refused = await self._publish_or_refusal(look)
        calibrated = self._calibrate(look, catalog)
        more = *self._definitions.verdicts(server.key), self.floors.verdict(server), conflicted, *workload.beside
        verified = self._verification(look)
        verdicts = Verdicts(accepted, credential.verdict, refused or workload.verdict, verified, calibrated, *more)
        remarks = self._remarks.get(server.key)
        left_out = remarks.tools_left_out if remarks is not None else None
        latency = self._figures.summary(server.key) if self._figures is not None else None
        approvals = self._definitions.approvals(server.key)
        facts = Facts(workload.endpoint, catalog, left_out, latency, workload.pods, approvals)
        status = build_status(server, verdicts, facts, self._now(), self._platform.environment)
        self._entered(server.key, self._entry(look, status, conflicted))
        if (left := self._until_told(look, verdicts)) > 0:
            return Done(left)
        await self._show(server, status)
        return self._next(look) if refused is None else Stalled(refused.cause, STALLED_RETRY)

    async def _refuse(self, server: McpServer, accepted: ConditionVerdict) -> Outcome:
        self._rounds.stop(server.key, accepted.message)
        self._leave_alone(server.key)
        await self.catalogs.withdraw(server.key)
        conflicted, _ = self._prefixes.grant(server)
        verdicts = Verdicts(accepted, conflicted=conflicted)
        status = build_status(server, verdicts, Facts(), self._now(), self._platform.environment)
        refreshed = self._rounds.last_refresh(server.key)
        self._entered(server.key, entry_for(server.key, None, status, refreshed, conflicted=conflicted))
        await self._show(server, status)
        return Stalled(accepted.cause)

    def _round(self, server: McpServer, credential: ResolvedCredential, workload: Workload) -> DiscoveryState | None:
        """Have the server asked where there is something to ask."""
        endpoint = workload.endpoint
        verdicts = (workload.verdict, workload.down, credential.verdict)
        troubles = [verdict for verdict in verdicts if verdict is not None and not verdict.ok]
        # somebody who asked for an answer does not have one while it is still on its way
        why = next((verdict.message for verdict in troubles if verdict.ok is False), "")
        if endpoint is None:
            self._rounds.stop(server.key, why)
            return None
        if troubles:
            return self._rounds.pause(server.key, why)
        hash_ = credential.ref.hash if credential.ref else ""
        subject = DiscoveryTarget(server.metadata.uid, endpoint, hash_, workload.revision)
        interval = server.spec.discovery.interval.seconds
        return self._rounds.look(server.key, subject, credential.value, interval, whole=server.spec.pin)

    async def _ask_last_words(self, look: ReconcileFindings) -> None:
        """Add the last words of a process to its failure, once for each."""
        state, server = look.round, look.server
        failure = state.failure if state is not None else None
        if state is None or failure is None or not failure.wants_words or server.spec.effective_transport != "stdio":
            return
        words = await self._platform.last_words(server)
        if state.failure is failure:
            state.failure = dataclasses.replace(failure, words=words)

    def _verification(self, look: ReconcileFindings) -> ConditionVerdict | None:
        """Verdict that follows from the last answer; None while there is none to go by, so that a restart changes
        nothing.
        """
        if look.workload.down is not None:
            return look.workload.down
        if look.credential.verdict.ok is None:
            return None
        if look.workload.verdict.ok is not True or not look.credential.verdict.ok or look.round is None:
            return NOT_REACHED
        if look.round.failure is not None and not look.round.failure.is_silence:
            return look.round.failure.verdict()
        if look.round.listing is not None:
            return self._remarks.get(look.server.key, ListingFindings()).verdict()
        return of_first_answer(look.server.status, look.round, self._monotonic())

    def _until_told(self, look: ReconcileFindings, verdicts: Verdicts) -> float:
        """Seconds for which a status would only say that the server is being asked."""
        if verdicts.verified is not BEING_ASKED or look.round is None or look.round.task is None:
            return 0.0
        return look.round.asked_at + SETTLING - self._monotonic()

    async def _publish_or_refusal(self, look: ReconcileFindings) -> tuple[Catalog | None, ConditionVerdict | None]:
        """The catalog as published, and why the present one cannot be: a full quota, missing rights."""
        try:
            return await self._publish(look), None
        except REFUSALS as error:
            logger.warning("%s: its catalog is refused: %s", look.server.key, error)
            why = ConditionVerdict(False, Cause.APPLY_REFUSED, f"its tools are not published: {error}")
            return await self.catalogs.read(look.server.key, look.server.metadata.uid), why

    async def _publish(self, look: ReconcileFindings) -> Catalog | None:
        """Bring the catalog in line; the catalog as published."""
        server = look.server
        stored = await self.catalogs.read(server.key, server.metadata.uid)
        if stored is None:
            stored = self.catalogs.retained_copy(server.key, server.metadata.uid)  # somebody deleted or spoilt it
        catalog = await self._catalog(look, stored)
        lost = not look.online and server.spec.discovery.on_disconnect == "Remove"
        if catalog is None or lost:
            await self.catalogs.withdraw(server.key)
            return None
        published = await self.catalogs.publish(catalog, stored)
        self._published(published)
        if stored is None or stored.hash != published.hash:
            await self._platform.announce(server, catalog_news(stored, published))
        return published

    async def _catalog(self, look: ReconcileFindings, stored: Catalog | None) -> Catalog | None:
        """From the last good answer, else what is published; `online` is left alone while nothing new is known."""
        listing, endpoint = look.round.listing if look.round else None, look.workload.endpoint
        refreshed = (look.round and look.round.refreshed) or (stored and stored.refreshed)
        if listing is not None and endpoint is not None:
            reached = Reached(endpoint, look.credential.ref, look.prefix)
            self.catalogs.release(look.server.key)
            offer = await self._definitions.offer(look.server, listing.unpack(), reached, stored)
            self._note(look.server.key, offer.remarks)
            for announcement in offer.announcements:
                await self._platform.announce(look.server, announcement)
            return msgspec.structs.replace(offer.catalog, online=look.online, refreshed=refreshed)
        if stored is None:
            return None
        self.catalogs.retain(stored)
        return msgspec.structs.replace(stored, online=stored.online and look.online, refreshed=refreshed)

    def _calibrate(self, look: ReconcileFindings, catalog: Catalog | None) -> ConditionVerdict | None:
        """Have the server probed while it answers; what is known of that."""
        key, endpoint = look.server.key, look.workload.endpoint
        if self._prober is None:
            return None
        if catalog is None or endpoint is None or not look.online or look.round is None or look.round.listing is None:
            self._leave_alone(key)
            return None
        subject, calibration = look.round.subject, look.server.spec.calibration
        rate = look.server.spec.limits.calls_per_second
        bench = ProbeSet(
            subject.uid,
            endpoint,
            subject.credential_hash,
            subject.revision,
            self._plan(look.server, catalog),
            calibration.samples,
            calibration.interval.seconds,
            max(APART_S, 1 / rate if rate else 0.0),
        )
        self._prober.hold(key, bench, look.credential.value)
        return self._prober.verdict(key)

    def _plan(self, server: McpServer, catalog: Catalog) -> ProbePlan:
        of = (catalog.hash, server.metadata.generation)
        planned = self._plans.get(server.key)
        if planned is None or planned[0] != of:
            planned = self._plans[server.key] = of, plan(server, catalog, self._probe)
        return planned[1]

    def _leave_alone(self, key: ServerKey) -> None:
        if self._prober is not None:
            self._prober.drop(key)

    def _note(self, key: ServerKey, remarks: ListingFindings) -> None:
        before, self._remarks[key] = self._remarks.get(key, ListingFindings()), remarks
        if before != remarks:
            for line in remarks.lines:
                logger.warning("%s: %s", key, line)

    def _entry(
        self, look: ReconcileFindings, status: McpServerStatus, conflicted: ConditionVerdict | None
    ) -> ServerEntry | None:
        key = look.server.key
        removes = look.server.spec.discovery.on_disconnect == "Remove"
        mask = Mask(look.credential.value)
        refreshed = self._rounds.last_refresh(key)
        return entry_for(key, look.prefix, status, refreshed, removes=removes, mask=mask, conflicted=conflicted)

    async def _show(self, server: McpServer, status: McpServerStatus) -> None:
        await self._platform.report(server, status)
        ready = status.condition(ConditionType.READY)
        self._shown(server.key, ready)
        for announcement in condition_news(server.status, status):
            logger.log(announcement.level, "%s: %s: %s", server.key, announcement.reason, announcement.note)
            await self._platform.announce(server, announcement)

    def _next(self, look: ReconcileFindings) -> Outcome:
        stopped = look.workload.verdict.ok is not True and look.credential.pods is None
        trouble = look.workload.verdict if stopped else look.credential.verdict
        # Nobody tells of a Secret without the label, so one that may appear is looked for.
        absent = STALLED_RETRY if look.credential.absent else None
        if trouble.cause in (Cause.APPLY_FAILED, Cause.REFS_UNREADABLE):
            return Waiting(trouble.cause)
        if trouble.ok is False:
            return Stalled(trouble.cause, STALLED_RETRY)
        if look.round is None or look.workload.down is not None or trouble.ok is None:
            times = [seconds for seconds in (absent, look.workload.again) if seconds is not None]
            return Done(min(times, default=None))  # or an event brings the next look
        due = self._until_round(look.round)
        if due is None:
            return Done(absent)  # the end of the discovery brings the next look
        return Done(min(due, absent) if absent is not None else due)

    def _until_round(self, state: DiscoveryState) -> float | None:
        """Seconds until a server is to be looked at for its discovery; None where the end of the discovery says it."""
        if state.task is None:
            return self._rounds.until_due(state)
        if state.listing is None and state.failure is None and (left := until_silent(state, self._monotonic())) > 0:
            return left
        return None
