"""Receives the measurements of gateways and probes, decides about tiers, and publishes the state documents.

The pure `ledger` makes the decisions; all I/O goes through the protocols of `ports`.
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
from fairlead_operator.latency.ledger import FIGURES_EVERY_S, Ledger, Move, ToolKey
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.latency.status_latencies import StatusLatencies
from fairlead_operator.ports import PLATFORM_ERRORS, Documents

logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 1.0
"""Maximum seconds between two rounds of decisions. Hidden tools may return without new measurements."""
RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class TimekeeperObserver:
    """Callbacks for the results of measurements."""

    on_move: Callable[[Move], None] = lambda move: None
    """Receives each change of the tiers that show a tool."""
    on_remeasured: Callable[[ServerKey], None] = lambda server: None
    """Receives each server whose status has to show new latencies."""
    on_publish_failure: Callable[[], None] = lambda: None
    """Called after each failed attempt to publish."""


class Timekeeper:
    """Turns measurements into tier decisions and publishes them. Implements `calibration.prober.ProbeObserver`.

    `on_remeasured` is called for each server at most every `figures_every` seconds. `documents_every` is the minimum
    number of seconds between two writes of a state document in which only figures have changed.
    """

    def __init__(
        self,
        documents: Documents,
        observer: TimekeeperObserver | None = None,
        *,
        environment: str = "cluster",
        figures_every: float = FIGURES_EVERY_S,
        documents_every: float = FIGURES_EVERY_S,
        clocks: Clocks | None = None,
    ) -> None:
        observer, clocks = observer or TimekeeperObserver(), clocks or Clocks()
        self._documents = documents
        self._on_move = observer.on_move
        self._now = clocks.now
        self._monotonic = clocks.monotonic
        self._change_event = asyncio.Event()
        self._gateway_servers: set[ServerKey] = set()
        """Servers that gateways run themselves. They have no McpServer, but tiers show and hide their tools like those
        of other servers.
        """
        self.environment = environment
        self._on_remeasured = observer.on_remeasured
        self._on_publish_failure = observer.on_publish_failure
        self._changes = 0
        self.sizes_changed = asyncio.Event()
        """Set when the number of tools in a tier may have changed."""
        self.figures = StatusLatencies(figures_every)
        self.ledger = Ledger((), environment, documents_every)

    async def restore(self) -> None:
        """Restore tiers, latency records and tools from the published documents. Raises PLATFORM_ERRORS."""
        rules = await self._read(RULES_NAME)
        if isinstance(rules, Rules):
            self.use_tiers(rules.tiers)  # the tiers by which the states were decided
        states, catalogs = [], []
        for name, labels in (await self._documents.heads()).items():
            if labels.get(LABEL_DOCUMENT) not in (STATE, CATALOG):
                continue
            document = await self._read(name)
            if isinstance(document, State):
                states.append(document)
            elif isinstance(document, Catalog):
                catalogs.append(document)
        self.ledger.restore(states)
        for catalog in catalogs:  # gateways already serve its tools, before its server is discovered again
            self.take_catalog(catalog)
        for state in states:
            self._offer(state)

    async def _read(self, name: str) -> object:
        """The decoded document; None if it is missing or unreadable."""
        data = await self._documents.read(name)
        try:
            return decode(data) if data is not None else None
        except UnreadableDocument as error:
            logger.warning("the document %s cannot be read and will be replaced: %s", name, error)
            return None

    def take_catalog(self, catalog: Catalog) -> None:
        """Use the tools of a published catalog."""
        self.ledger.take_catalog(catalog, self._monotonic())

    def forget(self, existing_keys: Collection[ServerKey]) -> None:
        """Forget all servers that no longer exist, except the gateways' own."""
        self.ledger.forget({*existing_keys, *self._gateway_servers})
        self.figures.forget(existing_keys)
        self._change_event.set()

    def use_tiers(self, tiers: Iterable[Tier]) -> None:
        """Decide by these tiers from now on."""
        self.ledger.use_tiers(tuple(tiers), self._monotonic())
        self._change_event.set()

    def take_report(self, report: Report) -> None:
        """Record the measurements in a gateway's report."""
        now = self._monotonic()
        for catalog in report.own:
            if isinstance(catalog.endpoint, LocalEndpoint):
                self._gateway_servers.add(catalog.key)
                self.ledger.take_catalog(catalog, now)
        for tool in report.tools:
            key = ToolKey(ServerKey(tool.namespace, tool.server), tool.tool, report.environment)
            self.ledger.add_samples(key, list(_samples(report.replica, tool)), now)
        if report.tools:
            self._change_event.set()

    def take_probe(self, server: ServerKey, tool: str, sample: Sample) -> None:
        """Record the sample of one probe."""
        if self.ledger.add_samples(ToolKey(server, tool, self.environment), [sample], self._monotonic()):
            self._change_event.set()

    def take_probed_tools(self, server: ServerKey, tools: Collection[str]) -> None:
        """Set which tools of a server are probed while tiers hide them."""
        self.ledger.set_probed(server, tools)

    def hidden_limits_ms(self, server: ServerKey) -> Mapping[str, float]:
        """Hidden tools that probes can bring back, each with the milliseconds within which a probe has to succeed."""
        return self.ledger.hidden_limits_ms(server)

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """Record the duration of a round trip without a tool call."""
        self.ledger.take_round_trip(server, milliseconds)

    def republish(self, name: str) -> None:
        """Publish a state document again after somebody edited or deleted it."""
        shard = name.removeprefix(state_name(0)[:-1])
        if shard.isdigit():
            self.ledger.rewrite(int(shard))
            self._change_event.set()

    async def run(self) -> None:
        """Decide and publish until cancelled."""
        while True:
            try:
                await self.round()
            except PLATFORM_ERRORS as error:
                logger.warning("state documents could not be published and will be retried: %s", error)
                self._on_publish_failure()
                await asyncio.sleep(RETRY_SECONDS)
            try:
                async with asyncio.timeout(ROUND_SECONDS):
                    await self._change_event.wait()
            except TimeoutError:
                pass
            self._change_event.clear()

    async def round(self) -> None:
        """Decide once, report changes of tiers, and publish the documents that are due. Raises PLATFORM_ERRORS."""
        now = self._monotonic()
        for move in self.ledger.decide(now):
            self._on_move(move)
        for state in self.ledger.due_documents(now, self._now().isoformat(timespec="milliseconds")):
            name = state_name(state.shard)
            if state.servers:
                await self._documents.publish(pack(name, STATE, encode(state)))
            else:
                await self._documents.withdraw(name)
            self.ledger.take_stored(state, now)
            self._offer(state)
        if self._changes != self.ledger.changes:
            self._changes = self.ledger.changes
            self.sizes_changed.set()
        for server in self.figures.due_servers(now):
            self._on_remeasured(server)

    def _offer(self, state: State) -> None:
        for published in state.servers:
            server = ServerKey(published.namespace, published.name)
            if server not in self._gateway_servers:  # they have no McpServer whose status could show figures
                self.figures.offer(server, self.ledger.slowest_tool(server), self._monotonic())


def _samples(replica: str, tool: ToolAttempts) -> Iterable[Sample]:
    """The samples in a gateway's report of one tool. Their IDs are unique among replicas."""
    for attempt in tool.attempts:
        outcome = _outcome(attempt)
        if outcome is not None:
            yield Sample(f"{replica}:{attempt.number}", attempt.at, attempt.duration_ms, outcome)


def _outcome(attempt: Attempt) -> AttemptOutcome | None:
    """The outcome of an attempt; None for an outcome of a newer gateway that this operator does not know."""
    try:
        return AttemptOutcome(attempt.outcome)
    except ValueError:
        return None
