"""Keeps the latency records of all tools, and decides which state documents have to be written.

Pure; owned by the task that receives the samples.

A state document holds up to 100 servers. It is written at once when the tiers or the health of one of its tools
changed. Otherwise it is written at most every `figures_every` seconds, and only when a published figure changed by more
than a tenth, so that a fleet of steady tools causes no writes.

A round of decisions visits only the tools that were called since the last round, and the hidden tools that the passage
of time may bring back.
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
from fairlead_operator.latency.difference import round_trips_differ, should_publish
from fairlead_operator.latency.samples import Sample
from fairlead_operator.latency.score import definition
from fairlead_operator.latency.thresholds import WINDOW
from fairlead_operator.latency.tool_record import Declaration, ToolRecord

NOTHING_DECLARED: Final = DeclaredLatency()
FIGURES_EVERY_S: Final = 60.0
"""Default of the minimum seconds between two writes of a document in which only figures have changed."""


@dataclass(frozen=True, slots=True)
class ToolKey:
    """One tool in one environment."""

    server: ServerKey
    name: str
    environment: str


@dataclass(frozen=True, slots=True)
class Move:
    """A change of the tiers that show a tool, for events and metrics."""

    tool: ToolKey
    tiers_before: tuple[str, ...]
    tiers_after: tuple[str, ...]
    sentence: str
    """Message to users about the change and the calls that caused it."""


@dataclass
class _ServerRecord:
    """Latency records of one server's tools, by tool name and environment."""

    shard: int
    """Number of the state document that contains the server."""
    declarations: dict[str, Declaration] = field(default_factory=dict)
    """Declared latencies of the tools in the server's catalog, by tool name."""
    records: dict[tuple[str, str], ToolRecord] = field(default_factory=dict)
    """Records of the tools that this operator has measured or decided about since it became leader."""
    published_states: dict[tuple[str, str], ToolState] = field(default_factory=dict)
    """State of each tool in the stored document."""
    probed_tools: frozenset[str] = frozenset()
    """Tools that are probed even while tiers hide them."""
    round_trips: dict[str, float] = field(default_factory=dict)
    """Duration in milliseconds of a round trip without a tool call, by environment."""
    round_trips_published: dict[str, float] = field(default_factory=dict)


