"""Composition of the controller and its components, for a cluster (`app`) and for one machine (`local`).

The function `compose` connects all components: it shows which component receives the events of which other component.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.servers import ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_api.reports import Report
from fairlead_operator.calibration.prober import Prober
from fairlead_operator.clocks import Clocks
from fairlead_operator.controller import Controller, ControllerOptions, ControllerParts, PlatformAdapters
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.latency.ledger import Move
from fairlead_operator.latency.timekeeper import Timekeeper, TimekeeperObserver
from fairlead_operator.pinning.approvals import PendingApprovals
from fairlead_operator.pinning.definitions import PinnedDefinitions
from fairlead_operator.publish.policies import PolicyStatuses
from fairlead_operator.publish.rules import RulesPublisher
from fairlead_operator.publish.servers import ServerEntries
from fairlead_operator.reconciler import Reconciler, ReconcilerObserver, ReconcilerOptions, ReconcilerParts
from fairlead_operator.server.prefixes import Prefixes
from fairlead_operator.telemetry import Telemetry
from fairlead_operator.workqueue import WorkQueue


@dataclass(frozen=True)
class InstallationOptions:
    """Settings of an installation, and the clocks that its components share."""

    reconciler: ReconcilerOptions = field(default_factory=ReconcilerOptions)
    controller: ControllerOptions = field(default_factory=ControllerOptions)
    default_action: str = "Allow"
    """`Allow` or `Deny`: the action for servers that no ToolPolicy selects."""
    default_tier: str = ""
    """LatencyTier of clients that name none; empty: the LatencyTier with `default: true`."""
    gateway_approvals: bool = False
    """Whether administrators of gateways may approve definitions that are held back."""
    environment: str = ""
    """Name under which measurements of the operator's probes are stored; empty: the platform's."""
    clocks: Clocks = field(default_factory=Clocks)


@dataclass(frozen=True)
class Wakeups:
    """Queue and event through which adapters report changes; created before the adapters and the controller."""

    queue: WorkQueue[ServerKey]
    """Servers to reconcile."""
    rules: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the document of tiers and policies has to be compiled again."""

    @classmethod
    def of(cls, installation: InstallationOptions) -> Wakeups:
        """Wakeups with the workers and the back-off of an installation."""
        options = installation.controller
        return cls(WorkQueue(workers=options.workers, backoff=options.backoff, rng=installation.clocks.rng))


def compose(
    adapters: PlatformAdapters,
    installation: InstallationOptions | None = None,
    *,
    wakeups: Wakeups | None = None,
    telemetry: Telemetry | None = None,
) -> Controller:
    """A controller with all its components, for the platform of `adapters`."""
    options = installation or InstallationOptions()
    wakeups = wakeups or Wakeups.of(options)
    telemetry = telemetry or Telemetry()
    queue, moves, clocks = wakeups.queue, asyncio.Queue[Move](), options.clocks

    def on_move(move: Move) -> None:
        moves.put_nowait(move)
        prober.reschedule(move.tool.server)

    timekeeper = Timekeeper(
        adapters.documents,
        TimekeeperObserver(
            on_move=on_move, on_remeasured=queue.add, on_publish_failure=telemetry.publish_failures.labels("state").inc
        ),
        environment=options.environment or adapters.platform.environment,
        figures_every=options.controller.figures_s,
        documents_every=options.controller.documents_s,
        clocks=clocks,
    )
    prober = Prober(adapters.connector, timekeeper, queue.add, on_outcome=telemetry.count_probe, clocks=clocks)
    policies = PolicyStatuses(adapters.declarations, adapters.platform, clocks.now)

    def on_catalog(catalog: Catalog) -> None:
        timekeeper.take_catalog(catalog)
        policies.take_catalog(catalog)

    def on_entry(key: ServerKey, entry: ServerEntry | None) -> None:
        entries.put(key, entry)
        policies.note_reconciled(key, is_ready=entry is None)

    def on_prefix_change() -> None:
        entries.outdated.set()

    def on_rules(rules: Rules) -> None:
        timekeeper.use_tiers(rules.tiers)
        reconciler.floors.take_tiers([tier.name for tier in rules.tiers])
        policies.take_rules(rules)

    prefixes = Prefixes(
        options.reconciler.prefix_style,
        options.reconciler.prefix_retention,
        on_change=on_prefix_change,
        now=clocks.now,
        monotonic=clocks.monotonic,
    )
    entries = ServerEntries(adapters.documents, prefixes)
    approvals = PendingApprovals()
    reconciler = Reconciler(
        ReconcilerParts(
            platform=adapters.platform,
            documents=adapters.documents,
            connector=adapters.connector,
            apis=adapters.apis,
            prefixes=prefixes,
            store_prefixes=entries.publish,
            prober=prober,
            latencies=timekeeper.figures,
            definitions=PinnedDefinitions(adapters.documents, telemetry.show_held_back, clocks.now, approvals),
        ),
        ReconcilerObserver(
            enqueue=queue.add,
            on_catalog=on_catalog,
            on_ready=telemetry.show_ready,
            on_entry=on_entry,
            on_tool_changes=telemetry.count_tool_changes,
            on_refused_catalog=telemetry.publish_failures.labels("catalog").inc,
        ),
        options.reconciler,
        clocks,
    )

    def on_report(report: Report) -> None:
        telemetry.count_attempts(report)
        timekeeper.take_report(report)
        reconciler.failed_grants.add_report(report)
        for namespace, name in report.refresh:
            key = ServerKey(namespace, name)
            if not entries.refuse_refresh(key, clocks.now()):
                reconciler.refresh(key)
        for key in approvals.add(report.approvals) if options.gateway_approvals else ():
            queue.add(key)
        reconciler.take_listings(report.listings)
        for doubt in report.doubts:
            reconciler.recheck(ServerKey(doubt.namespace, doubt.server))

    puller = (
        Puller(adapters.gateways, on_report, poll_observer=telemetry.count_poll, rng=clocks.rng)
        if adapters.gateways is not None
        else None
    )
    if puller is not None:
        telemetry.scraped.gateways = lambda: puller.is_reached
    rules = RulesPublisher(
        adapters.declarations,
        adapters.documents,
        options.default_action,
        default_tier=options.default_tier,
        on_compiled=on_rules,
    )
    parts = ControllerParts(
        queue, reconciler, timekeeper, entries, rules, wakeups.rules, policies, moves, puller, telemetry
    )
    return Controller(adapters, parts, options.controller, clocks.monotonic)
