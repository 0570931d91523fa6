"""Every tool's record, and which state documents have to be written. Pure; owned by the task that pulls samples.

State documents hold up to 100 servers each. One is written when a tier or a health state of it moved, else at most
every 60 s and only when a published figure moved by more than a tenth: a fleet of steady tools writes nothing.

A round looks at what was called since the last one, and at what time alone may bring back; the rest costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, ToolEntry
from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import SERVERS_PER_STATE, ServerState, State, ToolState
from fairlead_api.floors import Floors
from fairlead_api.meta import ServerKey
from fairlead_operator.latency.difference import round_trips_differ, worth_a_document
from fairlead_operator.latency.samples import Sample
from fairlead_operator.latency.score import definition
from fairlead_operator.latency.thresholds import WINDOW
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

NOTHING_DECLARED: Final = DeclaredLatency()
FIGURES_EVERY_S: Final = 60.0
"""Seconds between two documents that differ in figures alone."""


@dataclass(frozen=True, slots=True)
class ToolKey:
    """One tool in one environment."""

    server: ServerKey
    name: str
    environment: str


@dataclass(frozen=True, slots=True)
class Move:
    """A tool that is in other tiers than before, for the events and the metrics."""

    tool: ToolKey
    before: tuple[str, ...]
    after: tuple[str, ...]
    sentence: str
    """The move with the calls that caused it, for people."""


@dataclass
class _ServerRecord:
    """Records of one server's tools."""

    shard: int
    declarations: dict[str, Declaration] = field(default_factory=dict)
    records: dict[tuple[str, str], ToolRecord] = field(default_factory=dict)
    published: dict[tuple[str, str], ToolState] = field(default_factory=dict)
    probed: frozenset[str] = frozenset()
    """Tools that probes reach while they are hidden."""
    round_trips: dict[str, float] = field(default_factory=dict)
    """Environment to the milliseconds of a request that calls no tool."""
    round_trips_published: dict[str, float] = field(default_factory=dict)


