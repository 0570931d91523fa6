"""Keeps every McpServer looked at: the queue, the sweep and the rules document around one reconciler.

The composition roots (`kube.cluster`, `local`) make one, feed it with what they see, and `run` it while they may write.
Knows the world through `ports` alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import RULES_NAME, SERVERS_NAME
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.state import STATE
from fairlead_api.meta import LABEL_DOCUMENT, LABEL_NAME, LABEL_NAMESPACE, ServerKey
from fairlead_api.reports import Report
from fairlead_operator.calibration.prober import Prober
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.latency.ledger import FIGURES_EVERY_S, Move
from fairlead_operator.latency.timekeeper import Timekeeper
from fairlead_operator.outcome import Done, Outcome
from fairlead_operator.ports import (
    PLATFORM_ERRORS,
    TIER_MOVED,
    Announcement,
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
from fairlead_operator.reconciler import Reconciler, ReconcilerOptions
from fairlead_operator.telemetry import Telemetry
from fairlead_operator.workqueue import ItemBackoff, WorkQueue

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ControllerOptions:
    """Seconds between things that happen without an event, and how many servers are looked at side by side."""

    sweep: float = 180.0
    settle: float = 0.1
    """Changes of tiers and policies within this time make one rules document."""
    workers: int = 16
    backoff: ItemBackoff = field(default_factory=ItemBackoff)
    entries: float = 2.0
    """Longest time between two writes of the servers document while entries change without a pause."""
    figures: float = FIGURES_EVERY_S
    """Shortest time between two writes of measured figures to one status."""


@dataclass(frozen=True)
class World:
    """The adapters that a controller works with."""

    platform: Platform
    documents: Documents
    connector: Connector
    declarations: Declarations
    gateways: Gateways | None = None
    """None: nobody measures, and tiers go by what is declared."""


class Controller:
    """Work queue and loops of the operator. All methods are called in the event loop that `run` runs in. `environment`
    is the name that figures of probes are kept under; empty: that of the platform.
    """

    def __init__(
        self,
        world: World,
        *,
        options: ReconcilerOptions | None = None,
        rhythm: ControllerOptions | None = None,
        default_action: str = "Allow",
        default_tier: str = "",
        environment: str = "",
        telemetry: Telemetry | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._platform = world.platform
        self._rhythm = rhythm = rhythm or ControllerOptions()
        self._telemetry = telemetry or Telemetry()
        self._monotonic = monotonic
        self._known: set[ServerKey] = set()
        self._prepared = False
        self._sweep_wanted = asyncio.Event()
        self._rules_wanted = asyncio.Event()
        self._moves: asyncio.Queue[Move] = asyncio.Queue()
        self.timekeeper = Timekeeper(
            world.documents,
            self._moved,
            environment=environment or world.platform.environment,
            figures_every=rhythm.figures,
            remeasured=self.enqueue,
            delayed=lambda: self._telemetry.publish_failures.labels("state").inc(),
            now=now,
            monotonic=monotonic,
        )
        self._prober = Prober(
            world.connector, self.timekeeper, self.enqueue, told=self._telemetry.probed, monotonic=monotonic, rng=rng
        )
        self._declarations = world.declarations
        self._puller: Puller | None = None
        if world.gateways is not None:
            self._puller = puller = Puller(world.gateways, self.heard, asked=self._asked, rng=rng)
            self._telemetry.pictures.gateways = lambda: puller.reached
        self.entries = ServerEntries(world.documents)
        self.reconciler = Reconciler(
            world.platform,
            world.documents,
            world.connector,
            changed=self.enqueue,
            published=self._published,
            shown=self._shown,
            entered=self.entries.put,
            prober=self._prober,
            figures=self.timekeeper.figures,
            held_back=self._telemetry.hold_back,
            options=options,
            now=now,
            monotonic=monotonic,
            rng=rng,
        )
        self._rules = RulesPublisher(
            world.declarations,
            world.documents,
            default_action,
            default_tier=default_tier,
            compiled=self._compiled,
        )
        self._policies = PolicyStatuses(world.declarations, world.platform, now)
        self.queue: WorkQueue[ServerKey] = WorkQueue(
            self._work, workers=rhythm.workers, backoff=rhythm.backoff, rng=rng
        )

    def __repr__(self) -> str:
        return f"<Controller servers={len(self._known)} {self.queue!r}>"

    # What the adapters tell.

    def enqueue(self, key: ServerKey) -> None:
        """Something about this server may have changed, appeared or gone."""
        self._known.add(key)
        self.queue.add(key)
        self._telemetry.depth.set(self.queue.depth)

    def declarations_changed(self) -> None:
        """A tier, a policy or the labels of a server may have changed."""
        self._rules_wanted.set()

    def document_disturbed(self, name: str, labels: Mapping[str, str]) -> None:
        """A stored document was edited or deleted."""
        if name == RULES_NAME:
            self._rules_wanted.set()
        elif name == SERVERS_NAME:
            self.entries.wanted.set()
        elif labels.get(LABEL_DOCUMENT) == STATE:
            self.timekeeper.disturbed(name)
        elif labels.get(LABEL_NAMESPACE) and labels.get(LABEL_NAME):
            self.enqueue(ServerKey(labels[LABEL_NAMESPACE], labels[LABEL_NAME]))

    def heard(self, report: Report) -> None:
        """Take a gateway's report: its measurements, requested refreshes and unreachable servers."""
        self._telemetry.heard(report)
        self.timekeeper.take(report)
        for namespace, name in report.refresh:
            self.reconciler.refresh(ServerKey(namespace, name))
        for doubt in report.doubts:
            self.reconciler.doubt(ServerKey(doubt.namespace, doubt.server))

    def resync(self) -> None:
        """Events may have been lost: compare what exists with what is known, soon."""
        self._sweep_wanted.set()

    # What it does.

    async def prepare(self) -> None:
        """Load the stored documents, and enter servers that have no catalog yet, so that gateways know of them before
        the first look. `run` does it where it was not done before.
        """
        self._prepared = True
        await self._restore()
        await self.reconciler.start()
        for entry in await self.reconciler.unseen():
            self.entries.add(entry)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            if not self._prepared:
                await self.prepare()
            self._sweep_wanted.set()
            self._rules_wanted.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self.queue.run(), name="work queue")
                group.create_task(self._keep_sweeping(), name="sweep")
                group.create_task(self._keep_rules(), name="rules")
                group.create_task(self._keep_entries(), name="servers document")
                group.create_task(self.timekeeper.run(), name="latencies")
                group.create_task(self._keep_telling(), name="tier moves")
                group.create_task(self._keep_counting(), name="tier sizes")
                group.create_task(self._keep_policies(), name="statuses of policies")
                if self._puller is not None:
                    group.create_task(self._puller.run(), name="gateways")
        finally:
            await self.reconciler.aclose()

    async def sweep(self) -> None:
        """Look at every server that has come or gone unseen, and forget what is kept of the dead."""
        keys = set(await self._platform.keys())
        self._telemetry.servers.set(len(keys))
        for key in keys ^ self._known:
            self.enqueue(key)
        self._known = set(keys)
        alive = []
        for key in keys:
            try:
                server = await self._platform.get(key)
            except UnreadableServer:
                return  # whose catalog it is cannot be told, so none is judged
            if server is not None:
                alive.append((key, server.metadata.uid))
        await self.reconciler.catalogs.sweep(alive)
        self.timekeeper.forget(keys)
        self.entries.retain(keys)
        self._policies.forget(keys)
        await self._platform.sweep(keys)

    async def _work(self, key: ServerKey) -> Outcome:
        started = self._monotonic()
        outcome = await self.reconciler.reconcile(key)
        self._telemetry.seconds.observe(self._monotonic() - started)
        self._telemetry.reconciles.labels(type(outcome).__name__).inc()
        if not isinstance(outcome, Done):
            self._telemetry.troubles.labels(outcome.reason).inc()
        self._telemetry.depth.set(self.queue.depth)
        return outcome

    async def _keep_sweeping(self) -> None:
        while True:
            await self._wanted(self._sweep_wanted, self._rhythm.sweep)
            await self._persist("sweep", self.sweep, self._sweep_wanted)

    async def _keep_rules(self) -> None:
        while True:
            await self._wanted(self._rules_wanted, self._rhythm.sweep)
            await asyncio.sleep(self._rhythm.settle)
            self._rules_wanted.clear()
            await self._persist("rules", self._rules.publish, self._rules_wanted)

    def _published(self, catalog: Catalog) -> None:
        self.timekeeper.know(catalog)
        self._policies.know(catalog)

    def _compiled(self, rules: Rules) -> None:
        self.timekeeper.decide_by(rules.tiers)
        self._policies.compiled(rules)

    async def _keep_policies(self) -> None:
        while True:
            await self._policies.wanted.wait()
            await asyncio.sleep(self._rhythm.settle)
            self._policies.wanted.clear()
            await self._persist("statuses of policies", self._policies.show, self._policies.wanted)

    async def _restore(self) -> None:
        while True:
            try:
                await self.timekeeper.restore()
                await self.entries.restore()
                return
            except PLATFORM_ERRORS as error:
                logger.warning("what was measured and shown before cannot be read yet: %s", error)
                await asyncio.sleep(self._rhythm.backoff.first)

    def _moved(self, move: Move) -> None:
        self._moves.put_nowait(move)
        self._prober.stirred(move.tool.server)

    async def _keep_counting(self) -> None:
        """The number of its tools in each tier's status."""
        await self._keep_writing("sizes of tiers", self._show_sizes, self.timekeeper.resized, self._rhythm.figures)

    async def _keep_entries(self) -> None:
        await self._keep_writing("servers document", self.entries.publish, self.entries.wanted, self._rhythm.entries)

    async def _keep_writing(
        self, what: str, write: Callable[[], object], wanted: asyncio.Event, longest: float
    ) -> None:
        """Write what is wanted: at once after a quiet time, else less and less often, up to `longest` seconds apart."""
        pause, written_at = self._rhythm.settle, -longest
        while True:
            await wanted.wait()
            wanted.clear()
            rested = self._monotonic() - written_at >= longest
            pause = self._rhythm.settle if rested else min(2 * pause, longest)
            written_at = self._monotonic()
            await self._persist(what, write, wanted)
            await asyncio.sleep(pause)

    async def _show_sizes(self) -> None:
        await self._declarations.show_tools(self.timekeeper.ledger.fitting())

    async def _keep_telling(self) -> None:
        """An event for each tool that is in other tiers than before."""
        while True:
            move = await self._moves.get()
            self._telemetry.moved(move)
            try:
                server = await self._platform.get(move.tool.server)
            except (*PLATFORM_ERRORS, UnreadableServer):
                continue
            if server is not None:
                await self._platform.announce(server, _tier_news(move))

    def _asked(self, *, answered: bool) -> None:
        self._telemetry.asked(answered=answered)

    def _shown(self, key: ServerKey, ready: tuple[str, str] | None) -> None:
        shown = self._telemetry.pictures.ready
        if ready is None:
            shown.pop(key, None)
        else:
            shown[key] = ready

    @staticmethod
    async def _wanted(event: asyncio.Event, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            pass
        event.clear()

    async def _persist(self, what: str, action: Callable[[], object], again: asyncio.Event) -> None:
        """Run once; on trouble, want it again after a pause."""
        try:
            result = action()
            if asyncio.iscoroutine(result):
                await result
        except PLATFORM_ERRORS as error:
            logger.warning("%s: tried again later: %s", what, error)
            self._telemetry.publish_failures.labels(what).inc()
            await asyncio.sleep(self._rhythm.backoff.first)
            again.set()


def _tier_news(move: Move) -> Announcement:
    lost = any(tier not in move.after for tier in move.before)
    return Announcement("Warning" if lost else "Normal", TIER_MOVED, move.sentence)
