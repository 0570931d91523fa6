"""Runs the operator's loops around one reconciler: work queue, sweep, rules document, statuses and events.

All I/O goes through the protocols of `ports`; `compose` makes the parts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from fairlead_api.documents.codec import RULES_NAME, SERVERS_NAME
from fairlead_api.documents.state import STATE
from fairlead_api.meta import LABEL_DOCUMENT, LABEL_NAME, LABEL_NAMESPACE, ServerKey
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.latency.ledger import FIGURES_EVERY_S, Move
from fairlead_operator.latency.timekeeper import Timekeeper
from fairlead_operator.outcome import Done, Outcome
from fairlead_operator.ports import (
    PLATFORM_ERRORS,
    TIER_MOVED,
    Announcement,
    ApiLister,
    Connector,
    Declarations,
    Documents,
    Gateways,
    Platform,
    UnreadableServer,
)
from fairlead_operator.publish.policies import PolicyStatuses
from fairlead_operator.publish.rules import RulesPublisher
from fairlead_operator.publish.servers import ServerEntries
from fairlead_operator.reconciler import Reconciler
from fairlead_operator.telemetry import Telemetry
from fairlead_operator.workqueue import ItemBackoff, WorkQueue

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControllerOptions:
    """Intervals of periodic work in seconds, and the number of concurrent reconciles."""

    sweep_s: float = 180.0
    """Longest time between two clean-ups after deleted servers, and between two compilations of the rules document."""
    settle_s: float = 0.1
    """Time within which changes of tiers and policies are combined into one rules document."""
    workers: int = 16
    """Number of servers that are reconciled concurrently."""
    backoff: ItemBackoff = field(default_factory=ItemBackoff)
    """Delay of retries."""
    entries_s: float = 2.0
    """Longest time between two writes of the servers document while entries keep changing."""
    figures_s: float = FIGURES_EVERY_S
    """Shortest time between two writes of measured latencies and tool counts to one status."""
    documents_s: float = FIGURES_EVERY_S
    """Shortest time between two writes of a state document if only its measurements changed."""


@dataclass(frozen=True)
class PlatformAdapters:
    """Implementations of the ports (`fairlead_operator.ports`) for one platform."""

    platform: Platform
    documents: Documents
    connector: Connector
    declarations: Declarations
    gateways: Gateways | None = None
    """None: no latency is measured, and tiers decide by declared latencies."""
    apis: ApiLister | None = None
    """None where no server is an HTTP API."""


@dataclass(frozen=True)
class ControllerParts:
    """Components that a controller runs; `compose` makes them."""

    queue: WorkQueue[ServerKey]
    reconciler: Reconciler
    timekeeper: Timekeeper
    entries: ServerEntries
    """The servers document."""
    rules: RulesPublisher
    rules_outdated: asyncio.Event
    """Set when a tier, a policy or the labels of a server may have changed."""
    policies: PolicyStatuses
    moves: asyncio.Queue[Move]
    """Moves of tools between tiers that are not announced yet."""
    puller: Puller | None
    """None: no gateways are polled."""
    telemetry: Telemetry


class Controller:
    """Runs the operator's loops. Call all methods in the event loop of `run`."""

    def __init__(
        self,
        adapters: PlatformAdapters,
        parts: ControllerParts,
        options: ControllerOptions,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._platform = adapters.platform
        self._declarations = adapters.declarations
        self._options = options
        self._monotonic = monotonic
        self._is_prepared = False
        self._sweep_due = asyncio.Event()
        self.queue = parts.queue
        self.reconciler = parts.reconciler
        self.timekeeper = parts.timekeeper
        self.entries = parts.entries
        self._rules = parts.rules
        self.rules_outdated = parts.rules_outdated
        self._policies = parts.policies
        self._moves = parts.moves
        self._puller = parts.puller
        self._telemetry = parts.telemetry

    def __repr__(self) -> str:
        return f"<Controller {self.queue!r}>"

    def restore_document(self, name: str, labels: Mapping[str, str]) -> None:
        """Schedule a write of a document whose stored copy was edited or deleted."""
        if name == RULES_NAME:
            self.rules_outdated.set()
        elif name == SERVERS_NAME:
            self.entries.outdated.set()
        elif labels.get(LABEL_DOCUMENT) == STATE:
            self.timekeeper.republish(name)
        elif labels.get(LABEL_NAMESPACE) and labels.get(LABEL_NAME):
            self.queue.add(ServerKey(labels[LABEL_NAMESPACE], labels[LABEL_NAME]))

    async def prepare(self) -> None:
        """Load the stored documents, and publish entries of servers without a catalog before the first reconcile.

        `run` calls this method if it was not called before.
        """
        self._is_prepared = True
        await self._restore()
        await self.reconciler.start()
        for entry in await self.reconciler.new_server_entries():
            self.entries.add(entry)

    async def run(self) -> None:
        """Run all loops until cancelled."""
        try:
            if not self._is_prepared:
                await self.prepare()
            for key in await self._platform.keys():
                self.queue.add(key)
            self._sweep_due.set()
            self.rules_outdated.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self.queue.run(self._reconcile), name="work queue")
                group.create_task(self._keep_sweeping(), name="sweep")
                group.create_task(self._keep_rules(), name="rules")
                group.create_task(self._keep_entries(), name="servers document")
                group.create_task(self.timekeeper.run(), name="latencies")
                group.create_task(self._keep_announcing_moves(), name="tier moves")
                group.create_task(self._keep_tool_counts(), name="tool counts of tiers")
                group.create_task(self._keep_policies(), name="statuses of policies")
                if self._puller is not None:
                    group.create_task(self._puller.run(), name="gateways")
        finally:
            await self.reconciler.aclose()

    async def sweep(self) -> None:
        """Clean up after deleted servers, including deletions that an earlier leader did not finish."""
        keys = set(await self._platform.keys())
        self._telemetry.servers.set(len(keys))
        existing = []
        for key in keys:
            try:
                server = await self._platform.get(key)
            except UnreadableServer:
                return  # its UID is unknown, so no catalog can be identified as orphaned
            if server is not None:
                existing.append((key, server.metadata.uid))
        self.reconciler.expire_prefixes()
        await self.reconciler.catalogs.sweep(existing)
        self.timekeeper.forget(keys)
        self.entries.retain(keys)
        self._policies.forget(keys)
        await self._platform.sweep(keys)

    async def _reconcile(self, key: ServerKey) -> Outcome:
        self._telemetry.queue_depth.set(self.queue.depth)
        started = self._monotonic()
        outcome = await self.reconciler.reconcile(key)
        self._telemetry.reconcile_seconds.observe(self._monotonic() - started)
        self._telemetry.reconciles.labels(type(outcome).__name__).inc()
        if not isinstance(outcome, Done):
            self._telemetry.errors.labels(outcome.cause).inc()
        self._telemetry.queue_depth.set(self.queue.depth)
        return outcome

    async def _keep_sweeping(self) -> None:
        while True:
            await self._wait_for(self._sweep_due, self._options.sweep_s)
            await self._run_or_retry("sweep", self.sweep, self._sweep_due)

    async def _keep_rules(self) -> None:
        while True:
            await self._wait_for(self.rules_outdated, self._options.sweep_s)
            await asyncio.sleep(self._options.settle_s)
            self.rules_outdated.clear()
            await self._run_or_retry("rules", self._rules.publish, self.rules_outdated)

    async def _keep_policies(self) -> None:
        while True:
            await self._policies.outdated.wait()
            await asyncio.sleep(self._options.settle_s)
            self._policies.outdated.clear()
            await self._run_or_retry("statuses of policies", self._policies.show, self._policies.outdated)

    async def _restore(self) -> None:
        while True:
            try:
                await self.timekeeper.restore()
                await self.entries.restore()
                return
            except PLATFORM_ERRORS as error:
                logger.warning("the stored state documents cannot be read yet and will be retried: %s", error)
                await asyncio.sleep(self._options.backoff.first)

    async def _keep_tool_counts(self) -> None:
        """Keep the number of tools in each tier's status up to date."""
        changed, interval_s = self.timekeeper.sizes_changed, self._options.figures_s
        await self._keep_writing("sizes of tiers", self._write_tool_counts, changed, interval_s)

    async def _keep_entries(self) -> None:
        await self._keep_writing(
            "servers document", self.entries.publish, self.entries.outdated, self._options.entries_s
        )

    async def _keep_writing(
        self, task_name: str, write: Callable[[], Awaitable[object]], outdated: asyncio.Event, longest_pause_s: float
    ) -> None:
        """Call `write` whenever `outdated` is set: at once if the last write was `longest_pause_s` ago, else after
        pauses that grow up to `longest_pause_s`.
        """
        pause, written_at = self._options.settle_s, -longest_pause_s
        while True:
            await outdated.wait()
            outdated.clear()
            was_quiet = self._monotonic() - written_at >= longest_pause_s
            pause = self._options.settle_s if was_quiet else min(2 * pause, longest_pause_s)
            written_at = self._monotonic()
            await self._run_or_retry(task_name, write, outdated)
            await asyncio.sleep(pause)

    async def _write_tool_counts(self) -> None:
        await self._declarations.write_tool_counts(self.timekeeper.ledger.count_tools())

    async def _keep_announcing_moves(self) -> None:
        """Count and announce each tool that has entered or left tiers."""
        while True:
            move = await self._moves.get()
            self._telemetry.count_move(move)
            try:
                server = await self._platform.get(move.tool.server)
            except (*PLATFORM_ERRORS, UnreadableServer):
                continue
            if server is not None:
                await self._platform.announce(server, _tier_announcement(move))

    @staticmethod
    async def _wait_for(event: asyncio.Event, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            pass
        event.clear()

    async def _run_or_retry(
        self, task_name: str, action: Callable[[], Awaitable[object]], outdated: asyncio.Event
    ) -> None:
        """Run `action`; on PLATFORM_ERRORS, set the event `outdated` after a pause, so that the action is repeated."""
        try:
            await action()
        except PLATFORM_ERRORS as error:
            logger.warning("the task '%s' failed and will be retried: %s", task_name, error)
            self._telemetry.publish_failures.labels(task_name).inc()
            await asyncio.sleep(self._options.backoff.first)
            outdated.set()


def _tier_announcement(move: Move) -> Announcement:
    has_left_tier = any(tier not in move.tiers_after for tier in move.tiers_before)
    return Announcement("Warning" if has_left_tier else "Normal", TIER_MOVED, move.sentence)