class Ledger:
    """Latency records of all tools of all servers, and the decisions about their tiers. `now` parameters are seconds of
    any one clock.
    """

    def __init__(self, tiers: Sequence[Tier], environment: str = "cluster") -> None:
        """`environment` is the one that probes speak for."""
        self._tiers = tuple(tiers)
        self._floors = Floors(self._tiers)
        self._environment = environment
        self._servers: dict[ServerKey, _ServerRecord] = {}
        self._written_at: dict[int, float] = {}
        self.changes = 0
        """Grows with everything that may change how many tools a tier shows."""
        self._moved: set[int] = set()
        """Shards that have to be written now."""
        self._other: set[int] = set()
        """Shards with figures that are worth a document as soon as the last one is old enough."""
        self._stirred: dict[ToolKey, None] = {}
        """Tools to be looked at in the next round, in the order in which they were heard of."""
        self._restless: dict[ToolKey, None] = {}
        """Tools that time alone may bring back, to be looked at in each round."""
        self._measured: dict[int, set[ToolKey]] = {}
        """Shard to the tools whose figures were not compared yet with what was published."""
        self._early: dict[ToolKey, deque[Sample]] = {}
        """Samples from before the tiers were known, the last ones of each tool."""

    def restore(self, states: Iterable[State]) -> None:
        """Take over what was published before a restart. Called once, before anything else."""
        for state in states:
            for server in state.servers:
                record = self._servers.setdefault(ServerKey(server.namespace, server.name), _ServerRecord(state.shard))
                record.published = {(tool.name, tool.environment): tool for tool in server.tools}
                record.round_trips = dict(server.round_trip_ms)
                record.round_trips_published = dict(server.round_trip_ms)

    def know(self, catalog: Catalog, now: float) -> None:
        """Learn what a server declares of its tools; records of tools that it no longer has are dropped."""
        server_record = self._servers.get(catalog.key)
        if server_record is None:
            server_record = self._servers[catalog.key] = _ServerRecord(self._room())
        before = server_record.declarations
        after = {entry.name: _declaration(entry) for entry in catalog.tools if entry.enabled}
        if before == after:
            return
        self.changes += 1
        server_record.declarations = after
        for (name, environment), record in list(server_record.records.items()):
            if name not in after:
                del server_record.records[name, environment]
            elif before.get(name) != after[name]:
                record.declare(after[name], now)
                self._stirred[ToolKey(catalog.key, name, environment)] = None
        gone = [key for key in server_record.published if key[0] not in server_record.declarations]
        for key in gone:
            del server_record.published[key]
        if gone:
            self._moved.add(server_record.shard)
        for key in server_record.published:
            if key not in server_record.records:  # as it was before a restart, it goes on without being called
                self._stirred[ToolKey(catalog.key, *key)] = None

    def forget(self, alive: Collection[ServerKey]) -> None:
        """Drop every server that is not among the living."""
        for key in [key for key in self._servers if key not in alive]:
            record = self._servers.pop(key)
            self.changes += 1
            if record.published:
                self._moved.add(record.shard)
        self._early = {tool: samples for tool, samples in self._early.items() if tool.server in alive}

    def decide_by(self, tiers: Sequence[Tier], now: float) -> None:
        """Judge by other tiers from now on: windows stay, scores of tiers that changed begin again."""
        before, self._tiers = self._tiers, tuple(tiers)
        self._floors = Floors(self._tiers)
        if before == self._tiers:
            return
        self.changes += 1
        definitions = {(tier.name, definition(tier)) for tier in before}
        same = {tier.name for tier in self._tiers if (tier.name, definition(tier)) in definitions}
        if len(same) == len(before) == len(self._tiers):
            return
        for server, server_record in self._servers.items():
            if server_record.records or server_record.published:
                self._moved.add(server_record.shard)
            if before:
                server_record.published = {key: _without(state, same) for key, state in server_record.published.items()}
            for (name, environment), record in server_record.records.items():
                record.judge_by(self._tiers, now)
                self._stirred[ToolKey(server, name, environment)] = None
        if self._tiers:
            early, self._early = self._early, {}
            for tool, samples in early.items():
                self.take(tool, samples, now)

    def take(self, tool: ToolKey, samples: Iterable[Sample], now: float) -> bool:
        """Take the samples of one tool, in the order of their ends; False for a tool that is not known."""
        server_record = self._servers.get(tool.server)
        if server_record is None or tool.name not in server_record.declarations:
            return False
        ordered = sorted(samples, key=lambda sample: sample.at)
        record = self._record(tool, now)
        if record is None:  # probes of an operator that has just begun may end before it has read the tiers
            self._early.setdefault(tool, deque(maxlen=WINDOW)).extend(ordered)
            return True
        for sample in ordered:
            record.observe(sample)
        self._stirred[tool] = None
        self._measured.setdefault(server_record.shard, set()).add(tool)
        return True

    def watch(self, server: ServerKey, tools: Collection[str]) -> None:
        """From now on probes reach these tools of a server while they are hidden, and no others."""
        server_record = self._servers.get(server)
        if server_record is not None:
            server_record.probed = frozenset(tools)
            if any((name, self._environment) not in server_record.published for name in server_record.probed):
                self._moved.add(server_record.shard)  # calibrated for the first time
            for (name, environment), record in server_record.records.items():
                record.reached_by_probes(name in server_record.probed and environment == self._environment)

    def awaiting(self, server: ServerKey) -> dict[str, float]:
        """Tools that a tier hides, and the milliseconds within which a probe speaks for them."""
        server_record = self._servers.get(server)
        waits = (
            {}
            if server_record is None
            else {
                name: record.awaiting()
                for (name, environment), record in server_record.records.items()
                if environment == self._environment
            }
        )
        return {name: limit_ms for name, limit_ms in waits.items() if limit_ms is not None}

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """Take how long a request takes that calls no tool."""
        server_record = self._servers.get(server)
        if server_record is not None:
            server_record.round_trips[self._environment] = milliseconds
            if round_trips_differ(server_record.round_trips_published, server_record.round_trips):
                self._other.add(server_record.shard)

    def decide(self, now: float) -> list[Move]:
        """Bring every decision up to date; what moved."""
        moves = []
        for tool in {**self._restless, **self._stirred}:
            record, server_record = self._record(tool, now), self._servers.get(tool.server)
            self._restless.pop(tool, None)
            if record is None or server_record is None:
                continue
            before, degraded = record.tiers, record.health.degraded
            after = record.decide(now)
            if before != after or degraded != record.health.degraded:
                self._moved.add(server_record.shard)
            if before != after:
                self.changes += 1
                moves.append(Move(tool, before, after, record.describe_move(tool.name, before)))
            if record.restless:
                self._restless[tool] = None
        self._stirred.clear()
        return moves

    def due(self, now: float, stamp: str) -> list[State]:
        """The state documents that have to be written now, stamped with an RFC 3339 time. Follow each write with
        `take_stored`; a document that is not written is due again.
        """
        due = []
        for shard in sorted({*self._moved, *self._other, *self._measured}):
            rested = now - self._written_at.get(shard, -FIGURES_EVERY_S) >= FIGURES_EVERY_S
            if shard in self._moved or (rested and self._figures_moved(shard)):
                due.append(self._document(shard, now, stamp))
        return due

    def take_stored(self, state: State, now: float) -> None:
        """The document is stored."""
        for waiting in (self._moved, self._other):
            waiting.discard(state.shard)
        self._measured.pop(state.shard, None)
        if state.servers:
            self._written_at[state.shard] = now
        else:  # withdrawn: the first figures need not wait for what says nothing
            self._written_at.pop(state.shard, None)
        for server in state.servers:
            server_record = self._servers.get(ServerKey(server.namespace, server.name))
            if server_record is not None:
                server_record.published = {(tool.name, tool.environment): tool for tool in server.tools}
                server_record.round_trips_published = dict(server.round_trip_ms)

    def rewrite(self, shard: int) -> None:
        """The document is not what was written: it is due."""
        self._moved.add(shard)

    def states(self, server: ServerKey, now: float) -> tuple[ToolState, ...]:
        """States of a server's tools, as they would be published now."""
        server_record = self._servers.get(server)
        return () if server_record is None else self._of_server(server_record, now)

    def slowest(self, server: ServerKey) -> ToolState | None:
        """State of the tool with the highest p95 among the published figures of a server."""
        server_record = self._servers.get(server)
        states = () if server_record is None else server_record.published.values()
        measured = [state for state in states if state.quantiles and state.environment == self._environment]
        return max(
            measured, key=lambda state: (state.quantiles.p95_ms if state.quantiles else 0.0, state.name), default=None
        )

    def fitting(self) -> dict[str, int]:
        """Tier to the number of tools that it shows."""
        count = {tier.name: 0 for tier in self._tiers}
        for server_record in self._servers.values():
            for name, declaration in server_record.declarations.items():
                for tier in self._tiers:
                    count[tier.name] += self._shows(server_record, name, declaration, tier)
        return count

    def _shows(self, server_record: _ServerRecord, name: str, declaration: Declaration, tier: Tier) -> bool:
        record = server_record.records.get((name, self._environment))
        if record is not None:
            return tier.name in record.tiers
        published = server_record.published.get((name, self._environment))
        if published is not None and published.tiers is not None:
            return tier.name in published.tiers
        floor = self._floors.of(declaration)
        return declaration.fits(tier) and not (floor is not None and floor.hides(tier))

    def _record(self, tool: ToolKey, now: float) -> ToolRecord | None:
        server_record = self._servers.get(tool.server)
        if server_record is None or tool.name not in server_record.declarations or not self._tiers:
            return None
        key = (tool.name, tool.environment)
        record = server_record.records.get(key)
        if record is None:
            published = server_record.published.get(key)
            record = server_record.records[key] = self._begin(server_record, *key, now, published)
            if published is not None and published.tiers != record.tiers:
                self._moved.add(server_record.shard)
        return record

    def _begin(
        self, server_record: _ServerRecord, name: str, environment: str, now: float, published: ToolState | None
    ) -> ToolRecord:
        probed = name in server_record.probed and environment == self._environment
        return ToolRecord(
            self._tiers, replace(server_record.declarations[name], probed=probed), now=now, published=published
        )

    def _room(self) -> int:
        """The first shard that is not full."""
        count: dict[int, int] = {}
        for server_record in self._servers.values():
            count[server_record.shard] = count.get(server_record.shard, 0) + 1
        shard = 0
        while count.get(shard, 0) >= SERVERS_PER_STATE:
            shard += 1
        return shard

    def _document(self, shard: int, now: float, stamp: str) -> State:
        servers = [
            ServerState(
                namespace=key.namespace,
                name=key.name,
                round_trip_ms=dict(server_record.round_trips),
                tools=tools,
            )
            for key, server_record in sorted(self._servers.items())
            if server_record.shard == shard and (tools := self._of_server(server_record, now))
        ]
        return State(shard=shard, servers=tuple(servers), decided_at=stamp)

    def _of_server(self, server_record: _ServerRecord, now: float) -> tuple[ToolState, ...]:
        """Records where there are any, else what was published."""
        states = dict(server_record.published)
        for (name, environment), record in server_record.records.items():
            published = server_record.published.get((name, environment))
            states[name, environment] = record.state(name, environment, now, published)
        return tuple(states[key] for key in sorted(states))

    def _figures_moved(self, shard: int) -> bool:
        """Whether a figure is worth a document; what is not is compared again when more is known of it."""
        for tool in self._measured.pop(shard, ()):
            server_record = self._servers.get(tool.server)
            record = server_record.records.get((tool.name, tool.environment)) if server_record is not None else None
            if server_record is None or record is None:
                continue
            published = server_record.published.get((tool.name, tool.environment))
            if worth_a_document(published, record.window.quantiles(), record.measured_at):
                self._other.add(shard)
                break
        return shard in self._other


def _without(state: ToolState, same: Collection[str]) -> ToolState:
    """Without what was decided by tiers that are defined otherwise now."""
    return msgspec.structs.replace(
        state,
        tiers=None if state.tiers is None else tuple(name for name in state.tiers if name in same),
        hidden={name: why for name, why in state.hidden.items() if name in same},
        fits={name: why for name, why in state.fits.items() if name in same},
        points={name: points for name, points in state.points.items() if name in same},
    )


def _declaration(entry: ToolEntry) -> Declaration:
    latency = entry.latency or NOTHING_DECLARED
    return _intern(
        Declaration(
            latency.estimated_duration_ms,
            latency.max_duration_ms,
            entry.min_tier,
            entry.authored_min_tier,
            untrusted=latency.estimate_untrusted,
        )
    )


@lru_cache(maxsize=256)
def _intern(declaration: Declaration) -> Declaration:
    """One object for equal ones: most tools declare nothing."""
    return declaration
