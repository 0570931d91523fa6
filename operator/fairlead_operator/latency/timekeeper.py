"""Takes what gateways and probes measured, decides, and publishes what moved.

Knows the world through `ports` alone; what it decides by is pure (`ledger`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead_api.documents.catalog import CATALOG, Catalog, LocalEndpoint
from fairlead_api.documents.codec import RULES_NAME, UnreadableDocument, decode, encode, state_name
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import STATE, State
from fairlead_api.documents.store import pack
from fairlead_api.meta import LABEL_DOCUMENT, ServerKey
from fairlead_api.reports import Attempt, Report, ToolAttempts
from fairlead_operator.clocks import Clocks
from fairlead_operator.latency.figures import Figures
from fairlead_operator.latency.ledger import FIGURES_EVERY_S, Ledger, Move, ToolKey
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.ports import PLATFORM_ERRORS, Documents

logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 1.0
"""Between decisions while nothing is heard: tools come back after a while by themselves."""
RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class TimekeeperObserver:
    """Hears of what measurements lead to."""

    moved: Callable[[Move], None] = lambda move: None
    """Gets each tool that changed tiers."""
    remeasured: Callable[[ServerKey], None] = lambda server: None
    """Gets each server whose status has other figures to show."""
    delayed: Callable[[], None] = lambda: None
    """Called whenever nothing could be published."""


class Timekeeper:
    """Turns measurements into tier decisions and publishes them. A server is remeasured at most every `figures_every`
    seconds.
    """

    def __init__(
        self,
        documents: Documents,
        observer: TimekeeperObserver | None = None,
        *,
        environment: str = "cluster",
        figures_every: float = FIGURES_EVERY_S,
        clocks: Clocks | None = None,
    ) -> None:
        observer, clocks = observer or TimekeeperObserver(), clocks or Clocks()
        self._documents = documents
        self._moved = observer.moved
        self._now = clocks.now
        self._monotonic = clocks.monotonic
        self._heard = asyncio.Event()
        self._own: set[ServerKey] = set()
        """Servers of gateways' own, which are judged like any other and declared by nobody."""
        self.environment = environment
        self._remeasured = observer.remeasured
        self._delayed = observer.delayed
        self._changes = 0
        self.resized = asyncio.Event()
        """Set when a tier may show another number of tools than before."""
        self.figures = Figures(figures_every)
        self.ledger = Ledger((), environment)

    async def restore(self) -> None:
        """Go on from what is published. Raises PLATFORM_ERRORS."""
        rules = await self._read(RULES_NAME)
        if isinstance(rules, Rules):
            self.use_tiers(rules.tiers)  # what the states were decided by
        states, catalogs = [], []
        for name, labels in (await self._documents.listing()).items():
            if labels.get(LABEL_DOCUMENT) not in (STATE, CATALOG):
                continue
            document = await self._read(name)
            if isinstance(document, State):
                states.append(document)
            elif isinstance(document, Catalog):
                catalogs.append(document)
        self.ledger.restore(states)
        for catalog in catalogs:  # before its server is asked again: its tools are served all the while, and counted
            self.take_catalog(catalog)
        for state in states:
            self._offer(state)

    async def _read(self, name: str) -> object:
        """None for a document that is not there, or that cannot be read."""
        data = await self._documents.read(name)
        try:
            return decode(data) if data is not None else None
        except UnreadableDocument as error:
            logger.warning("%s is made again: %s", name, error)
            return None

    def take_catalog(self, catalog: Catalog) -> None:
        """A catalog as it is published."""
        self.ledger.take_catalog(catalog, self._monotonic())

    def forget(self, alive: Collection[ServerKey]) -> None:
        """Keep the living only, and what gateways have of their own."""
        self.ledger.forget({*alive, *self._own})
        self.figures.forget(alive)
        self._heard.set()

    def use_tiers(self, tiers: Iterable[Tier]) -> None:
        """Other tiers hold from now on."""
        self.ledger.use_tiers(tuple(tiers), self._monotonic())
        self._heard.set()

    def take(self, report: Report) -> None:
        """Record a gateway's measurements."""
        now = self._monotonic()
        for catalog in report.own:
            if isinstance(catalog.endpoint, LocalEndpoint):
                self._own.add(catalog.key)
                self.ledger.take_catalog(catalog, now)
        for tool in report.tools:
            key = ToolKey(ServerKey(tool.namespace, tool.server), tool.tool, report.environment)
            self.ledger.take(key, list(_samples(report.replica, tool)), now)
        if report.tools:
            self._heard.set()

    # What probes measured: implements `calibration.prober.ProbeObserver`.

    def take_probe(self, server: ServerKey, tool: str, sample: Sample) -> None:
        """One probe."""
        if self.ledger.take(ToolKey(server, tool, self.environment), [sample], self._monotonic()):
            self._heard.set()

    def take_probed_tools(self, server: ServerKey, tools: Collection[str]) -> None:
        """Probes reach these tools while they are hidden, and no others."""
        self.ledger.set_probed(server, tools)

    def hidden_limits_ms(self, server: ServerKey) -> Mapping[str, float]:
        """Tools that a tier hides."""
        return self.ledger.hidden_limits_ms(server)

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """A round trip without a tool."""
        self.ledger.take_round_trip(server, milliseconds)

    def republish(self, name: str) -> None:
        """A state document was edited or deleted by hand."""
        shard = name.removeprefix(state_name(0)[:-1])
        if shard.isdigit():
            self.ledger.rewrite(int(shard))
            self._heard.set()

    async def run(self) -> None:
        """Decide and publish until cancelled."""
        while True:
            try:
                await self.round()
            except PLATFORM_ERRORS as error:
                logger.warning("latencies: published later: %s", error)
                self._delayed()
                await asyncio.sleep(RETRY_SECONDS)
            try:
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._heard.wait()
            except TimeoutError:
                pass
            self._heard.clear()

    async def round(self) -> None:
        """Decide once, tell what moved, publish what has to be. Raises PLATFORM_ERRORS."""
        now = self._monotonic()
        for move in self.ledger.decide(now):
            self._moved(move)
        for state in self.ledger.due(now, self._now().isoformat(timespec="milliseconds")):
            name = state_name(state.shard)
            if state.servers:
                await self._documents.publish(pack(name, STATE, encode(state)))
            else:
                await self._documents.withdraw(name)
            self.ledger.take_stored(state, now)
            self._offer(state)
        if self._changes != self.ledger.changes:
            self._changes = self.ledger.changes
            self.resized.set()
        for server in self.figures.due(now):
            self._remeasured(server)

    def _offer(self, state: State) -> None:
        for published in state.servers:
            server = ServerKey(published.namespace, published.name)
            if server not in self._own:  # which have no status
                self.figures.offer(server, self.ledger.slowest(server), self._monotonic())


def _samples(replica: str, tool: ToolAttempts) -> Iterable[Sample]:
    for attempt in tool.attempts:
        outcome = _outcome(attempt)
        if outcome is not None:
            yield Sample(f"{replica}:{attempt.number}", attempt.at, attempt.duration_ms, outcome)


def _outcome(attempt: Attempt) -> AttemptOutcome | None:
    """None for one that a newer gateway tells and this operator does not know."""
    try:
        return AttemptOutcome(attempt.outcome)
    except ValueError:
        return None