class Ledger:
    """Latency records of all tools of all servers, and the decisions about their tiers. `now` parameters are seconds of
    the same clock.
    """

    def __init__(
        self, tiers: Sequence[Tier], environment: str = "cluster", figures_every: float = FIGURES_EVERY_S
    ) -> None:
        """`environment` is the name under which measurements of the operator's probes are stored. `figures_every` is
        the minimum number of seconds between two writes of a document in which only figures have changed.
        """
        self._figures_every = figures_every
        self._tiers = tuple(tiers)
        self._floors = Floors(self._tiers)
        self._environment = environment
        self._servers: dict[ServerKey, _ServerRecord] = {}
        self._written_at: dict[int, float] = {}
        self.changes = 0
        """Counter of events that may change how many tools a tier shows."""
        self._due_now: set[int] = set()
        """Shards that are due now, because the tiers or the health of a tool changed."""
        self._figures_due: set[int] = set()
        """Shards whose changed figures are due once the last write is `figures_every` old."""
        self._pending: dict[ToolKey, None] = {}
        """Tools to decide about in the next round, in the order of their samples."""
        self._changing_with_time: dict[ToolKey, None] = {}
        """Tools to decide about in each round, because the passage of time alone may bring them back."""
        self._uncompared_tools: dict[int, set[ToolKey]] = {}
        """Tools whose new figures were not compared with the published ones yet, by shard."""
        self._early_samples: dict[ToolKey, deque[Sample]] = {}
        """The last samples of each tool that arrived before the tiers were read."""

    def restore(self, states: Iterable[State]) -> None:
        """Restore the states that were published before a restart. Must be called once, before any other method."""
        for state in states:
            for server in state.servers:
                key = ServerKey(server.namespace, server.name)
                server_record = self._servers.setdefault(key, _ServerRecord(state.shard))
                server_record.published_states = {(tool.name, tool.environment): tool for tool in server.tools}
                server_record.round_trips = dict(server.round_trip_ms)
                server_record.round_trips_published = dict(server.round_trip_ms)

    def take_catalog(self, catalog: Catalog, now: float) -> None:
        """Use the tools of a server's catalog; drop the records of removed tools."""
        server_record = self._servers.get(catalog.key)
        if server_record is None:
            server_record = self._servers[catalog.key] = _ServerRecord(self._free_shard())
        old_declarations = server_record.declarations
        new_declarations = {entry.name: _declaration(entry) for entry in catalog.tools if entry.enabled}
        if old_declarations == new_declarations:
            return
        self.changes += 1
        server_record.declarations = new_declarations
        for (name, environment), record in list(server_record.records.items()):
            if name not in new_declarations:
                del server_record.records[name, environment]
            elif old_declarations.get(name) != new_declarations[name]:
                record.declare(new_declarations[name], now)
                self._pending[ToolKey(catalog.key, name, environment)] = None
        removed_keys = [key for key in server_record.published_states if key[0] not in server_record.declarations]
        for key in removed_keys:
            del server_record.published_states[key]
        if removed_keys:
            self._due_now.add(server_record.shard)
        for key in server_record.published_states:
            if key not in server_record.records:  # restored after a restart: decide without waiting for a call
                self._pending[ToolKey(catalog.key, *key)] = None

    def forget(self, existing_keys: Collection[ServerKey]) -> None:
        """Drop every server that no longer exists."""
        for key in [key for key in self._servers if key not in existing_keys]:
            server_record = self._servers.pop(key)
            self.changes += 1
            if server_record.published_states:
                self._due_now.add(server_record.shard)
        self._early_samples = {
            tool: samples for tool, samples in self._early_samples.items() if tool.server in existing_keys
        }

    def use_tiers(self, tiers: Sequence[Tier], now: float) -> None:
        """Decide by these tiers from now on. Windows of samples remain; the scores of changed tiers start again."""
        old_tiers, self._tiers = self._tiers, tuple(tiers)
        self._floors = Floors(self._tiers)
        if old_tiers == self._tiers:
            return
        self.changes += 1
        definitions = {(tier.name, definition(tier)) for tier in old_tiers}
        unchanged_tiers = {tier.name for tier in self._tiers if (tier.name, definition(tier)) in definitions}
        if len(unchanged_tiers) == len(old_tiers) == len(self._tiers):
            return
        for server, server_record in self._servers.items():
            if server_record.records or server_record.published_states:
                self._due_now.add(server_record.shard)
            if old_tiers:
                server_record.published_states = {
                    key: _without_changed_tiers(state, unchanged_tiers)
                    for key, state in server_record.published_states.items()
                }
            for (name, environment), record in server_record.records.items():
                record.use_tiers(self._tiers, now)
                self._pending[ToolKey(server, name, environment)] = None
        if self._tiers:
            early_samples, self._early_samples = self._early_samples, {}
            for tool, samples in early_samples.items():
                self.add_samples(tool, samples, now)

    def add_samples(self, tool: ToolKey, samples: Iterable[Sample], now: float) -> bool:
        """Add samples of one tool. Returns False if the tool is in no catalog."""
        server_record = self._servers.get(tool.server)
        if server_record is None or tool.name not in server_record.declarations:
            return False
        samples_by_time = sorted(samples, key=lambda sample: sample.at)
        record = self._record(tool, now)
        if record is None:  # no tiers yet: shortly after a start, probes may end before the tiers are read
            self._early_samples.setdefault(tool, deque(maxlen=WINDOW)).extend(samples_by_time)
            return True
        for sample in samples_by_time:
            record.observe(sample)
        self._pending[tool] = None
        self._uncompared_tools.setdefault(server_record.shard, set()).add(tool)
        return True

    def set_probed(self, server: ServerKey, tools: Collection[str]) -> None:
        """Set which tools of a server are probed while tiers hide them."""
        server_record = self._servers.get(server)
        if server_record is not None:
            server_record.probed_tools = frozenset(tools)
            if any(
                (name, self._environment) not in server_record.published_states for name in server_record.probed_tools
            ):
                self._due_now.add(server_record.shard)  # first calibration of a tool
            for (name, environment), record in server_record.records.items():
                record.set_probed(name in server_record.probed_tools and environment == self._environment)

    def hidden_limits_ms(self, server: ServerKey) -> dict[str, float]:
        """Hidden tools that probes can bring back, each with the milliseconds within which a probe has to succeed."""
        server_record = self._servers.get(server)
        if server_record is None:
            return {}
        limits_ms = {
            name: record.hidden_limit_ms()
            for (name, environment), record in server_record.records.items()
            if environment == self._environment
        }
        return {name: limit_ms for name, limit_ms in limits_ms.items() if limit_ms is not None}

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """Store the duration of a round trip without a tool call."""
        server_record = self._servers.get(server)
        if server_record is not None:
            server_record.round_trips[self._environment] = milliseconds
            if round_trips_differ(server_record.round_trips_published, server_record.round_trips):
                self._figures_due.add(server_record.shard)

    def decide(self, now: float) -> list[Move]:
        """Decide about all pending tools; return the changes of tiers."""
        moves = []
        for tool in {**self._changing_with_time, **self._pending}:
            record, server_record = self._record(tool, now), self._servers.get(tool.server)
            self._changing_with_time.pop(tool, None)
            if record is None or server_record is None:
                continue
            tiers_before, was_degraded = record.tiers, record.health.degraded
            tiers_after = record.decide(now)
            if tiers_before != tiers_after or was_degraded != record.health.degraded:
                self._due_now.add(server_record.shard)
            if tiers_before != tiers_after:
                self.changes += 1
                moves.append(Move(tool, tiers_before, tiers_after, record.describe_move(tool.name, tiers_before)))
            if record.changes_with_time:
                self._changing_with_time[tool] = None
        self._pending.clear()
        return moves

    def due_documents(self, now: float, timestamp: str) -> list[State]:
        """State documents that have to be written now, with `timestamp` (RFC 3339) as the time of the decisions.

        Call `take_stored` after each write; a document that was not written is due again.
        """
        due_states = []
        for shard in sorted({*self._due_now, *self._figures_due, *self._uncompared_tools}):
            written_at = self._written_at.get(shard)
            is_old_enough = written_at is None or now - written_at >= self._figures_every
            if shard in self._due_now or (is_old_enough and self._figures_differ(shard)):
                due_states.append(self._document(shard, now, timestamp))
        return due_states

    def take_stored(self, state: State, now: float) -> None:
        """Record that the document was stored."""
        for shards in (self._due_now, self._figures_due):
            shards.discard(state.shard)
        self._uncompared_tools.pop(state.shard, None)
        if state.servers:
            self._written_at[state.shard] = now
        else:  # the empty document was deleted: its next figures are due without waiting for `figures_every`
            self._written_at.pop(state.shard, None)
        for server in state.servers:
            server_record = self._servers.get(ServerKey(server.namespace, server.name))
            if server_record is not None:
                server_record.published_states = {(tool.name, tool.environment): tool for tool in server.tools}
                server_record.round_trips_published = dict(server.round_trip_ms)

    def rewrite(self, shard: int) -> None:
        """Make a document due, because its stored copy was edited or deleted."""
        self._due_now.add(shard)

    def states(self, server: ServerKey, now: float) -> tuple[ToolState, ...]:
        """States of a server's tools as they would be published now."""
        server_record = self._servers.get(server)
        return () if server_record is None else self._tool_states(server_record, now)

    def slowest_tool(self, server: ServerKey) -> ToolState | None:
        """Published state of the server's tool with the highest p95; None before the first figures."""
        server_record = self._servers.get(server)
        states = () if server_record is None else server_record.published_states.values()
        measured_states = [state for state in states if state.quantiles and state.environment == self._environment]
        return max(
            measured_states,
            key=lambda state: (state.quantiles.p95_ms if state.quantiles else 0.0, state.name),
            default=None,
        )

    def count_tools(self) -> dict[str, int]:
        """Number of tools that each tier shows, by tier name."""
        count = {tier.name: 0 for tier in self._tiers}
        for server_record in self._servers.values():
            for name, declaration in server_record.declarations.items():
                for tier in self._tiers:
                    count[tier.name] += self._shows(server_record, name, declaration, tier)
        return count

    def _shows(self, server_record: _ServerRecord, name: str, declaration: Declaration, tier: Tier) -> bool:
        """Whether a tier shows a tool, by the tool's record, or else its published state, or else its declaration."""
        record = server_record.records.get((name, self._environment))
        if record is not None:
            return tier.name in record.tiers
        published = server_record.published_states.get((name, self._environment))
        if published is not None and published.tiers is not None:
            return tier.name in published.tiers
        floor = self._floors.of(declaration)
        return declaration.fits(tier) and not (floor is not None and floor.hides(tier))

    def _record(self, tool: ToolKey, now: float) -> ToolRecord | None:
        """Record of a tool, created if necessary; None for an unknown tool, or while no tiers are known."""
        server_record = self._servers.get(tool.server)
        if server_record is None or tool.name not in server_record.declarations or not self._tiers:
            return None
        key = (tool.name, tool.environment)
        record = server_record.records.get(key)
        if record is None:
            published = server_record.published_states.get(key)
            record = server_record.records[key] = self._new_record(server_record, *key, now, published)
            if published is not None and published.tiers != record.tiers:
                self._due_now.add(server_record.shard)
        return record

    def _new_record(
        self, server_record: _ServerRecord, name: str, environment: str, now: float, published: ToolState | None
    ) -> ToolRecord:
        probed = name in server_record.probed_tools and environment == self._environment
        return ToolRecord(
            self._tiers, replace(server_record.declarations[name], probed=probed), now=now, published=published
        )

    def _free_shard(self) -> int:
        """Number of the first shard with room for another server."""
        count: dict[int, int] = {}
        for server_record in self._servers.values():
            count[server_record.shard] = count.get(server_record.shard, 0) + 1
        shard = 0
        while count.get(shard, 0) >= SERVERS_PER_STATE:
            shard += 1
        return shard

    def _document(self, shard: int, now: float, timestamp: str) -> State:
        servers = [
            ServerState(
                namespace=key.namespace,
                name=key.name,
                round_trip_ms=dict(server_record.round_trips),
                tools=tools,
            )
            for key, server_record in sorted(self._servers.items())
            if server_record.shard == shard and (tools := self._tool_states(server_record, now))
        ]
        return State(shard=shard, servers=tuple(servers), decided_at=timestamp)

    def _tool_states(self, server_record: _ServerRecord, now: float) -> tuple[ToolState, ...]:
        """State of each tool, from its record if there is one, otherwise as published."""
        states = dict(server_record.published_states)
        for (name, environment), record in server_record.records.items():
            published = server_record.published_states.get((name, environment))
            states[name, environment] = record.state(name, environment, now, published)
        return tuple(states[key] for key in sorted(states))

    def _figures_differ(self, shard: int) -> bool:
        """Whether a figure of the shard changed enough to be published; if not, it is compared again after new
        samples.
        """
        for tool in self._uncompared_tools.pop(shard, ()):
            server_record = self._servers.get(tool.server)
            record = server_record.records.get((tool.name, tool.environment)) if server_record is not None else None
            if server_record is None or record is None:
                continue
            published = server_record.published_states.get((tool.name, tool.environment))
            if should_publish(published, record.window.quantiles(), record.measured_at):
                self._figures_due.add(shard)
                break
        return shard in self._figures_due


def _without_changed_tiers(state: ToolState, unchanged_tiers: Collection[str]) -> ToolState:
    """`state` without the decisions of tiers whose definitions have changed."""
    return msgspec.structs.replace(
        state,
        tiers=None if state.tiers is None else tuple(name for name in state.tiers if name in unchanged_tiers),
        hidden={name: reason for name, reason in state.hidden.items() if name in unchanged_tiers},
        fits={name: reason for name, reason in state.fits.items() if name in unchanged_tiers},
        points={name: points for name, points in state.points.items() if name in unchanged_tiers},
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
    """Share one object among equal declarations; most tools declare nothing."""
    return declaration
